"""Pairs that take turns, and what a dataset costs."""

import pytest

from neuralsolver.bench import datasets
from neuralsolver.bench.pairs import Ratio, interleaved, ratio


def test_calls_take_turns_and_the_order_alternates():
    order = []
    seconds = interleaved(lambda: order.append("a"), lambda: order.append("b"), pairs=3)
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"
    assert [len(times) for times in seconds] == [3, 3]
    assert all(time >= 0 for times in seconds for time in times)


def test_the_ratio_is_of_pairs_not_of_means():
    """A neighbour that slows both calls of one pair tenfold changes no ratio."""
    quiet, loud = [1.0, 1.0, 10.0, 1.0], [2.0, 2.0, 20.0, 2.2]
    found = ratio(quiet, loud)
    assert found.median == pytest.approx(2.0)
    assert found.low <= found.median <= found.high < 2.2
    assert ratio([1.0], [3.0]) == Ratio(3.0, 3.0, 3.0)


def test_a_dataset_says_what_it_costs():
    (row,) = (r for r in [datasets._one("poisson", 16, 2)])
    assert 0 < row["seconds"] < 5
    assert row["peak_mb"] > row["added_mb"] >= 0
    assert row["stored_mb"] > 2 * 16 * 16 * 4 / 2**20
    text = datasets.table([{"equation": "poisson", "resolution": 16, "samples": 2, **row}])
    assert "poisson" in text.splitlines()[1]
