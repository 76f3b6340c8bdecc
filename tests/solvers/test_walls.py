"""The shipped solvers on boxes as users have them: values on the walls, rectangles, small grids."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.data.reference_solution import solve_reference as ns_truth
from neuralsolver.equations import (
    Darcy,
    FixedValues,
    Grid,
    Helmholtz,
    Poisson,
    Problem,
)
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.direct import newton_correction

NAMES = ["poisson", "helmholtz", "nonlinear-helmholtz", "darcy"]


def wave(x, y):
    return torch.sin(3 * x) * torch.cos(2 * y)


def exact(problem):
    """Newton to round-off."""
    u = problem.first_guess()
    for _ in range(8):
        u = problem.impose(u + newton_correction(problem, u))
    return u


def error(solution):
    truth = exact(solution.problem)
    return float((solution.tensor - truth).norm() / truth.norm())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("points", [64, 90])
def test_values_on_the_walls_cost_no_more_than_zero(name, points):
    solver = ns.load(name)
    plain = Problem.random(solver.equation, points, seed=3)
    problem = Problem(solver.equation, plain.inputs, walls=wave)
    solution = solver.solve(problem, tolerance=1e-9)
    usual = solver.solve(plain, tolerance=1e-9)
    assert solution.good
    assert "remarks" not in solution.notes
    assert int(solution.steps) <= 1.3 * int(usual.steps)
    assert error(solution) < 1e-8
    x, y = problem.grid.points()
    assert torch.equal(solution.tensor[0, 0, 0], wave(x, y)[0])
    if solution.error_bound is not None:
        assert error(solution) <= float(solution.error_bound) < 1e-7
    else:
        assert name == "nonlinear-helmholtz"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("shape", "lengths", "words"),
    [
        ((64, 64), (0.6, 0.6), None),
        ((70, 96), (0.9, 0.6), "aspect ratio 1.5"),
        ((65, 80), (0.2, 1.0), "solved by .*5 times as long"),
        ((9, 20), (1.0, 1.0), "solved by .*needs 64 points"),
    ],
)
def test_rectangles_and_small_grids(name, shape, lengths, words):
    solver = ns.load(name)
    inputs = Problem.random(solver.equation, max(shape), seed=1).inputs[..., : shape[0], : shape[1]]
    problem = Problem(solver.equation, inputs, lengths=lengths)
    solution = solver.solve(problem, tolerance=1e-9)
    assert solution.good
    assert error(solution) < 1e-8
    remarks = solution.notes.get("remarks", [])
    assert bool(remarks) == (words is not None)
    if words:
        assert re.search(words, remarks[0])
        assert remarks[0] in solution.summary()
    if solution.error_bound is not None:
        assert error(solution) <= float(solution.error_bound) < 1e-7


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sides", [("walls", "flux"), ("periodic", ("walls", "flux"))])
def test_other_sides(name, sides):
    solver = ns.load(name)
    inputs = Problem.random(solver.equation, 40, seed=1).inputs
    if name == "nonlinear-helmholtz":
        inputs = inputs / 10  # less rigid than between walls: the fold comes sooner
    solution = solver.solve(Problem(solver.equation, inputs, sides=sides), tolerance=1e-9)
    assert solution.good
    assert error(solution) < 1e-7
    assert "knows walls only" in solution.notes["remarks"][0]
    if solution.error_bound is not None:
        assert error(solution) <= float(solution.error_bound)


def test_the_user_sees_his_own_units():
    """Sides of length 1000 make Δ a million times smaller and u as many times larger."""
    solver = ns.load("poisson")
    plain = Problem.random(solver.equation, 64, seed=4)
    large = Problem(solver.equation, plain.inputs, lengths=(1000.0, 1000.0))
    small, big = (solver.solve(p, tolerance=1e-9) for p in (plain, large))
    assert torch.allclose(big.tensor, 1e6 * small.tensor, rtol=1e-6, atol=1e-3)
    assert float(big.relative_residual) <= 1e-9
    seen = []
    solver.solve(large, steps=1, observe=seen.append)
    assert float(seen[-1].u.abs().max()) == pytest.approx(float(big.tensor.abs().max()), rel=0.2)


def test_points_held_inside_are_solved_without_the_network_and_bounded():
    solver = ns.load("darcy")
    mask = np.zeros((64, 64), dtype=bool)
    mask[20:30, 30:50] = True
    held = FixedValues(mask, np.full((64, 64), 0.3))
    problem = Problem(solver.equation, Problem.random(solver.equation, 64).inputs, fixed=held)
    solution = solver.solve(problem, tolerance=1e-10)
    assert solution.good
    assert int(solution.steps) <= 12
    assert error(solution) <= float(solution.error_bound) < 1e-6
    assert "no points held inside" in solution.summary()


def test_a_model_without_corrector_says_what_it_needs():
    solver = ns.load("poisson-fno")
    with pytest.raises(InvalidInput, match="unit square"):
        solver.solve(Problem(solver.equation, np.zeros((64, 65))))


def test_samples_of_one_batch_may_hold_different_points():
    solver = ns.load("poisson")
    mask = torch.zeros(2, 1, 32, 32, dtype=torch.bool)
    mask[0, 0, 5, 5] = mask[1, 0, 20:25, 9] = True
    inputs = Problem.random(solver.equation, 32, count=2).inputs
    problem = Problem(solver.equation, inputs, fixed=FixedValues(mask, torch.ones(2, 1, 32, 32)))
    together = solver.solve(problem, tolerance=1e-9)
    assert together.good
    for i in range(2):
        alone = solver.solve(problem.select([i]), tolerance=1e-9)
        assert torch.allclose(alone.tensor[0], together.tensor[i], atol=1e-7)


@pytest.mark.parametrize("points", [40, 64, 100])
def test_a_source_that_is_a_field(points):
    solver = ns.load("darcy")
    problem = Problem.random(Darcy(source="field"), points, seed=5)
    solution = solver.solve(problem, tolerance=1e-10)
    assert solution.good
    assert ("remarks" in solution.notes) == (points < 64)
    truth = ns_truth(problem.equation, problem.inputs.numpy())
    assert np.allclose(solution.tensor, truth.solution, atol=1e-7 * np.abs(truth.solution).max())
    assert error(solution) <= float(solution.error_bound) < 1e-6
    # the constant source is the constant field
    a = problem.inputs[:, :1]
    both = torch.cat([a, torch.full_like(a, 100.0)], 1)
    constant = solver.solve(Problem(Darcy(source=100.0), a), tolerance=1e-10)
    as_field = solver.solve(Problem(Darcy(source="field"), both), tolerance=1e-10)
    assert torch.allclose(constant.tensor, as_field.tensor, atol=1e-8)
    # in units in which nothing is of ordinary size
    odd = Problem(Darcy(source="field"), torch.cat([1e-9 * a, 1e20 * problem.inputs[:, 1:]], 1))
    far = solver.solve(odd, tolerance=1e-10)
    assert torch.allclose(far.tensor, 1e29 * solution.tensor, rtol=1e-6, atol=1e22)


def test_a_permeability_must_be_positive_and_a_source_need_not():
    fields = torch.stack([torch.ones(16, 16), -torch.ones(16, 16)])
    assert ns.load("darcy").solve(Problem(Darcy(source="field"), fields)).good
    with pytest.raises(InvalidInput, match="permeability"):
        Problem(Darcy(source="field"), -fields)


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "darcy"])
def test_three_dimensions(name):
    """sin πx sin πy sin πz, to second order, and cycles that do not depend on the grid."""
    solver, errors = ns.load(name), []
    constants = {
        "poisson": Poisson(scale=1.0),
        "helmholtz": Helmholtz(),
        "darcy": Darcy(source="field"),
    }
    for n in (13, 25):
        grid = Grid.between_walls(n, n, n)
        u = torch.stack([torch.sin(torch.pi * p) for p in grid.points()]).prod(0)
        f = -3 * torch.pi**2 * u
        inputs = {"poisson": f[None], "helmholtz": (f + u)[None]}.get(
            name, torch.stack([torch.full_like(u, 2.0), -2 * f])
        )
        problem = Problem(constants[name], inputs[None], grid=grid)
        solution = solver.solve(problem, tolerance=1e-9)
        assert solution.good
        assert int(solution.steps) <= 9
        assert float(solution.error_bound) < 1e-7
        assert "two dimensions" in solution.notes["remarks"][0]
        errors.append(float((solution.tensor - u).abs().max()))
    assert 3.5 < errors[0] / errors[1] < 4.5
