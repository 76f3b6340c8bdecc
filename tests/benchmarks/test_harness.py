"""The races: every method meets the target on the same instances, and takes its turn."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from benchmarks.__main__ import app
from benchmarks.domains import FAMILIES as SHAPES
from benchmarks.domains import fresh
from benchmarks.families import FAMILIES, measure, pattern
from benchmarks.harness import Instance, Method, race, table
from neuralsolver.cli import run
from neuralsolver.equations import Poisson, Problem
from neuralsolver.errors import InvalidInput


def made_up(name, order, misses=()):
    """A method that writes down its turns, and stops as far from the answer as it is told."""

    def solve(one, state, tolerance):
        order.append(name)
        return one.exact * (1 + (0.5 * tolerance if tolerance not in misses else 1.0)), 3

    return Method(name, lambda one: None, solve)


def test_methods_take_turns_after_a_search_that_is_not_timed():
    order, one = [], Instance("poisson", 16, Problem.random(Poisson(), 16))
    rows = race([one], [made_up("a", order), made_up("b", order)], 1e-3, repeats=2)
    search, turns = order[:-4], order[-4:]
    assert turns == ["a", "b", "a", "b"]
    assert search == sorted(search)  # first a looks for its tolerance, then b
    assert [row["reached"] for row in rows] == [True, True]
    # the largest tolerance of 0.1, 0.0316, … whose half is at most 1e-3
    assert rows[0]["miss"] == pytest.approx(0.5e-3, rel=1e-6)


def test_a_method_that_misses_is_said_to_miss():
    one = Instance("poisson", 16, Problem.random(Poisson(), 16))
    never = Method("never", lambda one: None, lambda one, state, t: (one.problem.zeros(), 1))
    (row,) = race([one], [never], 1e-4, repeats=1)
    assert not row["reached"]
    assert row["miss"] == pytest.approx(1.0)
    assert "MISSED" in table([row])
    assert "*" not in table([row])


def test_the_exact_solution_solves_with_wall_values_and_fixed_points():
    problem = Problem.random(Poisson(), 24, seed=3)
    held = Problem(problem.equation, problem.inputs, walls=pattern(*problem.grid.points()))
    one = Instance("poisson", 24, held)
    residual = held.residual(one.exact).norm() / held.residual(held.zeros().double()).norm()
    assert float(residual) < 1e-12
    assert one.miss(one.exact) == 0.0


@pytest.mark.parametrize("family", ["darcy", "helmholtz", "shapes"])
def test_every_method_meets_its_target(family):
    rows = measure(family, [66], samples=1, seed=3, repeats=1)
    assert all(row["reached"] for row in rows), table(rows)
    assert all(row["miss"] <= 1.01 * row["target"] for row in rows)
    assert all(0 <= row["setup_seconds"] <= row["seconds"] for row in rows)
    names = {row["method"] for row in rows}
    assert {"sparse LU"} < names
    for case in FAMILIES[family].cases:
        assert {row["method"] for row in rows if row["case"] == case} == names
    assert table(rows).count("*") >= len(FAMILIES[family].cases)


def test_boxes_are_solved_to_their_residual():
    rows = measure("boxes", [32], repeats=1)
    assert all(row["reached"] and row["judged_by"] == "residual" for row in rows)
    direct = {row["case"] for row in rows if row["iterations"] == 0}
    assert direct == {"poisson box"}  # a uniform medium is one sine transform


def test_wall_values_cost_no_more_than_a_few_steps():
    rows = measure("walls", [64], samples=1, repeats=1)
    steps = {row["case"]: row["iterations"] for row in rows}
    assert len(steps) == 8
    assert steps["poisson, u = g"] <= steps["poisson, u = 0"] + 3


def test_a_batch_answers_as_its_samples_do():
    rows = measure("batches", [2], repeats=1)
    assert [row["method"] for row in rows[:3]] == [
        "one by one",
        "batch, 1 thread",
        "batch, 2 threads",
    ]
    for case in FAMILIES["batches"].cases:
        assert len({row["iterations"] for row in rows if row["case"] == case}) == 1


def test_shapes_leave_room():
    rng = np.random.default_rng(0)
    for family in SHAPES:
        assert 0.0 < fresh(rng, 64, family).mean() < 0.98


def test_the_command_prints_rows(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    command = ["poisson", "--sizes", "64", "--samples", "1", "--repeats", "1", "--json"]
    assert run(command, app) == 0
    torch.set_num_threads(before)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["family"], row["size"]) for row in rows} == {("poisson", 64)}
    assert run(["nothing"], app) == 1
    assert run(["darcy", "--sizes", "7"], app) == 1
    with pytest.raises(InvalidInput, match="family"):
        measure("nothing")
