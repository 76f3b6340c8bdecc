from __future__ import annotations

import json

import pytest

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.results import Results, parse_table
from tests.serve.running import RESULTS


def test_every_row_has_its_line_and_its_command():
    rows = Results(RESULTS).rows("helmholtz")
    lines = (RESULTS / "helmholtz.jsonl").read_text().splitlines()
    assert len(rows) == len(lines)
    for row in rows:
        written = json.loads(lines[row["line"] - 1])
        assert written.items() <= row.items()
        assert row["command"].startswith("ens evaluate helmholtz")
        assert f"--regime {row['regime']}" in row["command"]
        assert f"--method {row['method']}" in row["command"]


def test_a_command_has_the_options_that_its_file_was_measured_with(tmp_path):
    (tmp_path / "README.md").write_text(
        "| file | command |\n|---|---|\n"
        "| `a.jsonl`, `b.jsonl` | `ens evaluate NAME --samples 32` |\n"
    )
    row = {"experiment": "b", "regime": "shift", "method": "fno", "error": 0.5}
    (tmp_path / "b.jsonl").write_text(json.dumps(row) + "\n{half a li")
    (found,) = Results(tmp_path).rows("b")
    assert found["command"] == "ens evaluate b --samples 32 --regime shift --method fno"
    assert (found["file"], found["line"]) == ("b.jsonl", 1)


def test_the_overview_names_what_there_is(tmp_path):
    assert Results(tmp_path / "nowhere").overview()["experiments"] == []
    overview = Results(RESULTS).overview()
    assert {"helmholtz", "darcy"} <= {each["name"] for each in overview["experiments"]}
    assert "README" not in overview["tables"]
    assert any(name.endswith(".png") for name in overview["figures"])


@pytest.mark.parametrize("name", ["../../pyproject", "..", "", "a/b", "x" * 100, "no-such"])
def test_a_name_is_never_a_path(name):
    results = Results(RESULTS)
    for read in (results.rows, results.table, results.figure):
        with pytest.raises(InvalidInput):
            read(name)


def test_a_table_is_read_cell_by_cell():
    text = "About *it*.\n\n| a | b |\n| --- | ---: |\n| **1** | *2* |\n\nmore\n"
    assert parse_table(text) == {
        "about": "About *it*.",
        "headings": ["a", "b"],
        "cells": [["1", "2"]],
    }


def test_results_are_served(server):
    overview = server.get("/results")
    name = overview["experiments"][0]["name"]
    assert len(server.get(f"/results/rows/{name}")) == overview["experiments"][0]["rows"]
    assert server.get(f"/results/tables/{overview['tables'][0]}")["headings"]
    picture = next(name for name in overview["figures"] if name.endswith(".png"))
    status, headers, body = server.request("GET", f"/results/figures/{picture}")
    assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
    assert server.request("GET", "/results/rows/nothing")[0] == 404
