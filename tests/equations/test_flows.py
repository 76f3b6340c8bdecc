"""Flows: the order of the time differences, products without aliasing, and what a floor is."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from neuralsolver.data import DatasetSpec
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, NavierStokes, Problem, equation_named
from neuralsolver.equations.navier_stokes import CENTRAL, ONE_SIDED, time_derivative
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.fourier import advection, resample, vorticity_derivatives
from neuralsolver.reference import diagonal_forcing
from neuralsolver.reference.vorticity import Flow
from tests.equations.test_residuals import check_equation
from tests.exact import torus_grid


def noise(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def along_time(values):
    return values[None, None, :, None, None].expand(1, 1, len(values), 2, 2)


@pytest.mark.parametrize(("weights", "place"), [(CENTRAL, 2), (ONE_SIDED[0], 0), (ONE_SIDED[1], 1)])
def test_the_weights_solve_their_five_equations(weights, place):
    """Σ cⱼ (j − place)^p = 12 [p = 1] for p = 0 … 4."""
    moments = np.vander(np.arange(5.0) - place, 5, increasing=True).T
    assert np.allclose(np.linalg.solve(moments, [0, 12, 0, 0, 0]), weights, atol=1e-11)


@pytest.mark.parametrize("frames", [5, 6, 9])
def test_fourth_order_is_exact_on_quartics_at_every_frame(frames):
    t = 0.3 * torch.arange(frames, dtype=torch.float64)
    derivative = time_derivative(along_time(t**4 - 2 * t**3 + t), 0.3, order=4)
    expected = along_time(4 * t**3 - 6 * t**2 + 1)
    assert torch.allclose(derivative, expected, atol=1e-10)


@pytest.mark.parametrize(("order", "inside", "ends"), [(2, 2.0, 1.0), (4, 4.0, 4.0)])
def test_the_order_in_time(order, inside, ends):
    errors = []
    for count in (20, 40, 80):
        t = torch.linspace(0, 1, count + 1, dtype=torch.float64)
        wrong = time_derivative(along_time(torch.sin(3 * t + 0.4)), 1 / count, order)
        wrong = (wrong - along_time(3 * torch.cos(3 * t + 0.4)))[0, 0, :, 0, 0].abs()
        errors.append([float(wrong[2:-2].max()), float(wrong[0]), float(wrong[-1])])
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert orders[-1] == pytest.approx([inside, ends, ends], abs=0.15)


def test_second_order_is_what_it_was():
    """The default is the paper's residual, written out here once more."""
    equation, w = NavierStokes(frames=4), noise(2, 1, 5, 16, 16)
    v1, v2, w1, w2, laplacian = vorticity_derivatives(w)
    rate = torch.empty_like(w)
    rate[:, :, 0], rate[:, :, -1] = w[:, :, 1] - w[:, :, 0], w[:, :, -1] - w[:, :, -2]
    rate[:, :, 1:-1] = (w[:, :, 2:] - w[:, :, :-2]) / 2
    force = torch.from_numpy(diagonal_forcing(16))
    expected = rate / 0.2 + v1 * w1 + v2 * w2 - 1e-4 * laplacian - force
    assert torch.allclose(
        Problem(equation, w[:, :, 0]).residual(w), expected, rtol=1e-12, atol=1e-10
    )


@pytest.mark.parametrize("dealiasing", ["3/2", "2/3"])
@pytest.mark.parametrize("name", ["navier-stokes", "kolmogorov"])
def test_the_other_residuals_keep_the_contract(name, dealiasing):
    changes = {"time_order": 4, "dealiasing": dealiasing, "frames": 5}
    check_equation(equation_named(name, changes))


def advected(w, kept, points):
    """The modes of v·∇w on the grid of w, as fields."""
    modes = advection(torch.fft.rfft2(w, norm="forward"), kept, points)
    return torch.fft.irfft2(modes, s=w.shape[-2:], norm="forward")


@pytest.mark.parametrize("n", [8, 10, 16, 26, 32])
def test_three_halves_products_are_those_of_a_fine_grid(n):
    """Whatever the field, the modes of the grid come out as on a grid that holds all of them."""
    w = resample(noise(1, n, n), n)
    v1, v2, w1, w2, _ = vorticity_derivatives(resample(w, 4 * n))
    expected = resample(v1 * w1 + v2 * w2, n)
    product = advected(w, n // 2 - 1, 2 * math.ceil(3 * n / 4))
    assert torch.allclose(product, expected, atol=1e-11 * float(expected.abs().max()))
    v1, v2, w1, w2, _ = vorticity_derivatives(w)
    assert not torch.allclose(product, v1 * w1 + v2 * w2, atol=1e-2)


@pytest.mark.parametrize("n", [8, 16, 20, 48])
def test_two_thirds_products_are_those_of_the_reference_solver(n):
    """The same semi-discrete equation, written twice."""
    flow = Flow(n, 1e-3, np.zeros((n, n)))
    w = noise(n, n, seed=n).numpy()
    expected = -flow.to_points(flow.tendency(flow.to_modes(w)))
    product = advected(torch.from_numpy(w), (n - 1) // 3, n).numpy()
    assert np.allclose(product, expected, atol=1e-11 * np.abs(expected).max())


def test_resampling_keeps_what_fits():
    x, y = torus_grid(24)
    fine = torch.cos(2 * math.pi * 3 * x) * torch.sin(2 * math.pi * y) + 0.5
    x, y = torus_grid(10)
    coarse = torch.cos(2 * math.pi * 3 * x) * torch.sin(2 * math.pi * y) + 0.5
    assert torch.allclose(resample(fine, 10), coarse, atol=1e-13)
    assert torch.allclose(resample(coarse, 24), fine, atol=1e-13)


def test_a_mean_vorticity_stays_and_moves_nothing():
    w = noise(1, 1, 5, 16, 16)
    for dealiasing in ("none", "3/2", "2/3"):
        equation = NavierStokes(frames=4, time_order=4, dealiasing=dealiasing)
        r = Problem(equation, w[:, :, 0]).residual(w)
        assert torch.allclose(Problem(equation, w[:, :, 0]).residual(w + 3.0), r, atol=1e-10)


def test_the_floor_falls():
    """The truth at 16 points, integrated at 48: each choice lowers what its residual leaves."""
    base = NavierStokes(viscosity=2e-3, start_time=0.5, frames=8, frame_spacing=0.1)
    fine = solve_reference(base, Problem.random(base, 48, seed=3).inputs.numpy()).solution

    def floor(points, **changes):
        equation = dataclasses.replace(base, **changes)
        w = resample(torch.from_numpy(fine), points)
        return float(Problem(equation, w[:, :, 0]).residual(w).square().mean())

    assert floor(48, time_order=4) < 0.1 * floor(48)
    assert floor(48, time_order=4, dealiasing="2/3") <= floor(48, time_order=4)
    assert floor(16, time_order=4, dealiasing="3/2") < 0.7 * floor(16, time_order=4)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"time_order": 3}, "time_order"),
        ({"time_order": 4, "frames": 3}, "frames"),
        ({"frames": 1}, "frames"),
        ({"dealiasing": "some"}, "dealiasing"),
    ],
)
def test_bad_constants_are_named(changes, field):
    with pytest.raises(InvalidInput, match=f"{field}: expected .*got"):
        NavierStokes(**changes)


def test_too_few_frames_for_the_differences():
    with pytest.raises(InvalidInput, match="frames: expected at least 5"):
        time_derivative(noise(1, 1, 4, 8, 8), 0.1, order=4)


def test_the_paper_choice_leaves_descriptions_as_they_were():
    assert "time_order" not in EQUATIONS["kolmogorov"].constants()
    changed = equation_named("kolmogorov", {"time_order": "4", "dealiasing": "2/3"})
    constants = changed.constants()
    assert (constants["time_order"], constants["dealiasing"]) == (4, "2/3")
    assert equation_named("kolmogorov", constants) == changed
    before = DatasetSpec(EQUATIONS["kolmogorov"], 1, 32).fingerprint
    assert before == DatasetSpec(equation_named("kolmogorov", {"time_order": 2}), 1, 32).fingerprint
    stirred = dataclasses.replace(changed, forcing_amplitude=5.0)
    assert before != DatasetSpec(stirred, 1, 32).fingerprint


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "darcy", "nonlinear-helmholtz"])
def test_without_an_initial_frame_the_first_guess_is_zero(name):
    problem = Problem.random(EQUATIONS[name], 9, 2)
    assert torch.equal(problem.first_guess(), torch.zeros(2, 1, 9, 9, dtype=torch.float64))
