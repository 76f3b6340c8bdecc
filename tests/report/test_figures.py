"""Figures and the command: the same bytes twice, and whatever is missing is named."""

import json

import pytest
from neuralsolver.report.figures import makers
from neuralsolver.report.rows import Results

from neuralsolver.cli import run
from neuralsolver.report.style import METHOD_STYLE, png, styles_of
from tests.report.made_up import fill, row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("results"), size=16)


def test_no_two_methods_look_alike():
    looks = {(style.colour, style.marker) for style in METHOD_STYLE.values()}
    labels = {style.label for style in METHOD_STYLE.values()}
    assert len(looks) == len(labels) == len(METHOD_STYLE)


def test_unknown_methods_get_spare_styles():
    styles = styles_of(["ens", "multigrid", "lu"], {"lu": "sparse LU"})
    assert styles["ens"] is METHOD_STYLE["ens"]
    assert styles["lu"].label == "sparse LU"
    assert styles["lu"].marker != styles["multigrid"].marker


FAST = ("starts", "darcy-time-to-accuracy", "snapshots-helmholtz-shift-ens")


def test_the_bytes_depend_on_the_results_only(folder):
    first, second = Results.read(folder), Results.read(folder)
    for name in FAST:
        pictures = [png(makers(results)[name](results)) for results in (first, second)]
        assert pictures[0] == pictures[1]
        assert b"matplotlib" not in pictures[0].lower()


def test_everything_is_drawn_from_full_results(folder):
    results = Results.read(folder)
    figures = {name: make(results) for name, make in makers(results).items()}
    missing = {name for name, figure in figures.items() if figure is None}
    # regimes of which the made-up archive has no fields
    assert all(name.startswith("qualitative") for name in missing)
    assert len(figures) - len(missing) >= 24
    for figure in figures.values():
        assert figure is None or figure.get_suptitle()


def test_a_single_row_is_enough(tmp_path, capsys):
    (tmp_path / "desk").mkdir()
    line = json.dumps(row("helmholtz", "in-distribution", "ens"))
    (tmp_path / "desk" / "helmholtz.jsonl").write_text(f"{line}\n{line[:40]}")
    assert run(["report", "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    names = {path.name for path in (tmp_path / "desk").rglob("*.*") if path.is_file()}
    assert {"evolution-helmholtz.png", "refinement.png", "README.md"} <= names
    assert "forward-helmholtz.tex" in printed
    assert "without data, not drawn: accuracy-darcy, accuracy-helmholtz" in printed
    page = (tmp_path / "desk" / "tables" / "README.md").read_text()
    assert "2.62e-03" in page
    assert "not run" in page


def test_damage_is_one_line(tmp_path, capsys):
    assert run(["report", "--results", str(tmp_path), "--scale", "moon"]) == 1
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "fields.npz").write_bytes(b"PK\x03\x04 half an archive")
    assert run(["report", "--results", str(tmp_path)]) == 1
    assert "archive of fields" in capsys.readouterr().err


def test_what_cannot_be_drawn_is_left_out(tmp_path):
    """Histories of nothing, times without a method that has any, curves that are not finite."""
    nothing = {"step": [0, 1], "error": [None, None], "residual": [None, None]}
    lines = [
        json.dumps(row("helmholtz", "shift", m, history=nothing)) for m in ("ens", "pino-ttop")
    ]
    (tmp_path / "helmholtz.jsonl").write_text("\n".join(lines) + "\n")
    bad = {"curves": [{"method": "newton", "seconds": [0, 1], "residual": [1.0, float("inf")]}]}
    (tmp_path / "noisy-start.json").write_text(json.dumps(bad))
    (tmp_path / "starts.json").write_text('{"curves": []}')
    results = Results.read(tmp_path)
    every = makers(results)
    assert every["refinement"](results) is None
    assert every["starts"](results) is None
    png(every["noisy-start"](results))
