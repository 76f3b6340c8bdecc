"""The benches of boxes and batches, on the smallest cases."""

from __future__ import annotations

import pytest

from neuralsolver.bench import batch, boxes


@pytest.mark.parametrize(
    "method", [name for name in boxes.METHODS if "LU" not in name and "PyAMG R" not in name]
)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_every_method_solves_the_same_problem(method, equation):
    if "PyAMG" in method:
        pytest.importorskip("pyamg")
    row = boxes.one(equation, 32, method, seed=1)
    assert row["residual"] <= 1.01 * boxes.TOLERANCE
    assert row["iterations"] <= 25
    assert (row["iterations"] == 0) == (method == "sine transform" and equation == "poisson")
    assert 0 <= row["setup_seconds"] <= row["seconds"]
    assert f"{row['iterations']:10d}" in boxes.table([row])


def test_a_poisson_problem_is_uniform_and_a_darcy_problem_is_not():
    uniform, mixed = (boxes.problem_of(name, 16, 5) for name in ("poisson", "darcy"))
    assert float(uniform.inputs[:, 0].std()) == 0
    assert float(mixed.inputs[:, 0].std()) > 0


def test_a_case_that_fails_is_a_row():
    row = boxes._apart("poisson", 32, "no such method", 0)
    assert "no such method" in row["failed"]
    assert "failed" in boxes.table([row])


def test_a_batch_costs_less_of_a_core_than_its_samples_one_by_one():
    told = []
    rows = batch.measure(samples=[3], repeats=1, tell=lambda *what: told.append(what))
    assert [(row["equation"], row["threads"]) for row in rows] == [
        (name, threads) for name in batch.EQUATIONS for threads in (1, 2)
    ]
    for row in rows:
        assert row["difference"] < 1e-9
        assert 0.3 < row["network_share"] < 1
        assert row["processor_ratio"][0] > 0.5  # noise on a busy machine, but never a collapse
    assert len(told) == 3
    assert "helmholtz" in batch.table(rows)
