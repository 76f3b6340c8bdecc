"""The benchmark's rows and table, on its cheapest rows."""

from __future__ import annotations

import numpy as np

from neuralsolver.bench import reference as bench
from neuralsolver.reference import cosine_field


def test_a_row_says_what_was_measured() -> None:
    source = 100.0 * cosine_field(np.random.default_rng(0), bench.RESOLUTION)[None]
    row = bench._linear("Helmholtz κ=1", source, 1.0)
    assert row["ratio"] == row["baseline_seconds"] / row["seconds"]
    assert row["reached"] == (row["ratio"] >= row["target"] == 40.0)
    low, high = row["ratio_spread"][1:]
    assert 0 < low <= row["ratio_spread"].median <= high
    assert 0.0 < row["error"] < 1e-11
    assert 0.0 < row["baseline_error"] < 1e-11


def test_a_missed_target_is_printed_with_a_reason() -> None:
    row = bench._row(
        "Poisson", "ours", "theirs", pairs=[[1.0, 1.0], [1.5, 2.5]], target=3.0,
        error=0.0, baseline_error=0.0, error_against="truth",
    )  # fmt: skip
    text = bench.table([row])
    assert "2.0x (2 to 2)" in text
    assert "3x MISSED" in text
    assert "below its target" in text
