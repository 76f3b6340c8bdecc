"""A status is true of the field that is returned, at the edges of floating-point numbers too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.serve.verdict import HEADLINES, MEANINGS
from neuralsolver.solvers import ResidualBelow, Status, iterate


@pytest.mark.parametrize(
    ("permeability", "source"), [(1e-180, 1e140), (1e180, 1e-148), (1e160, 1e-160)]
)
@pytest.mark.parametrize("network", [True, False])
def test_an_answer_that_does_not_fit_is_not_called_one(permeability, source, network):
    rng = np.random.default_rng(0)
    medium = permeability * rng.uniform(1.0, 2.0, (64, 64))
    problem = ns.Problem(ns.Darcy(source=source), medium)
    solution = ns.load("darcy").solve(problem) if network else ns.solve(problem)
    assert solution.status == (Status.OUT_OF_RANGE,)
    assert not solution.good
    assert "OUT_OF_RANGE" in solution.summary()


@pytest.mark.parametrize("tolerance", [1e-14, 1e-13, 1e-12, 1e-11])
def test_tolerance_holds_for_what_is_returned(tolerance):
    problem = ns.Problem.random(ns.Darcy(low=1.0, high=7.0), 64, count=4, seed=3)
    solution = ns.load("darcy").solve(problem, tolerance=tolerance)
    for status, residual in zip(solution.status, solution.relative_residual, strict=True):
        assert (status is Status.TOLERANCE) == bool(residual <= tolerance)
        assert status in (Status.TOLERANCE, Status.AT_ROUNDING)


def test_a_verdict_is_taken_again_on_what_is_returned():
    problem = ns.Problem.random(ns.Poisson(), 32, count=3)
    solution = ns.solve(problem, tolerance=1e-10)
    assert solution.status == (Status.TOLERANCE,) * 3
    solution.tensor[1] *= 1.0 + 1e-6
    solution.tensor[2] = torch.inf
    judged = solution.judged(1e-10)
    assert judged.status == (Status.TOLERANCE, Status.AT_ROUNDING, Status.OUT_OF_RANGE)


def test_stalling_and_rounding_are_two_things():
    problem = ns.Problem.random(ns.Darcy(), 64, seed=1)
    lowest = ns.solve(problem, tolerance=1e-17)
    assert lowest.status == (Status.AT_ROUNDING,)
    assert float(lowest.relative_residual) < 1e-10
    stuck = iterate(lambda now: now.u, problem, problem.zeros(), ResidualBelow(1e-6, 50, 5))
    assert stuck.judged(1e-6).status == (Status.STALLED,)
    assert Status.AT_ROUNDING.value != Status.STALLED.value
    assert not Status.AT_ROUNDING.good


def test_the_page_knows_every_status():
    for status in Status:
        assert status.name in HEADLINES
        assert status.name in MEANINGS


@pytest.mark.parametrize("option", ["--walls", "--mask"])
def test_a_flow_has_no_walls(option, tmp_path, capsys):
    np.save(tmp_path / "field.npy", np.ones((64, 64)))
    assert run(["solve", "navier-stokes", option, str(tmp_path / "field.npy")]) == 1
    said = capsys.readouterr().err.strip()
    assert "an equation with walls" in said
    assert "\n" not in said


def test_the_unit_of_the_tolerance_is_called_by_its_name(capsys):
    assert run(["solve", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "zero field" not in said


def test_a_solution_and_a_solver_at_a_prompt_are_a_few_lines():
    solution = ns.solve(ns.Problem.random(ns.Poisson(), 16, count=3), tolerance=1e-9)
    assert str(solution) == solution.summary()
    assert "Solution of poisson 16x16: 3 TOLERANCE" in repr(solution)
    solver = repr(ns.load("poisson"))
    assert "64 points" in solver
    assert max(len(repr(solution)), len(solver)) < 300
    assert solution._repr_html_().count("data:image/png") == 1


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("tolerance", [1e-14, 1e-13, 1e-12, 1e-11])
def test_the_printed_residual_of_a_tolerance_is_below_it(seed, tolerance):
    """Ordinary Darcy, whose mean permeability is no power of two: 6 of 28 were above it once."""
    rng = np.random.default_rng(seed)
    problem = ns.Problem(ns.Darcy(), np.exp(rng.standard_normal((64, 64))))
    solution = ns.load("darcy").solve(problem, tolerance=tolerance)
    reached = float(solution.relative_residual)
    assert solution.status[0] in (Status.TOLERANCE, Status.AT_ROUNDING)
    assert (solution.status[0] is Status.TOLERANCE) == (reached <= tolerance)
    raw = problem.residual(solution.tensor).square().mean().sqrt()
    assert float(raw / solution.residual_scale) == pytest.approx(reached, rel=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1.0, 1e120, 1e200])
@pytest.mark.parametrize("source", [0.0, 1.0, 1e-148])
@pytest.mark.parametrize("equation", [ns.Poisson(), ns.Helmholtz(), ns.Darcy(source=1e-148)])
def test_walls_of_any_size_are_solved_and_returned_to_the_last_bit(equation, source, size):
    rng = np.random.default_rng(0)
    walls = size * (1.0 + rng.random((24, 24)))
    medium = 1e180 * rng.uniform(1.0, 2.0, (24, 24))
    inputs = medium if isinstance(equation, ns.Darcy) else np.full((24, 24), source)
    problem = ns.Problem(equation, inputs, walls=walls)
    solution = ns.solve(problem, tolerance=1e-10)
    assert solution.status == (Status.TOLERANCE,)
    on_wall = problem.grid.on_wall.numpy()
    assert np.array_equal(solution.u[on_wall], walls[on_wall])
    if source == 0.0 or isinstance(equation, ns.Darcy):
        assert solution.u.max() <= walls.max() * 1.2
        assert solution.u.min() >= walls.min() * 0.8


def test_walls_take_part_in_the_units_beside_a_network():
    walls = 1e200 * np.random.default_rng(0).random((64, 64))
    for name, equation in (("poisson", ns.Poisson()), ("darcy", ns.Darcy())):
        problem = ns.Problem(equation, np.full((64, 64), 5.0), walls=walls)
        solution = ns.load(name).solve(problem, tolerance=1e-9)
        assert solution.status == (Status.TOLERANCE,)
        on_wall = problem.grid.on_wall.numpy()
        assert np.array_equal(solution.u[on_wall], walls[on_wall])
