"""Small changes of constants and conditions that must not pass unnoticed."""

from __future__ import annotations

import shutil

import pytest
import torch

import neuralsolver as ns
from neuralsolver.errors import FileDamaged
from neuralsolver.fields.jacobian import jacobian_row_sums
from neuralsolver.fields.units import exponent_of, scaled
from neuralsolver.solvers import ResidualBelow, Status, iterate, polish
from neuralsolver.solvers.norms import residual_norm
from neuralsolver.training.library import locate

EPS = torch.finfo(torch.float64).eps


@pytest.fixture
def solved():
    return ns.solve(ns.Problem.random(ns.Poisson(), 32), tolerance=1e-12)


def rows_of(solution):
    return float(jacobian_row_sums(solution.problem, solution.tensor).max())


def test_a_polish_that_ends_just_above_its_target_says_so():
    problem = ns.Problem.random(ns.Darcy(), 32)
    start = iterate(lambda now: now.u, problem, problem.zeros(), ResidualBelow(1e-6, 1))
    lowest = float(polish(start, 1e-17).relative_residual)
    ended = polish(start, lowest / 4)
    assert float(ended.relative_residual) > lowest / 4
    assert ended.status == (Status.STEP_LIMIT,)


def test_the_bound_allows_for_all_roundings_of_its_proof(solved):
    """16 operations round by half a unit each of at most the row sum times the largest value."""
    sigma = float(solved.problem.smallest_singular_value())
    least = 8 * EPS * rows_of(solved) / sigma
    assert float(solved.error_bound) >= least


def test_the_bound_allows_for_the_rounding_of_sigma(solved, monkeypatch):
    sigma = torch.tensor([256 * EPS * rows_of(solved)], dtype=torch.float64)
    monkeypatch.setattr(ns.Problem, "smallest_singular_value", lambda self: sigma)
    # distance 128/(256 − 64) of the size of u, instead of 128/256
    assert float(solved.error_bound) > 1.5


@pytest.mark.parametrize(("growth", "diverges"), [(3e3, False), (3e4, True)])
def test_a_residual_that_grows_ten_thousand_times_is_divergence(growth, diverges):
    problem = ns.Problem.random(ns.Poisson(), 16)
    start = ns.solve(problem, tolerance=1e-12).tensor
    wave = problem.impose(torch.randn(start.shape, dtype=torch.float64))
    size = residual_norm(problem.residual(start + wave))

    def worse(now):
        return start + wave * growth * (residual_norm(now.residual) / size).view(-1, 1, 1, 1)

    ended = iterate(worse, problem, start + wave, ResidualBelow(1e-20, 1))
    assert (ended.status == (Status.DIVERGED,)) is diverges


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_the_step_limit_is_the_number_of_steps(limit):
    problem, calls = ns.Problem.random(ns.Poisson(), 16), []

    def stand_still(now):
        calls.append(1)
        return now.u

    ended = iterate(stand_still, problem, problem.zeros(), ResidualBelow(1e-9, limit))
    assert ended.status == (Status.STEP_LIMIT,)
    assert len(calls) == limit == int(ended.steps)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-7, 1e10, 1.7e308])
def test_units_are_powers_of_two_that_bring_any_number_to_ordinary_size(size):
    given = torch.tensor([size], dtype=torch.float64)
    ordinary = scaled(given, -exponent_of(given))
    assert 64 <= float(ordinary) < 128
    assert torch.equal(scaled(ordinary, exponent_of(given)), given)


@pytest.mark.parametrize("exponent", [3000, -3000])
def test_a_unit_beyond_all_numbers_makes_no_nan(exponent):
    """Nothing but zero fits there; 0 times a power that is infinite would be no number."""
    fields = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    nothing, one = scaled(fields, torch.tensor([exponent]))[0].tolist()
    assert nothing == 0
    assert one == (float("inf") if exponent > 0 else 0)


def test_weights_that_are_not_those_of_the_card_are_refused(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(locate("poisson"), folder)
    (weights,) = (file for file in folder.iterdir() if file.suffix not in (".json", ".md"))
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1  # a weight, not the header
    weights.write_bytes(bytes(data))
    with pytest.raises(FileDamaged):
        ns.load(str(folder))
