"""The notebooks run from top to bottom, and were stored without outputs."""

from __future__ import annotations

import ast
import json
import sys
import types
from pathlib import Path

import pytest

from neuralsolver.equations import EQUATIONS
from neuralsolver.solvers import Solution

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[str]:
    read = json.loads(path.read_text())
    assert read["nbformat"] == 4
    code = [cell for cell in read["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code)
    return ["".join(cell["source"]) for cell in code]


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    """As Jupyter does: one cell after the other, and the value of a last expression is shown."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    before, names = dict(EQUATIONS), module.__dict__
    try:
        for text in cells(path):
            *body, last = ast.parse(text).body
            if not isinstance(last, ast.Expr):
                body.append(last)
            exec(compile(ast.Module(body, []), path.name, "exec", dont_inherit=True), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
                assert value is None or value.__repr__()
                if isinstance(value, Solution):
                    assert value._repr_html_().startswith("<pre>")
    finally:
        EQUATIONS.clear()
        EQUATIONS.update(before)
