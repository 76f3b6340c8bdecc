"""The solvers' stencils against sine series, which share no code with them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from neuralsolver.errors import ReferenceFailure
from neuralsolver.reference.kerr import solve_kerr_waves
from neuralsolver.solvers.wave_newton import damped_newton
from neuralsolver.solvers.wave_operator import WaveOperator

WAVENUMBER = 11.0


def medium_and_source(points: int):
    x, y = np.meshgrid(*2 * [np.linspace(0, 1, points)], indexing="ij")
    slowness = 1 - 0.2 * np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * y) ** 2
    blob = np.exp(-30 * ((x - 0.4) ** 2 + (y - 0.55) ** 2))
    return slowness, (60 + 80j) * blob * np.sin(np.pi * x) * np.sin(np.pi * y)


@pytest.mark.parametrize("strength", [0.0, 0.01])
def test_the_stencils_approach_the_sine_series_with_their_order(strength):
    """ε|u|² is 0.06 at most, and changes u by a fifth: the box resonates."""
    reference = solve_kerr_waves(*medium_and_source(33), WAVENUMBER, strength)
    for order, least, most in ((2, 1.8, 0.03), (4, 3.9, 3e-5)):
        errors = []
        for points in (33, 65):
            problem = WaveOperator(
                *medium_and_source(points), WAVENUMBER, strength, order, layer=0.0
            )
            _, _, linear, unit = problem.normalised()
            answer = damped_newton(problem, linear * unit)
            assert answer.converged
            every = (points - 1) // 32
            error = np.abs(problem.embed(answer.u)[::every, ::every] - reference).max()
            errors.append(error / np.abs(reference).max())
        assert math.log2(errors[0] / errors[1]) > least
        assert errors[1] < most


def test_the_series_has_converged_and_failure_is_told():
    coarse = solve_kerr_waves(*medium_and_source(25), WAVENUMBER, 0.01)
    fine = solve_kerr_waves(*medium_and_source(33), WAVENUMBER, 0.01)
    assert np.abs(coarse[::3, ::3] - fine[::4, ::4]).max() < 1e-6 * np.abs(fine).max()
    with pytest.raises(ReferenceFailure, match="Kerr waves"):
        solve_kerr_waves(*medium_and_source(17), WAVENUMBER, 50.0)
