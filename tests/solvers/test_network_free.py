"""The same solver without its network."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, Problem
from neuralsolver.solvers.network_free import FEW_POINTS, without_network
from neuralsolver.solvers.norms import relative_error
from neuralsolver.training import load


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "nonlinear-helmholtz", "darcy"])
def test_between_walls_sweeps_and_acceleration_are_left(name):
    solver = load(name)
    problem = Problem.random(solver.equation, solver.resolution, seed=1)
    free, full = without_network(solver), solver.solve(problem, tolerance=1e-6)
    classical = free.solve(problem, tolerance=1e-6)
    assert full.good
    assert int(classical.steps) >= 4 * int(full.steps)
    one = free.solve(problem, steps=1).tensor
    # two Jacobi sweeps from zero, and nothing else
    assert not torch.equal(one, problem.zeros())
    assert float(one.norm()) < 0.1 * float(full.tensor.norm())


def test_of_a_flow_picard_is_left():
    solver = load("navier-stokes")
    problem = Problem.random(solver.equation, 64, seed=1).in_precision(torch.float32)
    one = without_network(solver).solve(problem, steps=1).tensor
    guess = problem.first_guess()
    expected = problem.impose(guess - problem.preconditioned_residual(problem.residual(guess)))
    assert torch.allclose(one, expected, atol=1e-5)
    assert EQUATIONS["navier-stokes"].frames == solver.equation.frames


@pytest.mark.parametrize("name", ["poisson", "nonlinear-helmholtz", "darcy"])
@pytest.mark.parametrize("coarsest", [64, FEW_POINTS])
def test_on_a_finer_grid_factors_stand_in_the_networks_place(name, coarsest):
    solver = load(name)
    problem = Problem.random(solver.equation, 100, count=2, seed=1)
    classical = without_network(solver, coarsest).solve(problem, tolerance=1e-10)
    assert classical.good
    assert int(classical.steps.max()) <= 12
    exact = torch.from_numpy(solve_reference(solver.equation, problem.inputs.numpy()).solution)
    assert float(relative_error(classical.tensor, exact).max()) < 1e-9


def test_on_the_trained_grid_the_factors_are_those_of_newton():
    solver = load("darcy")
    problem = Problem.random(solver.equation, 64, count=3, seed=1)
    solution = without_network(solver, 64).solve(problem, tolerance=1e-10)
    assert solution.good
    assert int(solution.steps.max()) == 1


def test_samples_that_stop_take_their_factors_along():
    solver = load("darcy")
    problem = Problem.random(solver.equation, 64, count=3, seed=1)
    free = without_network(solver, FEW_POINTS)
    exact = free.solve(problem, tolerance=1e-12).tensor
    start = problem.first_guess()
    start[1] = exact[1]
    solution = free.solve(problem, u0=start, tolerance=1e-9)
    assert solution.steps[1] == 0
    assert torch.allclose(solution.tensor, exact, rtol=1e-6, atol=1e-9)
