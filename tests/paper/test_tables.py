"""Tables: marks, words for failures, and two faces with the same cells."""

import math
import re

import pandas as pd
import pytest

from paper.cells import BUDGET, budget, marked, measured
from paper.regimes import EXPERIMENTS
from paper.results import Results, tidy
from paper.tables import (
    backbones,
    data_generation,
    flow_conditioning,
    forward,
    matched,
    newton,
    ratios,
    tables,
)
from paper.typeset import latex, markdown
from tests.paper.made_up import fill, lines_of

NAN = float("nan")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return Results.read(fill(tmp_path_factory.mktemp("results"), size=12))


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return Results.read(tmp_path_factory.mktemp("empty"))


def one(error, most=0, status=None, **content):
    place = {"experiment": "helmholtz", "regime": "shift", "method": "ens"}
    content = {"samples": 100, "status": status or {"FINISHED": 100}, **content}
    rows = [{**place, "error": error, **content}]
    rows += [{**place, "method": "fno", "samples": most}] if most else []
    return tidy(rows).iloc[0]


@pytest.mark.parametrize(
    ("row", "text", "competes"),
    [
        (one(3.04e-3), "3.04e-03", True),
        (one(None, status={"DIVERGED": 100}), "diverged", False),
        (one(NAN, status={"OUT_OF_MEMORY": 100}), "out of memory", False),
        (one(None, status={"NOT_APPLICABLE": 1}), "n/a", False),
        (one(None), "n/a", False),
        (one(0.5, status={"FINISHED": 88, "DIVERGED": 12}), "5.00e-01 (12 of 100 diverged)", False),
        (one(0.5, status={"STEP_LIMIT": 100}), "5.00e-01 (at the step limit)", True),
        (one(0.5, samples=2, most=100), "5.00e-01 [2]", True),
        (one(0.5, samples=2, most=100, effort=0.2), "5.00e-01 [2, 20%]", True),
        (one(0.5, samples=2, errors=[0.4, 0.6]), "5.00e-01", True),
        (one(0.5, error_spread=0.1), "5.00e-01 ±4%", True),
        (one(0.5, errors=[0.4, 0.6] * 50), "5.00e-01 ±4%", True),
        (one(0.5, errors=[0.0] * 99 + [50.0]), "5.00e-01 ±200%", True),
    ],
)
def test_a_cell_says_how_it_ended(row, text, competes):
    found, value = measured(row, "error")
    assert (found, not math.isnan(value)) == (text, competes)


@pytest.mark.parametrize(
    ("training", "cells"),
    [
        (None, ["-", "-", "-"]),
        (
            {"minutes": 39.0, "batches": 4800, "weights": 24, "clock": "again"},
            ["≈39", "4,800", "24"],
        ),
        ({"minutes": 18.2, "batches": 9, "weights": 10**6, "clock": "CPU"}, ["18", "9", "1 M"]),
        ({"minutes": 9.8, "batches": 9, "weights": 9, "clock": "again"}, ["≈10", "9", "9"]),
    ],
)
def test_a_budget_says_what_its_minutes_are(training, cells):
    assert [budget(training, key) for key in BUDGET] == cells


def test_the_two_smallest_are_marked():
    values = [0.3, NAN, NAN, 0.2, NAN, 0.4, 0.2001]
    found = marked(pd.DataFrame({"error": list("abcdefg")}), pd.DataFrame({"error": values}))
    assert [*found["error"]] == ["*a*", "b", "c", "**d**", "e", "f", "**g**"]


def test_marks_without_a_competitor():
    text, value = pd.DataFrame(["not run", "1"]), pd.DataFrame([NAN, 1.0])
    assert marked(text, value)[0].tolist() == ["not run", "**1**"]


@pytest.mark.parametrize(("kind", "count"), [("results", 21), ("empty", 12)])
def test_both_faces_are_well_formed(kind, count, request):
    found = tables(request.getfixturevalue(kind))
    assert len({table.name for table in found}) == len(found) == count
    for table in found:
        check(table)


def check(table):
    (width,) = {block.shape[1] + block.index.nlevels for block in table.blocks}
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
    table = forward(results, EXPERIMENTS["helmholtz"])
    headings = list(dict.fromkeys(group for group, _ in table.blocks[0].columns))
    expected = ["", "In-distribution", "Wavenumber-shift", "Cross-equation", "Super-resolution"]
    assert headings == expected
    lines = dict(lines_of(table))
    assert lines["ENS, contractive", "here"][4].startswith("**")
    order = lines_of(table)
    place = [labels for labels, _ in order].index(("PCFM", "here"))
    assert order[place + 1][0] == ("", "paper")
    assert order[place + 1][1][-1] == "out of memory"
    # what is not learned is never marked, however good
    assert not any("*" in text for text in lines["classical solver", "here"])
    assert not any("*" in text for text in lines["ground truth (floor)", "here"])
    # an error over samples of which some diverged wins nothing
    assert "*" not in lines["ENS (paper's recipe)", "here"][-1]


def test_printed_values_stand_below_ours(results):
    lines = lines_of(forward(results, EXPERIMENTS["darcy"]))
    place = [labels for labels, _ in lines].index(("ENS (paper's recipe)", "here"))
    assert lines[place + 1][0] == ("", "paper")
    assert lines[place + 1][1][3] == "**1.08e-03**"


def test_backbones_say_whether_they_converged(results):
    lines = dict(lines_of(backbones(results)))
    found = {name: texts[-1] for (name, source), texts in lines.items() if source == "here"}
    assert found["FNO"] == "no, rising"
    assert found["CNN-FNO-CNN"] == "no, still falling"
    assert found["U-net"] == "yes"
    # few steps are no merit where they lead nowhere
    assert "*" not in lines["FNO", "here"][-2]
    assert lines["U-net", "here"][-2].startswith("**")
    assert len(lines_of(matched(results, EXPERIMENTS["helmholtz"]))) == 4 * 2 + 1


def test_ratios_say_what_diverged(results):
    texts = dict(lines_of(ratios(results)))["Helmholtz", "super-resolution"]
    assert texts == ["4.98", "5.34 (12 of 100 diverged)", "4.3e+13"]


def test_newton_by_start(results):
    lines = {labels[2:]: texts for labels, texts in lines_of(newton(results))}
    assert lines["Newton", "noise"][:2] == ["0 of 100", "diverged"]
    assert lines["Gauss-Newton", "prediction"][0] == "88 of 100"


def test_generation_times_come_from_the_bench(results):
    (results.folder / "reference.json").write_text(
        '[{"equation": "Darcy 3/12", "method": "CG", "seconds": 0.0108, "baseline_seconds": 0.05}]'
    )
    (results.folder / "datasets.json").write_text(
        '[{"equation": "darcy", "resolution": 64, "seconds": 9.0, "peak_mb": 9.0},'
        ' {"equation": "darcy", "resolution": 128, "seconds": 0.02, "peak_mb": 412.3}]'
    )
    lines = {labels[0]: texts for labels, texts in lines_of(data_generation(results))}
    assert lines["Darcy"] == ["0.40", "5.00e-02", "1.08e-02", "2.00e-02", "412"]
    assert lines["Poisson"] == ["0.04", *4 * ["not run"]]


def test_flows_are_conditioned_by_their_viscosity(results):
    lines = dict(lines_of(flow_conditioning(results)))
    assert lines["Navier-Stokes", "1e-05", "32 × 32"][0] == "0.1"
    assert ("Kolmogorov flow", "5e-04", "64 × 64") in lines
