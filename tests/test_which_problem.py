"""docs/which_problem.md: every line runs, Python and shell agree, seconds are the stored ones."""

from __future__ import annotations

import importlib.util
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from neuralsolver.cli import run

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location(
    "time_problems", ROOT / "docs" / "building" / "time_problems.py"
)
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)
TEXT = page.PAGE.read_text()
ROWS = page.rows(TEXT)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        known: dict = {"folder": folder}
        exec(page.setup(TEXT), known)
    return known


def test_there_are_rows():
    assert len(ROWS) >= 18


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["problem"])
def test_both_lines_of_a_row_solve_the_same(row, names, tmp_path, monkeypatch):
    monkeypatch.chdir(names["folder"])
    answer = eval(row["python"], names)
    if answer is not None and hasattr(answer, "good"):
        assert answer.good
    if not row["shell"]:
        return
    words = shlex.split(row["shell"])
    assert words[0] == "ens"
    out = ["--output", str(tmp_path / "u.npy")] if words[1] == "solve" else []
    assert run([*words[1:], *out]) == 0
    random = "random_problem" in row["python"] or "--input" not in words
    if out and not random:
        assert np.allclose(np.load(tmp_path / "u.npy"), answer.u, rtol=1e-5, atol=1e-6)


def test_the_seconds_are_those_that_were_measured():
    stored = [json.loads(line) for line in page.ROWS.read_text().splitlines()]
    for row, line in zip(stored, [line for line in TEXT.splitlines() if page.ROW.match(line)],
                         strict=True):  # fmt: skip
        assert row["python"] in line
        assert line.endswith(f"| {row['by']} | {row['seconds']:g} |")
