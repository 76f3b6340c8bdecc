"""The same solver without its network."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.equations import EQUATIONS, Problem
from neuralsolver.solvers.network_free import without_network
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
    expected = problem.impose(guess - problem.measure(problem.residual(guess)))
    assert torch.allclose(one, expected, atol=1e-5)
    assert EQUATIONS["navier-stokes"].frames == solver.equation.frames
