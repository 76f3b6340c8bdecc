"""The comparison on shapes: every method gets there, ours in a few cycles."""

from __future__ import annotations

from neuralsolver.bench.shapes import measure, shapes, table


def test_shapes_are_inside_the_square_and_leave_room():
    for outside in shapes(64).values():
        assert 0.02 < outside.mean() < 0.98


def test_every_method_meets_its_target():
    rows = measure((48,), ("poisson", "darcy"))
    assert len(rows) == 2 * 2 * 4
    # PyAMG starts from random vectors: a second hierarchy is not quite the first
    assert all(row["error"] <= 1.5 * row["target"] for row in rows)
    ours = [row for row in rows if row["method"].startswith("multigrid")]
    assert max(row["iterations"] for row in ours) <= 10
    assert all(row["error"] <= row["target"] for row in ours)
    assert len(table(rows).splitlines()) == 1 + len(rows)
