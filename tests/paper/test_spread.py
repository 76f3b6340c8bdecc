"""Intervals of means, and whether an iteration came to rest."""

import numpy as np
import pytest

from paper.cells import FEWEST, bootstrap_interval, convergence, normal_interval


def covered(draw, mean, count, interval, trials=400):
    """How often the interval of a sample holds the mean of its distribution."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(trials):
        low, high = interval(draw(rng, count))
        hits += low <= mean <= high
    return hits / trials


def normal(errors):
    return normal_interval(float(np.mean(errors)), float(np.std(errors)), len(errors))


def test_both_intervals_hold_the_mean_as_often_as_they_say():
    def draw(rng, count):
        return rng.normal(1.0, 0.2, count)

    assert 0.92 < covered(draw, 1.0, 40, bootstrap_interval) < 0.98
    assert 0.93 < covered(draw, 1.0, 40, normal) < 0.97
    # Student's quantile, not 1.96: few samples are less sure of their spread
    assert covered(draw, 1.0, FEWEST, normal) > 0.93


def test_the_bootstrap_sees_a_long_tail_and_is_the_same_twice():
    errors = [1e-3] * 30 + [1.0, 0.5]
    low, high = bootstrap_interval(errors)
    mean = sum(errors) / len(errors)
    assert high - mean > 1.2 * (mean - low)
    assert low > 0 > normal(errors)[0]
    assert bootstrap_interval(errors) == (low, high)


@pytest.mark.parametrize("errors", [[], [1.0] * (FEWEST - 1), [1.0] * 20 + [None]])
def test_no_interval_without_enough_errors(errors):
    assert bootstrap_interval(errors) is None


def test_a_spread_needs_as_many():
    assert normal_interval(1.0, 0.1, FEWEST - 1) is None
    assert normal_interval(float("nan"), 0.1, 100) is None


def history(error, residual=None):
    return {"error": list(error), "residual": list(residual or [e and e**2 for e in error])}


FALLEN = [1.0, 0.3, 0.1, 0.05, 0.05, 0.05, 0.05]
"""Over the last third, two of six steps, nothing happens."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FALLEN, "yes"),
        ([0.7**k for k in range(7)], "no, still falling"),
        ([*FALLEN, 0.06, 0.07], "no, rising"),
        ([*FALLEN, 0.051, 0.051], "yes"),
        ([1.0, 0.99, 0.98, 0.98, 0.98], "no, not left its start"),
        ([1.0, 1.2, 1.5, 3.0, 8.0], "no, rising"),
        ([1.0, 0.1, 0.1, 0.1, None], "no, diverged"),
        ([1.0, 0.1], "no, too few steps"),
    ],
)
def test_convergence_can_fail(error, words):
    assert convergence(history(error)) == words


def test_error_and_residual_both_have_to_rest():
    """A residual that still falls while the error rises is the gap of Proposition 1."""
    assert convergence(history(FALLEN, [0.5**k for k in range(7)])) == "no, still falling"
    assert convergence(history(FALLEN), diverged=3, samples=100) == "no, 3 of 100 diverged"
    assert convergence(None) == "no, too few steps"
