"""Figures of curves and points: iterations, starts, what accuracy costs, conditioning.

A history is a mean over the test samples of `python -m paper evaluate`. The residual is the mean
square of the residual field, the correction the root mean square of one update. A figure is a
function of the results, or None where they lack its data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neuralsolver.training.presets import moving
from paper.methods import LEARNED, METHODS, methods_of
from paper.regimes import EXPERIMENTS
from paper.results import Results, Row, drawable, experiment_label, regime_label, series
from paper.style import (
    BLACK,
    BLUE,
    GREY,
    LINES,
    MARKERS,
    VERMILION,
    Style,
    canvas,
    curve,
    furnish,
    label_of,
    shared_legend,
    styles_of,
)
from paper.tables import backbone_labels

QUANTITIES = {
    "error": "relative $L_2$ error",
    "residual": "residual (mean square)",
    "correction": "correction (RMS)",
}
ROOM_ABOVE, FLOW_ROOM_ABOVE = 5.0, 1.0
"""Decades above the start that a picture shows of a method that diverges."""
EXACT = 1e-16
"""Where a logarithmic axis puts an error of zero."""
SYMBOLS = {"scale": "a", "wavenumber": "κ", "nonlinearity": "λ", "low": "a from", "high": "to"}
"""The constants that an operator depends on."""


def is_flow(experiment: str) -> bool:
    """Whether the experiment is about trajectories."""
    return experiment in EXPERIMENTS and moving(EXPERIMENTS[experiment].equation)


def histories(
    results: Results,
    experiment: str,
    title: str,
    regimes: Iterable[str],
    methods: Iterable[str],
    quantities: Sequence[str],
    *,
    labels: Mapping[str, str] | None = None,
    fewest: int = 1,
) -> Figure | None:
    """Quantities over iterations, a line of panels a quantity, a column a regime.

    Args:
        results: The rows.
        experiment: The experiment.
        title: What is shown.
        regimes: Those that are drawn where there are rows.
        methods: Those that are drawn where they have a history.
        quantities: Names of the history.
        labels: Other names of methods.
        fewest: How many methods a comparison needs.
    """
    found: dict[str, dict[str, Row]] = {}
    for regime in regimes:
        rows = {method: results.get(experiment, regime, method) for method in methods}
        drawn = {m: r for m, r in rows.items() if r is not None and any(_any(r))}
        if len(drawn) >= fewest:
            found[regime] = drawn
    if not found:
        return None
    looks = styles_of(methods, experiment)
    size = (max(4.5, 3.1 * len(found) + 0.6), 2.1 * len(quantities) + 0.8)
    name = f"{experiment_label(experiment)}, {results.grids(experiment, found)}: {title}"
    figure, axes = canvas(len(quantities), len(found), size, name, sharex="col", sharey="row")
    for (line, column), axis in np.ndenumerate(axes):
        regime, quantity = list(found)[column], quantities[line]
        for method, row in found[regime].items():
            label = (labels or {}).get(method, looks[method].label)
            few = f" [{row.samples} samples]" if row.few else ""
            curve(axis, *series(row, quantity), looks[method]._replace(label=f"{label}{few}"))
        _logarithmic(axis)
        head = regime_label(experiment, regime) if line == 0 else ""
        last = line == len(quantities) - 1
        furnish(axis, head, "corrections" if last else "", "" if column else QUANTITIES[quantity])
    return figure


def _any(row: Row) -> list[list[float]]:
    return [series(row, quantity)[0] for quantity in ("residual", "error")]


def _logarithmic(axis: Axes) -> None:
    if axis.lines:
        axis.set_yscale("log")
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _cut_above(axes: Iterable[Axes], room: float = ROOM_ABOVE) -> None:
    """Let a method that diverges leave the picture instead of flattening the others."""
    axes = list(axes)
    first = [np.asarray(line.get_ydata(), float)[:1] for axis in axes for line in axis.lines]
    begin = max((float(value) for values in first for value in values), default=np.inf)
    for axis in axes:
        axis.set_ylim(top=min(axis.get_ylim()[1], begin * 10**room))


def evolution(results: Results, experiment: str) -> Figure | None:
    """Error, residual and correction over iterations, with and without the residual."""
    flow = is_flow(experiment)
    methods = ("ens", "ens-zero-field", "ens-contractive", "ens-accelerated", "ens-contractive-cnn")
    keys = [r.key for r in EXPERIMENTS[experiment].regimes]
    shown = keys if flow else [k for k in keys if k in ("in-distribution", "shift", "noisy-input")]
    title = "error, residual and correction over iterations"
    chosen = methods if flow else methods[:3]
    figure = histories(results, experiment, title, shown, chosen, list(QUANTITIES))
    if figure is not None and flow:
        for axis, regime in zip(figure.axes[len(figure.axes) // 3 :], shown, strict=False):
            truth = results.get(experiment, regime, "truth")
            if truth is not None and truth.residual > 0:
                # below it a smaller residual is no smaller error
                label = "residual of the ground truth (floor)"
                axis.axhline(truth.residual, color=BLACK, ls="--", linewidth=1.0, label=label)
        for line in np.array(figure.axes).reshape(3, -1):
            _cut_above(line, FLOW_ROOM_ABOVE)
    return _finished(figure, 3)


def _finished(figure: Figure | None, columns: int) -> Figure | None:
    if figure is not None:
        shared_legend(figure, columns)
    return figure


def refinement(results: Results) -> Figure | None:
    """Residual above error at κ = 1 and κ = 3: the network's steps and test-time optimisation."""
    title = "does a smaller residual mean a smaller error?"
    methods, regimes = ("ens", "ens-contractive", "pino-ttop"), ("in-distribution", "shift")
    figure = histories(results, "helmholtz", title, regimes, methods, ("residual", "error"))
    for axis in figure.axes if figure is not None else ():
        # optimisation makes hundreds of steps where a corrector makes ten; step 0 is shown too
        axis.set_xscale("symlog", linthresh=1.0)
        axis.set_xlim(left=0)
    return _finished(figure, 3)


def ablation(results: Results, title: str, labels: Mapping[str, str]) -> Figure | None:
    """Residual and error of the ablations over iterations."""
    place, quantities = ("ablations", title, ["in-distribution"]), ("residual", "error")
    figure = histories(results, *place, labels, quantities, labels=labels, fewest=2)
    return _finished(figure, 5)


def gradient_conditioning(results: Results) -> Figure | None:
    """A corrector that reads the residual, and one that reads the gradient of its square."""
    labels = {method: METHODS[method].label for method in ("ens", "ens-gradient")}
    return ablation(results, "reading the residual, or the gradient of its square", labels)


def backbones(results: Results) -> Figure | None:
    """ENS with each backbone."""
    return ablation(results, "the iteration with each backbone", backbone_labels())


def noisy_start(results: Results) -> Figure | None:
    """Residual and error against seconds, every method from the same noisy start."""
    study = results.study("noisy-start") or {}
    curves = study.get("curves") or []
    if not curves:
        return None
    title = "From a noisy start: what a second of computing buys"
    figure, axes = canvas(1, 2, (9.0, 4.4), title)
    styles = styles_of(entry["method"] for entry in curves)
    times = [time for entry in curves for time in entry.get("seconds") or () if time]
    # a logarithmic axis shows the start itself at half the first time of all curves
    edge = 0.5 * min(times, default=1.0)
    warm = "" if study.get("warmed_up") else "; the first step includes the warm-up"
    for axis, quantity in zip(axes[0], ("residual", "error"), strict=True):
        for entry in curves:
            look = styles[entry["method"]]
            if entry.get("status") == "DIVERGED":
                look = look._replace(label=f"{look.label} (diverged)")
            seconds = [edge if s == 0 else s for s in entry.get("seconds") or ()]
            curve(axis, *drawable(seconds, entry.get(quantity)), look)
        if axis.lines:
            axis.set_xscale("log")
            axis.set_yscale("log")
            _cut_above([axis])
        furnish(axis, "", f"seconds{warm}", QUANTITIES[quantity])
    return _finished(figure, 4)


def starts(results: Results) -> Figure | None:
    """Solvers from starts whose residuals span many orders of magnitude, a line a solver."""
    solvers: dict[str, list[Any]] = {}
    for entry in (results.study("starts") or {}).get("curves") or []:
        if drawable([0], [entry.get("initial_residual")])[0]:
            words = [experiment_label(entry["experiment"])] if entry.get("experiment") else []
            words.append(label_of(entry.get("method", "ens")))
            solvers.setdefault(": ".join(words), []).append(entry)
    if not solvers:
        return None
    title = "The same solver from starts that are orders of magnitude apart"
    size = (9.0, 2.6 * len(solvers) + 1.0)
    figure, axes = canvas(len(solvers), 2, size, title, sharex=True)
    for line, (solver, chosen) in zip(axes, solvers.items(), strict=True):
        ordered = sorted(chosen, key=lambda entry: -float(entry["initial_residual"]))
        # the darker the smaller its residual; the yellow end of the map is too pale for lines
        shades = colormaps["viridis"](np.linspace(0.88, 0.0, len(ordered)))
        for axis, quantity in zip(line, ("residual", "error"), strict=True):
            looks = zip(ordered, shades, cycle(MARKERS), cycle(LINES), strict=False)
            for entry, shade, marker, look in looks:
                values = entry.get(quantity) or []
                points = drawable(range(len(values)), values)
                curve(axis, *points, Style(str(entry["start"]), to_hex(shade), marker, look))
            _logarithmic(axis)
            _cut_above([axis])
            furnish(axis, solver, "corrections", QUANTITIES[quantity])
    return _finished(figure, 4)


def accuracy(results: Results, experiment: str) -> Figure | None:
    """Every method as a point, a panel a regime of the paper: lower left is better.

    In a flow the classical solver is a front, from coarse grids to the one of the truth.
    """
    flow = is_flow(experiment)
    compared = [m.key for m in methods_of(EXPERIMENTS[experiment]) if m.kind != "bound"]
    found: dict[str, dict[str, Row]] = {}
    for regime in (r.key for r in EXPERIMENTS[experiment].regimes if r.printed):
        rows = {key: results.get(experiment, regime, key) for key in compared}
        timed = {key: r for key, r in rows.items() if r is not None and r.seconds_batch_1 > 0}
        if len(timed) > 1:
            found[regime] = timed
    if not found:
        return None
    note = "grey: best learned methods; hollow: fewer samples; dotted: the classical solver's time"
    note += "; black: the same with so many points along a side" if flow else ""
    title = f"{experiment_label(experiment)}: accuracy and its price\n({note})"
    looks = styles_of((m for m in METHODS if any(m in p for p in found.values())), experiment)
    figure, axes = canvas(1, len(found), (3.0 * len(found) + 0.5, 4.5), title, sharey=True)
    for axis, (regime, points) in zip(axes[0], found.items(), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.margins(0.1)
        for method, row in points.items():
            if method == "reference":
                axis.axvline(row.seconds_batch_1, color=BLACK, ls=":", lw=1, label=looks[method][0])
            if not (flow and method.startswith(("reference", "integrator"))):
                _point(axis, row, looks[method])
        _frontier(axis, points)
        _front(axis, points)
        left = QUANTITIES["error"] if axis is axes[0, 0] else ""
        furnish(axis, regime_label(experiment, regime), "CPU seconds per sample", left)
    drawn = [row for points in found.values() for row in points.values()]
    errors = [row.error for row in drawn if row.method != "reference" and row.error > 0]
    if flow and errors:
        # the error of the classical solver on the grid of the truth is that of storing the truth
        axes[0, 0].set_ylim(0.4 * min(errors), 2.5 * max(errors))
    return _finished(figure, 5)


def _point(axis: Axes, row: Row, look: Style) -> None:
    if 0 < row.error < math.inf:
        size = 11 if row.method == "reference" else 7
        looks: dict[str, Any] = {
            "linestyle": "none",
            "marker": look.marker,
            "color": look.colour,
            "ms": size,
        }
        looks |= {"mfc": "none" if row.few else look.colour, "mew": 1.5 if row.few else 0.5}
        looks["mec"] = look.colour if row.few else "black"
        axis.plot([row.seconds_batch_1], [row.error], label=look.label, **looks)


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


def _front(axis: Axes, points: Mapping[str, Row]) -> None:
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
        place: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7}
        place |= {"ha": "right", "va": "top"}
        axis.annotate(f"{grid:g}", (x, y), (-4, -1), **place)


def time_to_accuracy(results: Results) -> Figure | None:
    """Seconds to an accuracy against the grid, on Darcy, a panel an accuracy.

    Of several variants of a family the fastest is drawn; what missed its target is not.
    """
    study = [r for r in results.study("solve") or [] if drawable([0], [r.get("seconds")])[0]]
    rows = pd.DataFrame([row for row in study if row["reached"] and row["best"]])
    if rows.empty:
        return None
    targets = sorted(rows["target"].unique(), reverse=True)
    styles = styles_of(rows["family"].replace({"ENS": "ens-contractive"}))
    grids = sorted(rows["resolution"].unique())
    title = "Darcy: time to a given accuracy as the grid grows"
    figure, axes = canvas(1, len(targets), (3.2 * len(targets) + 0.8, 4.0), title, sharey=True)
    for axis, target in zip(axes[0], targets, strict=True):
        chosen = rows[rows["target"] == target].sort_values("resolution")
        for family, one in chosen.groupby("family", sort=False):
            look = styles[str(family).replace("ENS", "ens-contractive")]
            curve(axis, one["resolution"].tolist(), one["seconds"].tolist(), look)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(grids, [str(n) for n in grids])
        axis.minorticks_off()
        left = "seconds per sample" if axis is axes[0, 0] else ""
        furnish(axis, f"to {target:.0e}", "points along a side", left)
    return _finished(figure, 4)


def conditioning(results: Results) -> Figure | None:
    """Smallest singular value and condition number of every linearised equation."""
    rows = [row for row in results.study("conditioning") or [] if row.get("smallest")]
    if not rows:
        return None
    names = []
    for row in rows:
        constants = row.get("constants") or {}
        words = [f"{s} {constants[key]:g}" for key, s in SYMBOLS.items() if constants.get(key)]
        names.append(", ".join([experiment_label(row["equation"]), *words]))
    places = list(range(len(rows)))[::-1]
    grids = ", ".join(sorted({f"{row['resolution']} points a side" for row in rows}))
    title = "An error can be as large as the residual over the smallest singular value"
    size = (9.0, 0.34 * len(rows) + 1.5)
    figure, axes = canvas(1, 2, size, f"{title} ({grids})", sharey=True)
    shown = {"smallest": (BLUE, "", "smallest singular value", "σ min")}
    shown["condition"] = (VERMILION, "//", "condition number", "σ max / σ min")
    for axis, (key, (colour, hatch, head, below)) in zip(axes[0], shown.items(), strict=True):
        values = [float(row.get(key) or "nan") for row in rows]
        bars = axis.barh(places, values, color=colour, hatch=hatch, edgecolor="white", height=0.65)
        axis.set_xscale("log")
        axis.bar_label(bars, [f"{value:.1e}" for value in values], fontsize=7, padding=2)
        axis.margins(x=0.18)
        furnish(axis, head, below)
    axes[0, 0].set_yticks(places, names, fontsize=8)
    return figure


def as_viscosity_falls(results: Results) -> Figure | None:
    """σ_min against the viscosity, and the errors that a residual of 1e-4 allows."""
    rows = pd.DataFrame(results.study("flow-conditioning") or [])
    if rows.empty:
        return None
    rows = rows[rows["smallest"] > 0].sort_values("viscosity")
    rows["name"] = [
        f"{experiment_label(e)}, {n} × {n}"
        for e, n in zip(rows["experiment"], rows["resolution"], strict=True)
    ]
    title = "Trajectories as the viscosity falls: the smallest singular value, and Proposition 1"
    figure, ((left, right),) = canvas(1, 2, (9.0, 4.6), title)
    names = rows["name"].unique()
    looks = styles_of([*names, *(f"{name}: random direction" for name in names)])
    for name, one in rows.groupby("name", sort=False):
        xs, random = one["viscosity"].tolist(), f"{name}: random direction"
        curve(left, xs, one["smallest"].tolist(), looks[str(name)])
        curve(right, xs, one["gap"].tolist(), looks[str(name)])
        if len(one) > 1:
            curve(right, xs, one["random"].tolist(), looks[random])
    for still in sorted(rows["still"].unique()):
        left.axhline(still, color=GREY, linewidth=0.8, linestyle="--", label="without advection")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_yscale("log")
    furnish(left, "smallest singular value", "viscosity", "σ min")
    furnish(right, "Proposition 1 at a relative residual of 1e-4", "viscosity", "relative error")
    return _finished(figure, 3)
