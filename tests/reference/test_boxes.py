"""The cube: its reference solvers against exact solutions and against the residual in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.equations import Darcy, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.reference import box_field, solve_darcy, solve_shifted_laplacian


def test_an_eigenfunction_is_solved_exactly():
    n = 17
    x, y, z = np.meshgrid(*3 * [np.linspace(0, 1, n)], indexing="ij")
    u = np.sin(2 * np.pi * x) * np.sin(np.pi * y) * np.sin(3 * np.pi * z)
    angles = np.array([2, 1, 3]) * np.pi / (n - 1)
    eigenvalue = -4 * (n - 1) ** 2 * (np.sin(angles / 2) ** 2).sum()
    found = solve_shifted_laplacian((eigenvalue * u)[None], 0.0)[0]
    assert np.abs(found - u).max() < 1e-12


@pytest.mark.parametrize("n", [8, 13, 20])
def test_the_residual_in_torch_vanishes_on_the_reference(n):
    problem = Problem.random(Darcy(source="field", dimension=3), n, count=3, seed=4)
    a, f = problem.inputs[:, 0].numpy(), problem.inputs[:, 1].numpy()
    u = torch.from_numpy(solve_darcy(a, f, tolerance=1e-11).u)[:, None]
    assert float(problem.residual(u).norm()) < 1e-9 * float(problem.inputs[:, 1].norm())
    poisson = Problem(Poisson(scale=1.0), problem.inputs[:1, 1:], lengths=(1, 1, 1))
    u = torch.from_numpy(solve_shifted_laplacian(f[:1], 0.0))[:, None]
    assert float(poisson.residual(u).norm()) < 1e-10 * float(poisson.inputs.norm())


def test_iterations_do_not_grow_with_the_grid():
    counts = []
    for n in (12, 24):
        a, f = Darcy(source="field", dimension=3).sample(np.random.default_rng(0), n)
        assert a.std() > 0
        counts.append(solve_darcy(a[None], f[None], tolerance=1e-8).iterations[0])
    assert max(counts) <= 24


def test_a_field_is_the_same_function_on_every_grid_and_has_no_mean():
    coarse, fine = (box_field(np.random.default_rng(1), n) for n in (9, 17))
    assert np.abs(coarse - fine[::2, ::2, ::2]).max() < 1e-12
    assert coarse.shape == (9, 9, 9)


def test_bad_input_is_named():
    ones = np.ones((1, 8, 8, 8))
    with pytest.raises(InvalidInput, match="permeability"):
        solve_darcy(-ones, ones)
    with pytest.raises(InvalidInput, match="source"):
        solve_shifted_laplacian(np.full_like(ones, np.nan), 0.0)
    with pytest.raises(InvalidInput, match=r"shape \(B, n, n\) or \(B, n, n, n\)"):
        solve_shifted_laplacian(np.ones((1, 8, 8, 9)), 0.0)
