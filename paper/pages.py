"""The numbers of the documentation, written from the rows into the pages that show them.

A page names a table, or the row of a single number, in a comment, and `python -m paper report`
replaces what stands there with as many digits:

    <!-- table static-errors -->
    | equation | ... |
    <!-- end of table -->

    It reaches 3.5e-3<!--=helmholtz/in-distribution/ens--> after 15 corrections, a gain of
    4.2<!--=helmholtz/in-distribution/fno over helmholtz/in-distribution/ens--> over the FNO.

A test compares the pages with the rows: such a number that its row no longer has is a failing test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from neuralsolver.errors import InvalidInput
from paper.cells import NOT_RUN, measured, remarks
from paper.methods import LEARNED, METHODS
from paper.regimes import Experiment
from paper.results import Results, Row
from paper.tables import FLOWS, STATIC, flow_conditioning, flow_ratios, newton_flows
from paper.typeset import Line, Table, markdown, table

VALUE = re.compile(r"(\d[\d.]*(?:e[+-]?\d+)?)<!--=(.+?)-->")
PLACE = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def shortest(row: Row, metric: str) -> str:
    """An error, or seconds, with as few digits as a page needs."""
    value = row[metric]
    if metric == "error":
        return remarks(row) or "n/a" if math.isnan(value) else f"{value:.1e}"
    if math.isnan(value):
        return "not timed"
    milliseconds = f"{1e3 * value:.0f} ms" if value >= 0.01 else f"{1e3 * value:.2g} ms"
    return milliseconds if value < 0.9995 else f"{value:.2g} s"


def errors(
    results: Results, name: str, experiments: Sequence[Experiment], methods: Mapping[str, str]
) -> Table:
    """Errors of some methods in every regime of the paper, the best learned one bold."""
    blocks: list[list[Line]] = []
    for e in experiments:
        blocks.append([])
        for r in (r for r in e.regimes if r.printed):
            rows = [results.get(e.name, r.key, method) for method in methods]
            text, value = pd.Series(map(_error, rows)), pd.Series(map(_value, rows))
            shown = text.where(value.rank(method="min") != 1, "**" + text + "**")
            blocks[-1].append(((e.label, r.label), shown))
    return table(name, "", "equation, regime", methods.values(), blocks)


def _error(row: Row | None) -> str:
    if row is None:
        return NOT_RUN
    text, remark = shortest(row, "error"), remarks(row)
    return text if remark in ("", text) else f"{text} ({remark})"


def _value(row: Row | None) -> float:
    if row is None or METHODS[row["method"]].kind not in LEARNED:
        return math.nan
    value = measured(row, "error")[1]
    return value if math.isnan(value) else float(f"{value:.1e}")


def seconds(
    results: Results, name: str, experiments: Sequence[Experiment], methods: Mapping[str, str]
) -> Table:
    """CPU seconds of one sample as trained."""
    lines: list[Line] = []
    for e in experiments:
        rows = [results.get(e.name, "in-distribution", m) for m in methods]
        texts = [NOT_RUN if row is None else shortest(row, "seconds_batch_1") for row in rows]
        lines.append(((e.label,), texts))
    return table(name, "", "equation", methods.values(), [lines])


def steps(
    results: Results, name: str, experiments: Sequence[Experiment], methods: Mapping[str, str]
) -> Table:
    """Steps and CPU seconds to the tolerance, and what did not go as asked."""
    blocks: list[list[Line]] = []
    for e in experiments:
        blocks.append([])
        for r in e.regimes:
            rows = [results.get(e.name, r.key, m) for m in methods]
            if any(row is not None for row in rows):
                blocks[-1].append(((e.label, r.label), [_steps(row) for row in rows]))
    return table(name, "", "equation, regime", methods.values(), blocks)


def _steps(row: Row | None) -> str:
    if row is None:
        return NOT_RUN
    words = f"{row['steps']:.0f} step{'' if row['steps'] == 1 else 's'}"
    failed = row["status"].get("STALLED", 0) + row["status"].get("STEP_LIMIT", 0)
    missed = f", {failed} of {row['samples']} not reached" if failed else ""
    remark = remarks(row) if not failed else ""
    return f"{words}, {shortest(row, 'seconds_batch_1')}{missed}{', ' + remark if remark else ''}"


STATIC_METHODS = {"fno": "FNO", "pino-ttop": "PINO (TTOP)", "ens": "ENS, paper"}
STATIC_METHODS |= {"ens-contractive": "ENS, contractive"}
EQUAL = {"fno": "FNO", "pino": "PINO", "poseidon": "POSEIDON", "ens-brief": "ENS, paper"}
WITHOUT = {
    "without-network": "smoothing",
    "without-network-multigrid": "V-cycles to 8 points",
    "without-network-lu": "LU on 64 × 64",
    "ens-accelerated": "ENS, accelerated",
}
FLOW_METHODS = {"fno": "FNO-3D", "operator": "transformer", "ens": "ENS, paper"}
FLOW_METHODS |= {"ens-accelerated": "ENS, accelerated", "without-network": "classical counterpart"}
CLASSICAL = {"reference": "classical"}


def time_to_accuracy(results: Results, name: str) -> Table:
    """Seconds to an error on Darcy, the best variant of each family."""
    rows = pd.DataFrame(results.study("solve") or [])
    rows = rows[rows["reached"].astype(bool) & rows["best"].astype(bool)]
    wide = rows.pivot(index=["resolution", "target"], columns="family", values="seconds")
    wide = wide.sort_index(ascending=[True, False])
    lines: list[Line] = [
        ((f"{n} × {n}", f"{target:.0e}"), [shortest({"s": x}, "s") for x in line])
        for (n, target), line in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    return table(name, "", "grid, error", wide.columns, [lines])


FLOOR = {
    "floor": "points, integrated, time_order, dealiasing, interior, ends, all",
    "spacing": "frame_spacing, time_order, interior, ends, all",
    "grid": "points, against, first, middle, last",
}
"""Columns of each kind of row of the study residual-floor, labels before measured ones."""


def floor(results: Results, name: str) -> Table | None:
    """What the residual of a true flow is made of, for one kind of row."""
    rows = [r for r in results.study("residual-floor") or [] if f"floor-{r['kind']}" == name]
    if not rows:
        return None
    columns = FLOOR[name.removeprefix("floor-")].split(", ")
    labels, found = columns[:-3], columns[-3:]
    blocks: list[list[Line]] = [
        [
            ((e.label, *(str(row[key]) for key in labels)), [f"{row[key]:.1e}" for key in found])
            for row in rows
            if row["equation"] == e.name
        ]
        for e in FLOWS
    ]
    names = ", ".join(["flow", *labels]).replace("_", " ")
    return table(name, "", names, found, blocks)


LOSSES = {
    "Helmholtz, κ 1 → 3": ("helmholtz", "shift"),
    "nonlinear Helmholtz": ("nonlinear-helmholtz", "in-distribution"),
    "Darcy": ("darcy", "in-distribution"),
    "Navier-Stokes": ("navier-stokes", "in-distribution"),
    "Kolmogorov flow": ("kolmogorov", "in-distribution"),
}
"""The lines of the README."""


def losses(results: Results, name: str) -> Table | None:
    """Where a classical solver is ahead of every network: the README's table."""
    trained, lines = ("fno", "ens", "ens-accelerated"), []
    minutes: dict[str, list[list[float]]] = {method: [[], []] for method in trained}
    for label, place in LOSSES.items():
        flow = place[0] in [e.name for e in FLOWS]
        asked = (*trained, "integrator-64" if flow else "reference", "ens-newton")
        rows = [results.get(*place, method) for method in asked]
        fno, paper, ens, classical, newton = rows
        if fno is None or paper is None or ens is None or classical is None:
            return None
        for method, row in zip(trained, (fno, paper, ens), strict=True):
            minutes[method][flow].append(row["training"]["minutes"])
        words = f"1e-10 in {ens['steps']:.0f} steps"
        if flow:
            words = f"{_error(ens)}; then Newton {NOT_RUN if newton is None else _error(newton)}"
        answer = shortest(classical, "error") if flow else "exact"
        cells = [words, f"{answer}, {shortest(classical, 'seconds_batch_1')}"]
        lines.append(((label,), [shortest(fno, "error"), shortest(paper, "error"), *cells]))
    spans = [f"{_span(both[0])}; flows {_span(both[1])}" for both in minutes.values()]
    lines.append((("training, CPU minutes",), [*spans, "none"]))
    columns = ["FNO", "paper's recipe", "ENS", "classical solver"]
    return table(name, "", "equation", columns, [lines])


def _span(values: list[float]) -> str:
    ends = dict.fromkeys(f"{value:.0f}" for value in (min(values), max(values)))
    return "-".join(ends)


FRONT = {"integrator-32": "classical, 32²", "integrator-64": "classical, 64²"}

TABLES: dict[str, Callable[[Results, str], Table | None]] = {
    "static-errors": lambda r, name: errors(r, name, STATIC, STATIC_METHODS),
    "static-seconds": lambda r, name: seconds(r, name, STATIC, STATIC_METHODS | CLASSICAL),
    "equal-minutes": lambda r, name: errors(r, name, STATIC, EQUAL),
    "network-adds": lambda r, name: steps(r, name, STATIC, WITHOUT),
    "time-to-accuracy": time_to_accuracy,
    "losses": losses,
    "flow-errors": lambda r, name: errors(r, name, FLOWS, FLOW_METHODS | FRONT),
    "flow-seconds": lambda r, name: seconds(r, name, FLOWS, FLOW_METHODS | FRONT),
    "flow-ratios": lambda r, name: flow_ratios(r),
    "newton-flows": lambda r, name: newton_flows(r),
    **{f"floor-{kind}": floor for kind in FLOOR},
    "flow-conditioning": lambda r, name: flow_conditioning(r),
}
"""What a page may show."""


def renewed(page: str, results: Results) -> str:
    """The text of a page with its tables as the rows have them."""

    def fill(found: re.Match[str]) -> str:
        made = TABLES[found[2]](results, found[2])
        body = NOT_RUN + "\n" if made is None else markdown(made).split("\n\n", 1)[1]
        return f"{found[1]}{body}{found[3]}"

    def replace(found: re.Match[str]) -> str:
        value = _referred(results, found[2])
        return f"{_alike(value, found[1])}<!--={found[2]}-->"

    return VALUE.sub(replace, PLACE.sub(fill, page))


def _referred(results: Results, reference: str) -> float:
    """The number of experiment/regime/method[/column], or the ratio of two of them."""
    above, _, below = reference.partition(" over ")
    if below:
        return _referred(results, above) / _referred(results, below)
    experiment, regime, method, *column = reference.split("/")
    row = results.get(experiment, regime, method)
    if row is None:
        raise InvalidInput("a number of a page", "the place of a row", reference)
    return float(row[column[0] if column else "error"])


def _alike(value: float, text: str) -> str:
    """A number with as many digits as a text, and an exponent if it has one."""
    mantissa, letter, _ = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    if not letter:
        return f"{value:.{digits}f}"
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def renew(pages: Iterable[Path], results: Results) -> list[Path]:
    """Renew some pages; those that have changed."""
    changed = []
    for path in pages:
        text = path.read_text(encoding="utf-8")
        if (new := renewed(text, results)) != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed
