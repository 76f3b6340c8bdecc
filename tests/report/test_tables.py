"""Tables: marks, words for failures, and two faces with the same cells."""

import re
from dataclasses import replace

import pytest

from neuralsolver.experiments.paper import EXPERIMENTS
from neuralsolver.report.beside import forward, matched
from neuralsolver.report.conditioning import flow_conditioning
from neuralsolver.report.layout import Cell, budget, latex, markdown, marked, measured
from neuralsolver.report.results import Results, Row
from neuralsolver.report.specification import BUDGET
from neuralsolver.report.tables import backbones, data_generation, newton, ratios, tables
from tests.report.made_up import fill

NAN = float("nan")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return Results.read(fill(tmp_path_factory.mktemp("results"), size=12))


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return Results.read(tmp_path_factory.mktemp("empty"))


def one(error, **status):
    return Row("helmholtz", "shift", "ens", error=error, status=status or {"FINISHED": 100})


@pytest.mark.parametrize(
    ("row", "text", "competes"),
    [
        (None, "not run", False),
        (one(3.04e-3), "3.04e-03", True),
        (one(None, DIVERGED=100), "diverged", False),
        (one(NAN, OUT_OF_MEMORY=100), "out of memory", False),
        (one(None, NOT_APPLICABLE=1), "n/a", False),
        (one(None), "n/a", False),
        (one(0.5, FINISHED=88, DIVERGED=12), "5.00e-01 (12 of 100 diverged)", False),
        (one(0.5, STEP_LIMIT=100), "5.00e-01 (at the step limit)", True),
        (replace(one(0.5), samples=2, most=100), "5.00e-01 [2]", True),
        (replace(one(0.5), samples=2, most=100, effort=0.2), "5.00e-01 [2, 20%]", True),
        (replace(one(0.5), samples=2, errors=[0.4, 0.6]), "5.00e-01", True),
        (replace(one(0.5), samples=100, error_spread=0.1), "5.00e-01 ±4%", True),
        (replace(one(0.5), samples=100, errors=[0.4, 0.6] * 50), "5.00e-01 ±4%", True),
        (replace(one(0.5), samples=100, errors=[0.0] * 99 + [50.0]), "5.00e-01 ±200%", True),
    ],
)
def test_a_cell_says_how_it_ended(row, text, competes):
    cell = measured(row, "error")
    assert (cell.text, cell.value is not None) == (text, competes)


@pytest.mark.parametrize(
    ("training", "cells"),
    [
        (None, ["-", "-", "-"]),
        (
            {"minutes": 39.0, "batches": 4800, "weights": 24, "clock": "wall"},
            ["39*", "4,800", "24"],
        ),
        ({"minutes": 18.2, "batches": 9, "weights": 10**6, "clock": "CPU"}, ["18", "9", "1 M"]),
        ({"minutes": 9.8, "batches": 9, "weights": 9, "clock": "again"}, ["≈10", "9", "9"]),
    ],
)
def test_a_budget_says_what_its_minutes_are(training, cells):
    assert [budget(training, key).text for key in BUDGET] == cells


def test_the_two_smallest_are_marked():
    rows = [one(0.3), None, one(0.1, DIVERGED=100), one(0.2), one(NAN), one(0.4), one(0.2)]
    marks = [cell.mark for cell in marked([measured(row, "error") for row in rows])]
    assert marks == ["second", "", "", "best", "", "", "best"]


def test_marks_without_a_competitor():
    assert [c.mark for c in marked([Cell("not run"), Cell("1", 1.0)])] == ["", "best"]
    assert [c.mark for c in marked([Cell("not run")])] == [""]


@pytest.mark.parametrize(("kind", "count"), [("results", 20), ("empty", 12)])
def test_both_faces_are_well_formed(kind, count, request):
    found = tables(request.getfixturevalue(kind))
    assert len({table.name for table in found}) == len(found) == count
    for table in found:
        check(table)


def check(table):
    width = len(table.labels) + len(table.columns)
    assert all(len(line.labels) + len(line.cells) == width for line in table.lines)
    assert not table.groups or sum(span for _, span in table.groups) == len(table.columns)
    body = markdown(table).split("\n\n")[-1].strip().split("\n")
    assert {line.count("|") for line in body} == {width + 1}
    assert "—" not in markdown(table)
    check_latex(latex(table), width)


def check_latex(text, width):
    assert text.isascii()
    bare = re.sub(r"\\[{}&%_#]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    for line in bare.splitlines():
        if line.endswith(r"\\"):
            spans = [int(span) for span in re.findall(r"\\multicolumn{(\d+)}", line)]
            assert line.count("&") + 1 + sum(spans) - len(spans) == width
    specification = re.search(r"\\begin{tabular}{([lc]+)}", text)
    assert len(specification[1]) == width
    assert bare.count(r"\begin{") == bare.count(r"\end{") == 2


def test_forward_has_the_columns_of_the_paper(results):
    table = forward(EXPERIMENTS["helmholtz"]).table(results)
    headings = [heading for heading, _ in table.groups]
    expected = ["", "In-distribution", "Wavenumber-shift", "Cross-equation", "Super-resolution"]
    assert headings == expected
    lines = {line.labels: line.cells for line in table.lines}
    assert lines["ENS, contractive", "here"][4].mark == "best"
    order = [line.labels for line in table.lines]
    quoted = table.lines[order.index(("PCFM", "here")) + 1]
    assert quoted.labels == ("", "paper")
    assert quoted.cells[-1].text == "out of memory"
    # what is not learned is never marked, however good
    assert not any(cell.mark for cell in lines["classical solver", "here"])
    assert not any(cell.mark for cell in lines["ground truth (floor)", "here"])
    # an error over samples of which some diverged wins nothing
    assert lines["ENS (paper's recipe)", "here"][-1].mark == ""


def test_printed_values_stand_below_ours(results):
    lines = forward(EXPERIMENTS["darcy"]).table(results).lines
    place = [line.labels for line in lines].index(("ENS (paper's recipe)", "here"))
    assert lines[place + 1].labels == ("", "paper")
    assert lines[place + 1].cells[3] == Cell("1.08e-03", mark="best")


def test_backbones_say_whether_they_converged(results):
    lines = {line.labels: line.cells for line in backbones(results).lines}
    found = {name: cells[-1].text for (name, source), cells in lines.items() if source == "here"}
    assert found["FNO"] == "no, rising"
    assert found["CNN-FNO-CNN"] == "no, still falling"
    assert found["U-net"] == "yes"
    # few steps are no merit where they lead nowhere
    assert lines["FNO", "here"][-2].mark == ""
    assert lines["U-net", "here"][-2].mark == "best"
    assert len(matched(EXPERIMENTS["helmholtz"]).table(results).lines) == 4 * 2 + 1


def test_ratios_say_what_diverged(results):
    lines = {line.labels: line.cells for line in ratios(results).lines}
    cells = [cell.text for cell in lines["Helmholtz", "super-resolution"]]
    assert cells == ["4.98", "5.34 (12 of 100 diverged)", "4.3e+13"]


def test_newton_by_start(results):
    lines = {line.labels[2:]: line.cells for line in newton(results).lines}
    assert [cell.text for cell in lines["Newton", "noise"][:2]] == ["0 of 100", "diverged"]
    assert lines["Gauss-Newton", "prediction"][0].text == "88 of 100"


def test_generation_times_come_from_the_bench(results):
    (results.folder / "reference.json").write_text(
        '[{"equation": "Darcy 3/12", "method": "CG", "seconds": 0.0108, "baseline_seconds": 0.05}]'
    )
    (results.folder / "datasets.json").write_text(
        '[{"equation": "darcy", "resolution": 64, "seconds": 9.0, "peak_mb": 9.0},'
        ' {"equation": "darcy", "resolution": 128, "seconds": 0.02, "peak_mb": 412.3}]'
    )
    lines = {line.labels[0]: line.cells for line in data_generation(results).lines}
    expected = ["0.40", "5.00e-02", "1.08e-02", "2.00e-02", "412"]
    assert [cell.text for cell in lines["Darcy"]] == expected
    assert [cell.text for cell in lines["Poisson"]] == ["0.04", *4 * ["not run"]]


def test_flows_are_conditioned_by_their_viscosity(results):
    table = flow_conditioning(results)
    lines = {line.labels: [cell.text for cell in line.cells] for line in table.lines}
    assert lines["Navier-Stokes", "1e-05", "32 × 32"][0] == "0.1"
    assert ("Kolmogorov flow", "5e-04", "64 × 64") in lines
