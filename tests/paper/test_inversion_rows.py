"""Rows of inversion: what a row holds, and that the page prints what the rows say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuralsolver.inversion import invert_field
from paper.inversion import CELLS, METHODS, SEED, Cell, calibration_error, inversion, measure_cell
from paper.inversion_tables import TABLES, frame_of
from paper.rows import read_rows

ROOT = Path(__file__).parents[2]
FILE = ROOT / "results" / "desk" / "inversion.jsonl"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_the_page_prints_the_rows(table):
    page = (ROOT / "docs" / "inversion.md").read_text()
    assert table(frame_of(read_rows(FILE))) in page


def test_rows_are_of_the_published_seed_and_of_known_cells():
    known = {(cell.group, cell.prior, cell.wells, cell.noise, cell.instances) for cell in CELLS}
    for row in read_rows(FILE):
        assert row["seed"] == SEED
        assert row["method"] in METHODS
        cell = tuple(row[name] for name in ("group", "prior", "wells", "noise", "instances"))
        assert cell in known
        assert len(row["each"]) == row["instances"]
        np.testing.assert_allclose(np.mean(row["each"]), row["cross_entropy"], atol=1e-4)


def test_a_row_is_measured_once(tmp_path, monkeypatch):
    cell = Cell("small", "two-phase", wells=12, resolution=20, instances=2)
    monkeypatch.setattr("paper.inversion.CELLS", (cell,))
    arguments = {"method": ["laplace"], "seed": 77, "results": tmp_path}
    inversion(**arguments)
    (row,) = read_rows(tmp_path / "inversion.jsonl")
    (again,) = measure_cell(cell, ["laplace"], 77, Path())
    assert row == {**again, "seconds": row["seconds"]}
    assert 0 < row["cross_entropy"] < np.log(2)
    inversion(**arguments)
    assert len(read_rows(tmp_path / "inversion.jsonl")) == 1


def test_probabilities_are_calibrated_when_they_come_true():
    rng = np.random.default_rng(0)
    p = rng.random(40_000)
    high = (rng.random(40_000) < p).astype(float)
    assert calibration_error(p, high) < 0.02
    assert calibration_error(np.where(p > 0.5, 0.99, 0.01), high) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["two-phase", "channels"])
def test_the_shipped_network_beats_a_small_ensemble(prior):
    """On instances of the seed of development, against ES-MDA with 200 members and 6 steps."""
    cell = Cell("small", prior, instances=6)
    ours, theirs = measure_cell(cell, ["ens", "es-mda-200x6"], 77, invert_field.WEIGHTS)
    assert ours["cross_entropy"] < theirs["cross_entropy"]
    assert ours["calibration"] < 0.05
