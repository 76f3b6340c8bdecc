"""Figures and the command: the same bytes twice, and whatever is missing is named."""

import json
from dataclasses import replace

import pytest
from matplotlib.colors import to_hex

from paper.methods import METHODS
from paper.results import Results
from paper.style import PALETTE, pdf, png, styles_of
from paper.write import makers
from tests.paper.made_up import fill, row
from tests.paper.small import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("results"), size=16)


def test_a_method_keeps_its_look_and_other_names_get_what_is_free():
    styles = styles_of(["ens", "multigrid", "sparse LU", "ens-contractive"])
    assert styles["ens"] == styles_of(["ens"])["ens"]
    assert styles["sparse LU"].label == "sparse LU"
    assert len({look.colour for look in styles.values()}) == 4
    assert len({look.marker for look in styles.values()}) == 4


def test_all_methods_at_once_are_told_apart():
    styles = styles_of([*METHODS, *(f"of somebody else {k}" for k in range(20))])
    looks = {(look.colour, look.marker) for look in styles.values()}
    assert len(looks) == len(styles)


def looks_of(figure):
    """What every label of a figure looks like: colour, marker and line."""
    found = {}
    for axis in figure.axes:
        for line in axis.lines:
            if not line.get_label().startswith("_"):
                look = (to_hex(line.get_color()), line.get_marker(), line.get_linestyle())
                found.setdefault(line.get_label(), set()).add(look)
    return found


def test_no_figure_uses_a_look_twice(folder):
    results = Results.read(folder)
    several = 0
    for name, make in makers(results).items():
        if not name.startswith(("qualitative", "snapshots")):
            looks = looks_of(make(results))
            every = [look for one in looks.values() for look in one]
            assert len(every) == len(set(every)), name
            # the classical solver of a flow is a point here and a line there
            colours = [{c for c, *_ in one} for label, one in looks.items() if "class" not in label]
            assert len(set().union(*colours)) == len(colours) or len(colours) > len(PALETTE), name
            several += len(looks) > 2
    assert several > 12


FAST = ("starts", "darcy-time-to-accuracy", "snapshots-helmholtz-shift-ens")


def test_the_bytes_depend_on_the_results_only(folder):
    first, second = Results.read(folder), Results.read(folder)
    for name in FAST:
        pictures = [png(makers(results)[name](results)) for results in (first, second)]
        assert pictures[0] == pictures[1]
        assert b"matplotlib" not in pictures[0].lower()
    vectors = [pdf(makers(results)["starts"](results)) for results in (first, second)]
    assert vectors[0] == vectors[1]
    assert vectors[0].startswith(b"%PDF")


def test_everything_is_drawn_from_full_results(folder):
    results = Results.read(folder)
    figures = {name: make(results) for name, make in makers(results).items()}
    assert None not in figures.values()
    assert len(figures) >= 24
    for figure in figures.values():
        assert figure.get_suptitle()


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


def test_a_figure_says_what_its_numbers_are(folder):
    """The grid of the ablations, means over few samples, seconds that include a warm-up."""
    results = Results.read(folder)
    every = makers(results)
    for name in ("gradient-conditioning", "backbones", "evolution-ablations"):
        assert "64 × 64" in every[name](results).get_suptitle()
    ttop = results.rows["method"].str.contains("ttop")
    few = results.rows.assign(few=ttop, samples=results.rows["samples"].mask(ttop, 2))
    legend = every["refinement"](replace(results, rows=few)).legends[0].get_texts()
    assert "PINO(TTOP) [2 samples]" in [text.get_text() for text in legend]
    figure = every["accuracy-helmholtz"](replace(results, rows=few))
    hollow = {line.get_label() for line in figure.axes[0].lines if line.get_mfc() == "none"}
    assert hollow == {"PINO(TTOP)", "CNN-FNO-CNN(TTOP)"}
    assert "warm-up" in every["noisy-start"](results).axes[0].get_xlabel()


def test_residuals_are_drawn_where_they_are_stored(folder):
    """As in the paper's first figure: below the errors, of a flow beside them, the truth's too."""
    results = Results.read(folder)
    every = makers(results)
    lines = {
        name: every[f"qualitative-{name}"](results).axes[0].get_subplotspec().get_gridspec()
        for name in ("helmholtz-cross-equation", "darcy-shift", "kolmogorov-forcing-shift")
    }
    assert lines["helmholtz-cross-equation"].nrows == 3
    assert lines["darcy-shift"].nrows == 2
    assert lines["kolmogorov-forcing-shift"].ncols == 3 + 2 + 3
    figure = every["qualitative-helmholtz-cross-equation"](results)
    assert "residuals" in figure.get_suptitle()
