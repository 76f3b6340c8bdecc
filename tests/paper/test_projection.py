"""Least-norm steps against dense algebra."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Darcy, Helmholtz, Poisson, Problem
from paper.baselines.projection import least_norm_step, project


@pytest.mark.parametrize("equation", [Helmholtz(), Poisson(), Darcy()], ids=lambda e: e.name)
def test_one_least_norm_step_solves_a_linear_equation(equation):
    problem = Problem.random(equation, 16, 2, seed=1)
    exact = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    noise = torch.randn(exact.shape, generator=torch.Generator().manual_seed(2)).double()
    start = problem.impose(exact + 0.1 * noise)
    stepped = least_norm_step(problem, start)
    torch.testing.assert_close(stepped, exact, rtol=0, atol=1e-8 * float(exact.abs().max()))
    assert torch.equal(problem.impose(stepped), stepped)


def test_a_projection_is_the_dense_one():
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(6, 10, generator=generator, dtype=torch.float64)
    point, right = (torch.randn(1, k, generator=generator, dtype=torch.float64) for k in (10, 6))
    change = project(lambda x: x @ matrix.T - right, point, lambda rows: rows, 1e-6)
    gap = point @ matrix.T - right
    dense = torch.linalg.solve(matrix @ matrix.T + 1e-6 * torch.eye(6), gap[0]) @ matrix
    torch.testing.assert_close(change[0], dense)
