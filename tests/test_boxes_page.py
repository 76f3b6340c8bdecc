"""The page on boxes and batches shows code that runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

PAGE = (Path(__file__).parents[1] / "docs" / "boxes.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1].strip()[:40])
def test_a_block_of_the_page_runs(block, capsys):
    if "pyamg" in block:
        pytest.importorskip("pyamg")
    names: dict[str, object] = {}
    exec(block, names)
    printed = capsys.readouterr().out
    assert "TOLERANCE" in printed or names.get("info") == 0 or "Inverse" in names
    assert "without a network" not in printed


def test_the_protocol_of_petsc_is_served():
    class Vector:
        def __init__(self, values):
            self.values = np.asarray(values, dtype=float)

        def getArray(self):  # noqa: N802
            return self.values

        def setArray(self, values):  # noqa: N802
            self.values[:] = values

    names: dict[str, object] = {}
    exec(next(block for block in BLOCKS if "class Inverse" in block), names)
    x, y = Vector([2.0, 4.0]), Vector([0.0, 0.0])
    names["Inverse"](aslinearoperator(np.diag([0.5, 0.25]))).apply(None, x, y)
    assert y.values.tolist() == [1.0, 1.0]


def test_five_blocks_are_shown():
    assert len(BLOCKS) == 5


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = Path(__file__).parents[1] / "examples" / "boxes_and_batches.py"
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert printed.count("TOLERANCE") == 2
    assert "20 of 20 solved" in printed
    assert (tmp_path / "box.png").stat().st_size > 10_000
