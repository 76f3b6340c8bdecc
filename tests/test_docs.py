"""The pages speak of the code as it is: names exist, links lead somewhere, examples run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from neuralsolver.training.library import shipped

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
EXAMPLES = ROOT / "examples"


@cache
def names_in(path: Path) -> set[str]:
    """Everything a module defines: `name`, and `Class.member`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        for name in defined_by(node):
            names.add(name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{name}.{inner}" for member in node.body for inner in defined_by(member)}
    return names


def defined_by(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def references(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"([\w/.]+\.py)::([\w.]*\w)", page.read_text())


def located(file: str) -> Path:
    """A cited file: relative to the package, or to the repository."""
    inside = ROOT / "neuralsolver" / file
    return inside if inside.is_file() else ROOT / file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_cited_name_exists(page):
    wrong = [
        f"{file}::{name}"
        for file, name in references(page)
        if not located(file).is_file() or name not in names_in(located(file))
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_cited_file_exists(page):
    cited = re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:py|md|txt))(?=[`:])", page.read_text())
    assert not [file for file in cited if not located(file).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    local = [t.split("#")[0] for t in targets if not re.match(r"\w+:", t) and not t.startswith("#")]
    assert not [target for target in local if not (page.parent / target).exists()]


def test_the_pages_cite_code():
    # else a change of the notation would leave nothing to check
    assert len(references(ROOT / "docs" / "paper_to_code.md")) > 50
    assert len(references(ROOT / "docs" / "design.md")) > 20


def test_the_page_on_equations_shows_the_example():
    page = (ROOT / "docs" / "your_own_equation.md").read_text()
    block = page.split("```python\n")[1].split("```")[0]
    assert block == (EXAMPLES / "your_own_equation.py").read_text()


def run_example(name: str, folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_example_of_an_own_equation(tmp_path):
    printed = run_example("your_own_equation.py", tmp_path)
    errors = [float(text) for text in re.findall(r"relative L2 error (\S+)", printed)]
    assert len(errors) == 6
    trained, shifted = errors[:3], errors[3:]
    # corrections help where the solver was trained and where it was not
    assert trained[2] < 1e-4 * trained[0]
    assert shifted[2] < 1e-2 * shifted[0]
    assert printed.count("TOLERANCE") == 2


@pytest.mark.slow
def test_example_of_solving(tmp_path):
    assert "helmholtz-contractive" in shipped(), "examples/solve.py needs the shipped weights"
    printed = run_example("solve.py", tmp_path)
    assert printed.count("TOLERANCE") == 2
    assert (tmp_path / "solution.png").stat().st_size > 10_000
