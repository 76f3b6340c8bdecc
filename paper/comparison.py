"""The tables of the paper with our numbers beside the printed ones.

A line named "here" is ours, a line named "paper" repeats what the paper prints, with the paper's
own marks. Ours are marked among the learned methods that gave an answer for every sample. Classical
solvers and floors stand below a rule and take no part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from neuralsolver.training.presets import moving
from paper.cells import BUDGET, BUDGETS, MARKS, METRICS, NOT_RUN, cells, marked, quoted, sizes
from paper.methods import LEARNED, METHODS, methods_of
from paper.regimes import Experiment
from paper.results import Results, published
from paper.typeset import Line, Table, table

FLOOR = (
    "The truth of a flow has a residual too, the floor below the rule: under it, less is no better."
)
HEADINGS = {**BUDGET, **METRICS, "seconds_batch_1": "seconds", "steps": "k"}
HEADINGS |= {"converged": "converged"}


def pivot(
    rows: pd.DataFrame, methods: Collection[str], columns: Sequence[tuple[str, str]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Texts and values of one experiment: a line a method, a column (regime, metric)."""
    found = cells(rows, list(dict.fromkeys(metric for _, metric in columns))).droplevel(0)
    heads = pd.MultiIndex.from_tuples(columns)
    text, value = (
        found[kind].unstack(["regime", "metric"]).reindex(list(methods), columns=heads)
        for kind in ("text", "value")
    )
    missing = {column: "" if column[1] in BUDGET else NOT_RUN for column in columns}
    return text.astype(object).fillna(missing), value.astype(float)


def printed(label: str, columns: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """What a table of the paper prints: a line a row of it, a column (heading, metric)."""
    wide = quoted(published().loc[label]).unstack(["column", "metric"])
    names = [(heading, metric.split("_batch")[0]) for heading, metric in columns]
    return wide.reindex(columns=pd.MultiIndex.from_tuples(names)).astype(object).fillna("")


def beside(
    results: Results,
    e: Experiment,
    name: str,
    caption: str,
    *,
    label: str,
    blocks: Sequence[Mapping[str, str]],
    floors: Sequence[str],
    timed: bool = False,
) -> Table | None:
    """Ours above what the paper prints for it, then its others; a flow once it has been run.

    Args:
        results: The rows.
        e: The experiment.
        name: Of the table.
        caption: What it is; sizes and marks are added.
        label: What the paper calls the table.
        blocks: Our methods with the names that the paper prints for them.
        floors: Methods that are not compared.
        timed: Whether it begins with seconds.
    """
    if moving(e.equation) and e.name not in results.experiments:
        return None
    regimes = {r.key: r.printed for r in e.regimes if r.printed}
    trained = [*BUDGET, *(["seconds_batch_1"] if timed else [])]
    columns = [("in-distribution", metric) for metric in trained]
    columns += [(key, metric) for key in regimes for metric in METRICS]
    methods = [*(method for block in blocks for method in block), *floors]
    text, value = pivot(results.of(e.name, regimes), methods, columns)
    theirs = printed(label, [(regimes[key], metric) for key, metric in columns])
    known = {row for block in blocks for row in block.values()}
    filled: list[list[Line]] = []
    for block in blocks:
        shown = marked(text.loc[list(block)], value.loc[list(block)])
        filled.append([])
        for method, row in block.items():
            filled[-1].append(((METHODS[method].label_in(e), "here"), shown.loc[method]))
            if row:
                filled[-1].append((("", "paper"), theirs.loc[row]))
    others = [row for row in published().loc[label].index.unique("row") if row not in known]
    filled.append([((row, "paper"), theirs.loc[row]) for row in others])
    filled.append([((METHODS[m].label_in(e), "here"), text.loc[m]) for m in floors])
    words = f"{caption} {FLOOR}" if moving(e.equation) else caption
    words = f"{words} {sizes(results, e.name, regimes)}{MARKS} {BUDGETS}"
    heads = [
        ("" if metric in trained else regimes[key], HEADINGS[metric]) for key, metric in columns
    ]
    return table(name, words, "method, source", heads, filled)


def forward(results: Results, e: Experiment) -> Table | None:
    """Every method that belongs into a table of forward predictions."""
    compared = [method for method in methods_of(e) if method.table == "forward"]
    names = {method.key: method.printed for method in compared if method.kind in LEARNED}
    return beside(
        results,
        e,
        f"forward-{e.name}",
        f"{e.label}: forward prediction (the paper's tab:{e.printed}).",
        label=e.printed,
        blocks=[names],
        floors=[method.key for method in compared if method.kind not in LEARNED],
        timed=moving(e.equation) or e.name == "helmholtz",
    )


MATCHED = {"helmholtz": "HZ_AB", "navier-stokes": "NS_AB", "kolmogorov": "KF_AB"}
"""The paper's tables of matched backbones."""


def matched(results: Results, e: Experiment) -> Table | None:
    """One architecture alone, with a residual loss, fitted to each instance, and inside ENS."""
    label, flow = MATCHED[e.name], moving(e.equation)
    network = "VideoPDE" if flow else "CNN-FNO-CNN"
    plain = {"operator": network, "operator-pino": f"{network}(PINO)"}
    plain["operator-ttop"] = f"{network}(TTOP)"
    blocks = [{"ens": "ENS", **plain}]
    name, floors = "matched-backbone", ["truth"]
    caption = f"{e.label}, every method with the same backbone (the paper's tab:{label})."
    if flow:
        caption = f"{e.label}, methods with the same backbone (the paper's tab:{label}): first the "
        caption += "transformer, then CNN-FNO-CNN, marked each by itself."
        first = {"ens": "ENS", "ens-contractive": "", "ens-accelerated": "", **plain}
        blocks = [first, {"ens-contractive-cnn": "", "operator-cnn": ""}]
        name, floors = f"matched-backbone-{e.name}", ["truth", "still"]
    return beside(results, e, name, caption, label=label, blocks=blocks, floors=floors)
