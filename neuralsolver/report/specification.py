"""A table as a specification: what a line and what a column select meet in a cell.

    line     {"experiment": "helmholtz", "method": "ens"}        column    {"regime": "shift", …}

The two together name a row of the results and a metric of it, a number of the paper, or a ratio.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from neuralsolver.evaluation.convergence import CONVERGED, convergence
from neuralsolver.experiments.methods import METHODS
from neuralsolver.report.layout import (
    NOT_RUN,
    Cell,
    Line,
    Table,
    budget,
    mark_columns,
    marked,
    measured,
    number,
    quoted,
)
from neuralsolver.report.results import FAILURES, Results, Row, printed

Select = Mapping[str, Any]
BUDGET = {"minutes": "minutes", "batches": "batches", "weights": "weights"}
"""What a trained row was given, and the headings of these columns."""


class Column(NamedTuple):
    """A heading, the heading of its group, and what it selects."""

    heading: str
    group: str
    select: Select


class Place(NamedTuple):
    """A line before its cells are filled in: labels, what it selects, whether it is compared."""

    labels: tuple[str, ...]
    compared: bool
    select: Select


def column(title: str, group: str = "", /, **select: Any) -> Column:
    """A column of a specification."""
    return Column(title, group, select)


def line(*labels: str, compared: bool = False, **select: Any) -> Place:
    """A line of a specification."""
    return Place(labels, compared, select)


def build(
    results: Results,
    name: str,
    caption: str,
    labels: str,
    *,
    columns: Sequence[Column],
    blocks: Iterable[Iterable[Place]],
    along: int = 0,
) -> Table:
    """The table of a specification; without any line it says that nothing was run.

    Lines that are compared are marked down the columns, or, with `along`, each over as many columns
    from the last (or, below zero, up to them).
    """
    filled = []
    for block in blocks:
        places = list(block)
        lines = [
            Line(p.labels, tuple(cell(results, {**p.select, **c.select}) for c in columns))
            for p in places
        ]
        chosen = [index for index, place in enumerate(places) if place.compared]
        found = [lines[index] for index in chosen]
        if along:
            found = [replace(row, cells=_marked_along(row.cells, along)) for row in found]
        elif found:
            found = mark_columns(found)
        for index, row in zip(chosen, found, strict=True):
            lines[index] = row
        filled.append(tuple(lines))
    names = tuple(labels.split(", "))
    empty = Line(("",) * len(names), (Cell(NOT_RUN),) * len(columns))
    groups = [(group, len(list(same))) for group, same in groupby(columns, lambda c: c.group)]
    return Table(
        name,
        caption,
        names,
        tuple(c.heading for c in columns),
        tuple(block for block in filled if block) or ((empty,),),
        tuple(groups) if any(group for group, _ in groups) else (),
    )


def _marked_along(cells: tuple[Cell, ...], along: int) -> tuple[Cell, ...]:
    if along > 0:
        return (*marked(cells[:along]), *cells[along:])
    return (*cells[:along], *marked(cells[along:]))


def cell(results: Results, s: Select) -> Cell:
    """What a line and a column meet in: our number, unless either says how else it is found."""
    if "by" in s:
        special: Cell = s["by"](results, s)
        return special
    row, metric = results.get(s["experiment"], s["regime"], s["method"]), s["metric"]
    if row is not None and metric == "answered":
        total, unfinished = sum(row.status.values()), row.count(*FAILURES, "STEP_LIMIT")
        return Cell(f"{total - unfinished} of {total}")
    if row is not None and metric == "converged":
        return Cell(_converged(row))
    if metric in BUDGET:
        method = METHODS[s["method"]]
        # what is without a network only takes its grid and its sweeps from the model
        trained = method.recipes and method.kind != "classical"
        return budget(row.training, metric) if row and trained else Cell("")
    if row is not None and metric.startswith("seconds"):
        value = getattr(row, metric)
        return Cell("not timed") if value is None else Cell(number(value), value)
    # a line that counts its samples needs no brackets
    found = measured(replace(row, most=0) if row and s.get("counted") else row, metric)
    if row is not None and metric == "steps" and _converged(row) != CONVERGED:
        return replace(found, value=None)  # few steps are no merit where they lead nowhere
    return found


def _converged(row: Row) -> str:
    """Whether its iteration came to rest; one that stopped by its own residual has."""
    total = sum(row.status.values())
    if total and row.count("TOLERANCE", "PLATEAU") == total:
        return CONVERGED
    return convergence(row.history, row.count(*FAILURES), total)


def quote(results: Results, s: Select) -> Cell:
    """What the paper prints there."""
    return quoted(printed(s["label"], s["row"], s["heading"], s["metric"].split("_batch")[0]))


def sizes(results: Results, experiment: str, regimes: Collection[str]) -> str:
    """Grid, samples and seeds of our rows, in a sentence."""
    rows = [r for (e, key, _), r in results.rows.items() if e == experiment and key in regimes]
    if not rows:
        return "None of our rows is there yet. "
    samples, seeds = sorted({r.samples // r.seeds for r in rows}), max(r.seeds for r in rows)
    text = f"Grids here: {results.grids(experiment, regimes)}; "
    text += f"samples: {', '.join(map(str, samples))}"
    return text + (f"; up to {seeds} seeds. " if seeds > 1 else ". ")
