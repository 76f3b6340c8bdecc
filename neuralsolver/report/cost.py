"""Figures of cost: accuracy against seconds, time to accuracy, and the conditioning behind both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralsolver.report.rows import Results, Row
from neuralsolver.report.style import (
    BLACK,
    BLUE,
    COARSE,
    DPI,
    EXPERIMENTS,
    FLOWS,
    GREY,
    VERMILION,
    curve,
    furnish,
    regime_label,
    shared_legend,
    styles_in,
    styles_of,
)

REGIMES = (
    "in-distribution",
    "shift",
    "cross-equation",
    "viscosity-shift",
    "forcing-shift",
    "super-resolution",
)
CLASSICAL = (*COARSE, "reference")
LABEL: dict[str, Any] = {"fontsize": 7, "ha": "right", "va": "top"}
EXACT = 1e-16
"""Where a logarithmic axis puts an error of zero."""


def accuracy_against_seconds(results: Results, experiment: str) -> Figure | None:
    """Every method as a point, a panel a regime: lower left is better.

    In a flow the classical solver is a front, from coarse grids to the one of the truth.
    """
    found = {regime: _points(results, experiment, regime) for regime in REGIMES}
    found = {regime: points for regime, points in found.items() if len(points) > 1}
    if not found:
        return None
    figure = Figure(figsize=(3.0 * len(found) + 0.5, 4.3), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for axis, (regime, points) in zip(axes, found.items(), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.margins(0.1)
        _draw_points(axis, points)
        _frontier(axis, points)
        left = "relative $L_2$ error" if axis is axes[0] else ""
        furnish(axis, regime_label(experiment, regime), "CPU seconds per sample", left)
    classical = "dotted: the classical solver's time"
    if experiment in FLOWS:
        classical += "; black: the same with so many points along a side"
        for axis, points in zip(axes, found.values(), strict=True):
            _draw_front(axis, points)
        _cut_below(axes[0], found.values())
    figure.suptitle(
        f"{EXPERIMENTS[experiment]}: accuracy and its price "
        f"(grey: best learned methods; {classical})",
        fontsize=10,
    )
    shared_legend(figure, 5)
    return figure


def _points(results: Results, experiment: str, regime: str) -> dict[str, Row]:
    rows = {method: results.get(experiment, regime, method) for method in styles_in(experiment)}
    return {
        method: row
        for method, row in rows.items()
        if row is not None and method not in ("truth", "still", "zero") and row.seconds_batch_1
    }


def _draw_points(axis: Axes, points: Mapping[str, Row]) -> None:
    for method, row in points.items():
        style, seconds = styles_in(row.experiment)[method], row.seconds_batch_1 or 0.0
        flow, reference = row.experiment in FLOWS, method == "reference"
        if reference:
            axis.axvline(seconds, color="black", linestyle=":", linewidth=1.0, label=style.label)
        if row.error is not None and _drawable(row.error) and not (flow and method in CLASSICAL):
            axis.plot(
                [seconds],
                [row.error],
                linestyle="none",
                marker=style.marker,
                color=style.colour,
                markersize=11 if reference else 7,
                markeredgecolor="black",
                markeredgewidth=0.5,
                label=style.label,
            )


def _draw_front(axis: Axes, points: Mapping[str, Row]) -> None:
    """The classical solver from coarse grids to the one of the truth.

    The reference itself takes a finer grid: its distance from the truth is the error of the truth.
    """
    front = sorted(
        (COARSE[method], row.seconds_batch_1 or 0.0, max(row.error, EXACT))
        for method, row in points.items()
        if method in COARSE and row.error is not None
    )
    if not front:
        return
    grids, xs, ys = zip(*front, strict=True)
    axis.plot(xs, ys, color=BLACK, marker=".", linewidth=1.0, label="classical solver, coarser")
    for grid, x, y in zip(grids, xs, ys, strict=True):
        # the front falls to the right, so there is room on its left
        axis.annotate(f"{grid:g}", (x, y), (-4, -1), textcoords="offset points", **LABEL)


def _cut_below(axis: Axes, found: Iterable[Mapping[str, Row]]) -> None:
    """Let the front leave the picture where the classical solver is the truth itself.

    Its error is then that of storing the truth; no axis is stretched to show it.
    """
    errors = [
        row.error
        for points in found
        for method, row in points.items()
        if method != "reference" and row.error is not None and _drawable(row.error)
    ]
    if errors:
        axis.set_ylim(0.4 * min(errors), 2.5 * max(errors))


def _frontier(axis: Axes, points: Mapping[str, Row]) -> None:
    """The learned methods that no other beats in both, joined by steps."""
    learned = sorted(
        (row.seconds_batch_1 or 0.0, row.error or 0.0)
        for method, row in points.items()
        if method.startswith(("ens", "fno", "pino", "operator")) and _drawable(row.error)
    )
    best, corners = math.inf, []
    for seconds, error in learned:
        if error < best:
            best = error
            corners.append((seconds, error))
    if len(corners) > 1:
        xs, ys = zip(*corners, strict=True)
        axis.step(xs, ys, where="post", color=GREY, linewidth=1.0, alpha=0.7, zorder=0)


def _drawable(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def time_to_accuracy(study: Any) -> Figure | None:
    """Seconds to an accuracy against the grid, on Darcy, a panel an accuracy.

    Of several variants of a family the fastest is drawn; what missed its target is not.
    """
    rows = [
        row
        for row in (study.get("rows", []) if isinstance(study, dict) else study or [])
        if _drawable(row.get("seconds")) and row.get("reached", True) and row.get("best", True)
    ]
    if not rows:
        return None
    targets = sorted({_target(row) for row in rows}, reverse=True)
    styles = styles_of(dict.fromkeys(_family(row) for row in rows))
    figure = Figure(figsize=(3.2 * len(targets) + 0.8, 4.0), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, len(targets), squeeze=False, sharey=True)[0]
    for axis, target in zip(axes, targets, strict=True):
        for family, style in styles.items():
            chosen = sorted(
                (float(row["resolution"]), float(row["seconds"]))
                for row in rows
                if _family(row) == family and _target(row) == target
            )
            if chosen:
                curve(axis, [x for x, _ in chosen], [y for _, y in chosen], style)
        _grid_axis(axis, sorted({int(row["resolution"]) for row in rows}))
        left = "seconds per sample" if axis is axes[0] else ""
        furnish(axis, f"to {target:.0e}", "points along a side", left)
    figure.suptitle("Darcy: time to a given accuracy as the grid grows", fontsize=10)
    shared_legend(figure, 4)
    return figure


def _target(row: Mapping[str, Any]) -> float:
    return float(row.get("target") or row.get("tolerance") or 0.0)


def _family(row: Mapping[str, Any]) -> str:
    name = str(row.get("family") or row["method"])
    return {"ENS": "ens-contractive"}.get(name, name)


def _grid_axis(axis: Axes, resolutions: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(resolutions, [str(n) for n in resolutions])
    axis.minorticks_off()


def conditioning(study: Any) -> Figure | None:
    """Smallest singular value and condition number of every linearised equation."""
    rows = [row for row in study or [] if _drawable(row.get("smallest"))]
    if not rows:
        return None
    names = [_name(row) for row in rows]
    places = list(range(len(rows)))[::-1]
    figure = Figure(figsize=(9.0, 0.34 * len(rows) + 1.5), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axis, key, colour, hatch in (
        (left, "smallest", BLUE, ""),
        (right, "condition", VERMILION, "//"),
    ):
        values = [float(row.get(key) or "nan") for row in rows]
        bars = axis.barh(places, values, color=colour, hatch=hatch, edgecolor="white", height=0.65)
        axis.set_xscale("log")
        axis.bar_label(bars, [f"{value:.1e}" for value in values], fontsize=7, padding=2)
        axis.margins(x=0.18)
    left.set_yticks(places, names, fontsize=8)
    furnish(left, "smallest singular value", "σ min")
    furnish(right, "condition number", "σ max / σ min")
    left.tick_params(axis="y", labelsize=8)
    grids = ", ".join(sorted({f"{row['resolution']} points a side" for row in rows}))
    figure.suptitle(
        f"An error can be as large as the residual over the smallest singular value ({grids})",
        fontsize=10,
    )
    return figure


def _name(row: Mapping[str, Any]) -> str:
    """Equation and those constants that its operator depends on."""
    constants = row.get("constants") or {}
    words = [
        f"{symbol} {constants[name]:g}" for name, symbol in SYMBOLS.items() if constants.get(name)
    ]
    name = str(EXPERIMENTS.get(row["equation"], row["equation"]))
    return f"{name}, {', '.join(words)}" if words else name


SYMBOLS = {"scale": "a", "wavenumber": "κ", "nonlinearity": "λ", "low": "a from", "high": "to"}
