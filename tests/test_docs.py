"""The pages speak of the code as it is: names exist, links lead somewhere, what is shown runs."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer

import neuralsolver as ns
from neuralsolver.cli import app
from neuralsolver.training.library import shipped

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
EXAMPLES = ROOT / "examples"


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=page_id)


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


@every_page
def test_every_cited_name_exists(page):
    wrong = [
        f"{file}::{name}"
        for file, name in references(page)
        if not located(file).is_file() or name not in names_in(located(file))
    ]
    assert not wrong


@every_page
def test_every_cited_file_exists(page):
    cited = re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:py|md|txt))(?=[`:])", page.read_text())
    assert not [file for file in cited if not located(file).is_file()]


@every_page
def test_every_relative_link_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    local = [t.split("#")[0] for t in targets if not re.match(r"\w+:", t) and not t.startswith("#")]
    assert not [target for target in local if not (page.parent / target).exists()]


@every_page
def test_the_words_are_public(page):
    if page.name == "CHANGELOG.md":  # it may say what a name used to be
        return
    private = r"\bweigh\b|[Ll]aborator|\bbelieve|\bIDLE\b|stands? still|still flow"
    assert not re.findall(private, page.read_text())


def test_the_pages_cite_code():
    # else a change of the notation would leave nothing to check
    assert len(references(ROOT / "docs" / "paper_to_code.md")) > 50
    assert len(references(ROOT / "docs" / "design.md")) > 20


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def blocks(page: Path, language: str = "") -> list[str]:
    """The code blocks of a page in one language; without a language, those of the shell."""
    found: list[str] = []
    inside = None
    for line in page.read_text().splitlines(keepends=True):
        if line.startswith("```"):
            inside = line[3:].strip() if inside is None else None
            if inside == language:
                found.append("")
        elif inside == language:
            found[-1] += line
    return found


@pytest.mark.parametrize("name", ["your_own_equation", "your_own_method"])
def test_the_page_shows_the_example(name):
    shown = blocks(ROOT / "docs" / f"{name}.md", "python")[0]
    assert shown == (EXAMPLES / f"{name}.py").read_text()


def commands(page: Path) -> list[list[str]]:
    """The words of every line `ens …` of a page's code blocks."""
    text = "".join(blocks(page)).replace("\\\n", " ")
    lines = [line.split(" #")[0] for line in text.splitlines() if line.startswith("ens ")]
    return [shlex.split(line) for line in lines]


def test_there_are_commands_to_check():
    assert sum(len(commands(page)) for page in PAGES) >= 15


@every_page
def test_every_command_and_option_that_is_shown_exists(page):
    for _, *words in commands(page):
        command = typer.main.get_command(app)
        spoken = iter(words)
        for word in spoken:
            options = {name: option for option in command.params for name in option.opts}
            if word.startswith("--"):
                assert word in options, f"{' '.join(words)}: {word}"
                if not getattr(options[word], "is_flag", False):
                    next(spoken)
            elif hasattr(command, "commands"):
                assert word in command.commands, f"{' '.join(words)}: {word}"
                command = command.commands[word]


def run(arguments: list[str | Path], folder: Path) -> str:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/training.md"])
def test_the_python_of_a_page_runs(name, tmp_path):
    printed = run(["-W", "error", "-c", "\n".join(blocks(ROOT / name, "python"))], tmp_path)
    assert "relative residual" in printed


def test_the_python_of_the_page_on_datasets_runs(tmp_path):
    code = "\n".join(blocks(ROOT / "docs/datasets.md", "python"))
    small = code.replace("count=100, resolution=128", "count=10, resolution=16")
    assert small != code
    printed = run(["-W", "error", "-c", small + "\nprint(inputs.shape, len(loader))"], tmp_path)
    assert printed == "(8, 1, 16, 16) 1\n"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    run(["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path], ROOT)
    reference = "".join(page.read_text() for page in (tmp_path / "api").rglob("*.html"))
    headings = set(re.findall(r'<h\d id="neuralsolver\.(?:[\w.]+\.)?(\w+)"', reference))
    assert set(ns.__all__) <= headings
    waves = (tmp_path / "waves" / "index.html").read_text()
    assert "<msup><mi>k</mi><mn>2</mn></msup>" in waves  # formulas need no script to be drawn
    assert "$$" not in waves
    # doctests are code, not quotations
    assert "<blockquote>" not in reference
    commands = (tmp_path / "commands" / "index.html").read_text()
    for name in typer.main.get_command(app).commands:
        assert f"Usage: ens {name}" in commands


@pytest.mark.slow
def test_example_of_an_own_equation(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "your_own_equation.py"], tmp_path)
    errors = [float(text) for text in re.findall(r"relative L2 error (\S+)", printed)]
    assert len(errors) == 6
    trained, shifted = errors[:3], errors[3:]
    # corrections help where the solver was trained and where it was not
    assert trained[2] < 1e-4 * trained[0]
    assert shifted[2] < 1e-2 * shifted[0]
    assert printed.count("TOLERANCE") == 2


def test_example_of_an_own_method(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "your_own_method.py"], tmp_path)
    rows = dict(re.findall(r"(\S+) +relative L2 error (\S+),", printed))
    assert float(rows["barzilai-borwein"]) < 1e-8
    assert float(rows["newton"]) < 1e-12
    assert float(rows["zero"]) == 1.0
    assert printed.startswith("poisson 32x32, 4 samples: TOLERANCE")


def test_an_own_method_is_known_to_the_command_line(tmp_path):
    module, options = EXAMPLES / "your_own_method.py", ["--scale", "tiny", "--samples", "2"]
    command = ["-m", "paper", "--plugin", module, "evaluate", "poisson"]
    printed = run([*command, "--method", "barzilai-borwein", *options], tmp_path)
    assert re.search(r"in-distribution +barzilai-borwein .* 2 TOLERANCE", printed)
    rows = (tmp_path / "results/tiny/poisson.jsonl").read_text()
    assert '"method": "barzilai-borwein"' in rows


@pytest.mark.slow
def test_example_of_a_permeability_recovered(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "recover_permeability.py"], tmp_path)
    errors = [float(text) for text in re.findall(r"off by (\S+)", printed)]
    assert errors[-1] < 0.3 * errors[0]


def test_example_of_boundary_values(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "boundary_values.py"], tmp_path)
    errors = [float(text) for text in re.findall(r"off by (\S+)", printed)]
    # of second order: a quarter from grid to grid
    assert errors[0] < 2e-4
    assert errors[2] < errors[0] / 14


def test_example_of_a_shape(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "shape.py"], tmp_path)
    assert printed.count("TOLERANCE") == 2
    assert float(re.findall(r"differ by (\S+)", printed)[0]) < 1e-8
    assert (tmp_path / "shape.png").stat().st_size > 10_000


def test_example_of_rectangles(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "rectangle.py"], tmp_path)
    assert printed.count("TOLERANCE") == 3
    assert "without a network" in printed


def test_example_of_preconditioners(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "preconditioner.py"], tmp_path)
    assert "FAILED" not in printed
    residuals = [float(text) for text in re.findall(r"residual (\S+)", printed)]
    assert len(residuals) == 3
    assert max(residuals) < 2e-8


@pytest.mark.slow
def test_example_of_an_own_backbone(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "your_own_backbone.py"], tmp_path)
    first, last = (float(text) for text in re.search(r"loss (\S+) to (\S+)", printed).groups())
    assert last < 0.5 * first
    assert printed.count("TOLERANCE") == 1
    # the network alone converges, too
    assert float(re.findall(r"relative residual (\S+),", printed)[0]) < 1e-4


FNO_LIKE = """
from torch import nn
def FNO(n_modes, in_channels, out_channels, hidden_channels):
    assert n_modes == (20, 20) and hidden_channels == 32
    return nn.Conv2d(in_channels, out_channels, 5, padding=2)
"""


@pytest.mark.slow
def test_example_of_a_row_with_a_network_of_neuraloperator(tmp_path):
    """With a module in the place of that package, which is not among our dependencies."""
    (tmp_path / "neuralop").mkdir()
    (tmp_path / "neuralop" / "models.py").write_text(FNO_LIKE)
    plugin = ["-W", "error", "-m", "paper", "--plugin", EXAMPLES / "neuraloperator_fno.py"]
    what = ["evaluate", "helmholtz", "--method", "neuralop-fno", "--regime", "in-distribution"]
    size = ["--scale", "tiny", "--samples", "4", "--json", "--results", "r", "--runs", "r"]
    printed = run([*plugin, *what, *size, "--data", "d"], tmp_path)
    (row,) = json.loads(printed)
    assert row["method"] == "neuralop-fno"
    assert row["samples"] == 4
    assert row["training"]["batches"] == 20


@pytest.mark.slow
def test_example_of_heat_by_a_corrector(tmp_path):
    """Every implicit step reaches its tolerance, and the error is that of the time step."""
    printed = run(["-W", "error", EXAMPLES / "heat_by_a_corrector.py", tmp_path], tmp_path)
    assert printed.count("TOLERANCE") == 10
    assert max(int(text) for text in re.findall(r"after (\d+) corrections", printed)) <= 20
    assert max(float(text) for text in re.findall(r"Euler (\S+)", printed)) < 0.06


@pytest.mark.slow
def test_example_of_the_loop_around_an_exported_network(tmp_path):
    run(["-m", "neuralsolver", "export", "poisson", "--output", "onnx"], tmp_path)
    printed = run(["-W", "error", EXAMPLES / "onnx_loop.py", "onnx"], tmp_path)
    assert float(printed.split()[-1]) < 1e-9


def test_example_of_solving(tmp_path):
    assert "helmholtz-contractive" in shipped(), "examples/solve.py needs the shipped weights"
    printed = run(["-W", "error", EXAMPLES / "solve.py"], tmp_path)
    assert printed.count("TOLERANCE") == 2
    assert (tmp_path / "solution.png").stat().st_size > 10_000


def test_example_of_heads_in_wells(tmp_path):
    printed = run(["-W", "error", EXAMPLES / "heads_in_wells.py"], tmp_path)
    assert "darcy 64x64 from 30 sensors: 8 samples by" in printed
    chances = [float(text) for text in re.findall(r"probability (\S+)", printed)]
    assert chances[1] > 0.9  # sand in the south-east, as in the hidden field
    assert len(chances) == 3
