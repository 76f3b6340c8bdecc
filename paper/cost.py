"""Figures of cost: accuracy against seconds, and time to accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.curves import is_flow
from paper.methods import BLACK, GREY, LEARNED, METHODS, methods_of
from paper.regimes import EXPERIMENTS
from paper.results import Results, Row, drawable, experiment_label, regime_label
from paper.style import Style, canvas, curve, furnish, shared_legend, styles_of

EXACT = 1e-16
"""Where a logarithmic axis puts an error of zero."""


def accuracy(results: Results, experiment: str) -> Figure | None:
    """Every method as a point, a panel a regime of the paper: lower left is better.

    In a flow the classical solver is a front, from coarse grids to the one of the truth.
    """
    order = ("in-distribution", "shift", "cross-equation", "viscosity-shift", "forcing-shift")
    found = {r: _points(results, experiment, r) for r in (*order, "super-resolution")}
    found = {regime: points for regime, points in found.items() if len(points) > 1}
    if not found:
        return None
    note = "grey: best learned methods; hollow: fewer samples; dotted: the classical solver's time"
    if is_flow(experiment):
        note += "; black: the same with so many points along a side"
    title = f"{experiment_label(experiment)}: accuracy and its price\n({note})"
    looks = styles_of((m for m in METHODS if any(m in p for p in found.values())), experiment)
    figure, axes = canvas(1, len(found), (3.0 * len(found) + 0.5, 4.5), title, sharey=True)
    for axis, (regime, points) in zip(axes[0], found.items(), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.margins(0.1)
        for method, row in points.items():
            _draw_point(axis, method, row, looks[method])
        _frontier(axis, points)
        _draw_front(axis, points)
        left = "relative $L_2$ error" if axis is axes[0, 0] else ""
        furnish(axis, regime_label(experiment, regime), "CPU seconds per sample", left)
    rows = [row for points in found.values() for row in points.values()]
    errors = [row.error for row in rows if row.method != "reference" and row.error > 0]
    if is_flow(experiment) and errors:
        # the error of the classical solver on the grid of the truth is that of storing the truth
        axes[0, 0].set_ylim(0.4 * min(errors), 2.5 * max(errors))
    shared_legend(figure, 5)
    return figure


def _points(results: Results, experiment: str, regime: str) -> dict[str, Row]:
    methods = [m for m in methods_of(EXPERIMENTS[experiment]) if m.kind != "bound"]
    rows = {method.key: results.get(experiment, regime, method.key) for method in methods}
    return {key: row for key, row in rows.items() if row is not None and row.seconds_batch_1 > 0}


def _draw_point(axis: Axes, method: str, row: Row, look: Style) -> None:
    seconds, reference = row.seconds_batch_1, method == "reference"
    if reference:
        axis.axvline(seconds, color="black", linestyle=":", linewidth=1.0, label=look.label)
    on_front = is_flow(row.experiment) and (reference or method.startswith("integrator"))
    if 0 < row.error < math.inf and not on_front:
        axis.plot(
            [seconds],
            [row.error],
            linestyle="none",
            marker=look.marker,
            color=look.colour,
            markerfacecolor="none" if row.few else look.colour,
            markersize=11 if reference else 7,
            markeredgecolor=look.colour if row.few else "black",
            markeredgewidth=1.5 if row.few else 0.5,
            label=look.label,
        )


def _frontier(axis: Axes, points: Mapping[str, Row]) -> None:
    """The learned methods that no other beats in both, joined by steps."""
    best, corners = math.inf, []
    for seconds, error in sorted(
        (row.seconds_batch_1, row.error)
        for method, row in points.items()
        if METHODS[method].kind in LEARNED and 0 < row.error < math.inf
    ):
        if error < best:
            best = error
            corners.append((seconds, error))
    if len(corners) > 1:
        xs, ys = zip(*corners, strict=True)
        axis.step(xs, ys, where="post", color=GREY, linewidth=1.0, alpha=0.7, zorder=0)


def _draw_front(axis: Axes, points: Mapping[str, Row]) -> None:
    """The classical solver from coarse grids to the one of the truth.

    The reference itself takes a finer grid: its distance from the truth is the error of the truth.
    """
    front = sorted(
        (int(method.removeprefix("integrator-")), row.seconds_batch_1, max(row.error, EXACT))
        for method, row in points.items()
        if method.startswith("integrator-") and row.error >= 0
    )
    if not front:
        return
    grids, xs, ys = zip(*front, strict=True)
    axis.plot(xs, ys, color=BLACK, marker=".", linewidth=1.0, label="classical solver, coarser")
    for grid, x, y in zip(grids, xs, ys, strict=True):
        # the front falls to the right, so there is room on its left
        axis.annotate(
            f"{grid:g}",
            (x, y),
            (-4, -1),
            textcoords="offset points",
            fontsize=7,
            ha="right",
            va="top",
        )


def time_to_accuracy(results: Results) -> Figure | None:
    """Seconds to an accuracy against the grid, on Darcy, a panel an accuracy.

    Of several variants of a family the fastest is drawn; what missed its target is not.
    """
    rows = [
        row
        for row in results.study("solve") or []
        if drawable([0], [row.get("seconds")])[0] and row["reached"] and row["best"]
    ]
    if not rows:
        return None
    targets = sorted({float(row["target"]) for row in rows}, reverse=True)
    families = {row["family"]: row["family"].replace("ENS", "ens-contractive") for row in rows}
    styles = styles_of(families.values())
    grids = sorted({int(row["resolution"]) for row in rows})
    title = "Darcy: time to a given accuracy as the grid grows"
    figure, axes = canvas(1, len(targets), (3.2 * len(targets) + 0.8, 4.0), title, sharey=True)
    for axis, target in zip(axes[0], targets, strict=True):
        for family, name in families.items():
            chosen = sorted(
                (float(row["resolution"]), float(row["seconds"]))
                for row in rows
                if row["family"] == family and float(row["target"]) == target
            )
            if chosen:
                curve(axis, [x for x, _ in chosen], [y for _, y in chosen], styles[name])
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(grids, [str(n) for n in grids])
        axis.minorticks_off()
        left = "seconds per sample" if axis is axes[0, 0] else ""
        furnish(axis, f"to {target:.0e}", "points along a side", left)
    shared_legend(figure, 4)
    return figure
