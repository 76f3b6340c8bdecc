"""Least-norm steps and the nearest pair, against dense algebra."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Darcy, Helmholtz, Poisson, Problem
from neuralsolver.samplers.finish import agreeing
from neuralsolver.samplers.projection import least_norm_step, project


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


@pytest.mark.parametrize("equation", [Helmholtz(), Poisson()], ids=lambda e: e.name)
def test_the_nearest_pair_agrees_and_is_nearer_than_a_solve(equation):
    problem = Problem.random(equation, 16, 2, seed=4)
    exact = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    generator = torch.Generator().manual_seed(5)
    scale = torch.tensor([[3.0, 0.01], [2.0, 0.02]], dtype=torch.float64)
    noise = torch.randn(2, 2, 16, 16, generator=generator, dtype=torch.float64)
    f = problem.inputs + scale[:, :1, None, None] * noise[:, :1]
    u = problem.impose(exact + scale[:, 1:, None, None] * noise[:, 1:])
    f2, u2 = agreeing(equation, f, u, scale)
    residual = Problem(equation, f2).residual(u2)
    assert float(residual.abs().max()) < 1e-6 * float(f.abs().max())

    def distance(g, v):
        steps = torch.cat([g - f, v - u], 1) / scale[:, :, None, None]
        return float(steps.square().sum())

    solved = torch.from_numpy(solve_reference(equation, f.numpy()).solution)
    assert distance(f2, u2) < distance(f, solved)
    assert distance(f2, u2) < distance(problem.inputs, exact)


def test_two_phases_stay_as_they_are():
    problem = Problem.random(Darcy(), 16, 1, seed=6)
    u = problem.zeros() + 0.1
    f2, u2 = agreeing(Darcy(), problem.inputs, u, torch.ones(1, 2))
    assert torch.equal(f2, problem.inputs)
    assert torch.equal(u2, u)
