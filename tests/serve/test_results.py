from __future__ import annotations

import pytest

from tests.serve.running import RESULTS, running


def test_the_files_of_results_are_served_as_they_are(server):
    files = server.get("/results")["files"]
    assert {"helmholtz.jsonl", "darcy.jsonl", "tables/README.md"} <= set(files)
    for name in ("helmholtz.jsonl", next(name for name in files if name.endswith(".png"))):
        status, _, body = server.request("GET", f"/results/files/{name}")
        assert (status, body) == (200, (RESULTS / name).read_bytes())


@pytest.mark.parametrize(
    "name", ["../../pyproject.toml", "..%2f..%2fpyproject.toml", "..", "", "a/b", "x" * 100]
)
def test_nothing_else_is_served(server, name):
    status, _, body = server.request("GET", f"/results/files/{name}")
    assert status == 404
    assert b"[project]" not in body


def test_a_folder_that_is_absent_has_nothing_in_it(tmp_path):
    with running(results=tmp_path / "nowhere") as server:
        assert server.get("/results") == {"folder": "nowhere", "files": []}
        assert server.request("GET", "/results/files/README.md")[0] == 404
