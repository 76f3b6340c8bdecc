"""Figures of iterations: how error, residual and correction fall, or do not, step by step.

Every curve is a mean over the test samples, written by `ens evaluate`. The residual is the mean
square of the residual field, the correction the root mean square of one update.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neuralsolver.report.rows import Results, Row
from neuralsolver.report.style import (
    BACKBONES,
    BLACK,
    DPI,
    EXPERIMENTS,
    FLOWS,
    METHOD_STYLE,
    SPARE,
    Style,
    curve,
    furnish,
    regime_label,
    shared_legend,
    styles_in,
    styles_of,
)

QUANTITIES = {
    "error": "relative $L_2$ error",
    "residual": "residual (mean square)",
    "correction": "correction (RMS)",
}
ROOM_ABOVE, FLOW_ROOM_ABOVE = 5.0, 1.0
"""Decades above the start that a picture shows of a method that diverges."""


def histories(
    results: Results, experiment: str, regime: str, methods: Sequence[str]
) -> dict[str, Row]:
    """The rows of these methods that have a history to draw."""
    rows = {method: results.get(experiment, regime, method) for method in methods}
    return {
        method: row
        for method, row in rows.items()
        if row is not None and (row.series("residual")[0] or row.series("error")[0])
    }


def draw_histories(
    axis: Axes, rows: dict[str, Row], quantity: str, labels: dict[str, str] | None = None
) -> None:
    """One curve a method on a logarithmic axis."""
    for method, row in rows.items():
        xs, ys = row.series(quantity)
        if not xs:
            continue
        style = styles_in(row.experiment)[method]
        if labels:
            style = Style(labels[method], style.colour, style.marker, style.line)
        curve(axis, xs, ys, style)
    if axis.lines:
        axis.set_yscale("log")
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


EVOLVING = {
    False: (
        ("in-distribution", "shift", "noisy-input"),
        ("ens", "ens-zero-field", "ens-contractive"),
    ),
    True: (
        ("in-distribution", "viscosity-shift", "forcing-shift", "super-resolution"),
        ("ens", "ens-contractive", "ens-accelerated", "ens-contractive-cnn"),
    ),
}
"""Regimes and methods whose iterations are shown, of the static equations and of the flows."""


def evolution(results: Results, experiment: str) -> Figure | None:
    """Error, residual and correction over iterations, with and without the residual."""
    regimes, methods = EVOLVING[experiment in FLOWS]
    found = {r: histories(results, experiment, r, methods) for r in regimes}
    found = {regime: rows for regime, rows in found.items() if rows}
    if not found:
        return None
    figure = Figure(figsize=(3.1 * len(found) + 0.6, 7.0), dpi=DPI, layout="constrained")
    axes = figure.subplots(3, len(found), squeeze=False, sharex="col", sharey="row")
    for column, (regime, rows) in enumerate(found.items()):
        for line, (quantity, name) in enumerate(QUANTITIES.items()):
            axis = axes[line, column]
            draw_histories(axis, rows, quantity)
            if quantity == "residual" and experiment in FLOWS:
                _draw_floor(axis, results.get(experiment, regime, "truth"))
            title = regime_label(experiment, regime) if line == 0 else ""
            furnish(axis, title, "corrections" if line == 2 else "", name if column == 0 else "")
    if experiment in FLOWS:
        for row_of_axes in axes:
            _cut_above(row_of_axes, FLOW_ROOM_ABOVE)
    figure.suptitle(
        f"{EXPERIMENTS[experiment]}: error, residual and correction over iterations",
        fontsize=10,
    )
    shared_legend(figure, 3)
    return figure


def _draw_floor(axis: Axes, truth: Row | None) -> None:
    """The residual of the true trajectory: below it a smaller residual is no smaller error."""
    if truth is not None and truth.residual:
        label = "residual of the ground truth (floor)"
        axis.axhline(truth.residual, color=BLACK, linestyle="--", linewidth=1.0, label=label)


def refinement(results: Results) -> Figure | None:
    """Residual above error at κ = 1 and κ = 3: the network's steps and test-time optimisation."""
    methods = ("ens", "ens-contractive", "pino-ttop")
    panels = {"in-distribution": "κ = 1", "shift": "κ = 3"}
    found = {r: histories(results, "helmholtz", r, methods) for r in panels}
    if not any(found.values()):
        return None
    figure = Figure(figsize=(8.0, 5.6), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, (regime, title) in enumerate(panels.items()):
        for line, quantity in enumerate(("residual", "error")):
            axis = axes[line, column]
            draw_histories(axis, found[regime], quantity)
            # optimisation makes hundreds of steps where a corrector makes ten; step 0 is shown too
            axis.set_xscale("symlog", linthresh=1.0)
            axis.set_xlim(left=0)
            furnish(
                axis,
                f"Helmholtz, {title}" if line == 0 else "",
                "refinement steps" if line == 1 else "",
                QUANTITIES[quantity] if column == 0 else "",
            )
    figure.suptitle(
        "Does a smaller residual mean a smaller error? ENS against PINO(TTOP)", fontsize=10
    )
    shared_legend(figure, 3)
    return figure


def twin(
    results: Results,
    experiment: str,
    regime: str,
    methods: Sequence[str],
    *,
    title: str,
    labels: dict[str, str] | None = None,
) -> Figure | None:
    """Residual and error over iterations, side by side."""
    rows = histories(results, experiment, regime, methods)
    if len(rows) < 2:
        return None  # a comparison of one
    figure = Figure(figsize=(8.0, 3.6), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, quantity in zip(axes, ("residual", "error"), strict=True):
        draw_histories(axis, rows, quantity, labels)
        furnish(axis, "", "corrections", QUANTITIES[quantity])
    figure.suptitle(
        f"{title} ({EXPERIMENTS[experiment]}, {regime_label(experiment, regime)})", fontsize=10
    )
    shared_legend(figure, 5)
    return figure


def gradient_conditioning(results: Results) -> Figure | None:
    """A corrector that reads the residual, and one that reads the gradient of its square."""
    title = "Reading the residual, or the gradient of its square"
    return twin(results, results.ablations, "in-distribution", ("ens", "ens-gradient"), title=title)


def backbones(results: Results) -> Figure | None:
    """ENS with five backbones."""
    title = "The iteration with each backbone"
    methods = tuple(BACKBONES)
    return twin(
        results, results.ablations, "in-distribution", methods, title=title, labels=BACKBONES
    )


def noisy_start(study: Any) -> Figure | None:
    """Residual and error against seconds, every method from the same noisy start."""
    curves = [] if not study else study.get("curves") or []
    if not curves:
        return None
    figure = Figure(figsize=(9.0, 4.4), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, 2)
    labels = {entry["method"]: str(entry.get("label", "")) for entry in curves}
    styles = styles_of(labels, labels)
    edge = _left_edge(curves)
    for entry in curves:
        style = styles[entry["method"]]
        if entry.get("status") == "DIVERGED":
            style = Style(f"{style.label} (diverged)", style.colour, style.marker, style.line)
        for axis, quantity in zip(axes, ("residual", "error"), strict=True):
            seconds = [edge if s == 0 else s for s in entry.get("seconds") or ()]
            pairs = _positive(seconds, entry.get(quantity))
            if pairs:
                curve(axis, [x for x, _ in pairs], [y for _, y in pairs], style)
    for axis, quantity in zip(axes, ("residual", "error"), strict=True):
        if axis.lines:
            axis.set_xscale("log")
            axis.set_yscale("log")
            _cut_above([axis])
        furnish(axis, "", "seconds", QUANTITIES[quantity])
    figure.suptitle("From a noisy start: what a second of computing buys", fontsize=10)
    shared_legend(figure, 4)
    return figure


def _left_edge(curves: Sequence[Any]) -> float:
    """Where a logarithmic axis shows the start itself: half the first time of all curves."""
    times = [time for entry in curves for time in entry.get("seconds") or () if time]
    return 0.5 * min(times, default=1.0)


def starts(study: Any) -> Figure | None:
    """Solvers from starts whose residuals span many orders of magnitude, a line a solver."""
    curves = [] if not study else study.get("curves") or []
    curves = [entry for entry in curves if _positive([1], [entry.get("initial_residual")])]
    if not curves:
        return None
    solvers = list(dict.fromkeys(map(_solver, curves)))
    figure = Figure(figsize=(9.0, 2.6 * len(solvers) + 1.0), dpi=DPI, layout="constrained")
    axes = figure.subplots(len(solvers), 2, squeeze=False, sharex=True)
    for line, solver in zip(axes, solvers, strict=True):
        chosen = [entry for entry in curves if _solver(entry) == solver]
        for axis, quantity in zip(line, ("residual", "error"), strict=True):
            _draw_starts(axis, chosen, quantity)
            furnish(axis, solver, "corrections", QUANTITIES[quantity])
    figure.suptitle("The same solver from starts that are orders of magnitude apart", fontsize=10)
    shared_legend(figure, 4)
    return figure


def _solver(entry: Any) -> str:
    """Which solver a curve belongs to, in words."""
    method, experiment = entry.get("method", "ens"), entry.get("experiment", "")
    label = METHOD_STYLE[method].label if method in METHOD_STYLE else method
    return f"{EXPERIMENTS.get(experiment, experiment)}: {label}" if experiment else label


def _draw_starts(axis: Axes, curves: Sequence[Any], quantity: str) -> None:
    """One curve a start, the darker the smaller its residual."""
    ordered = sorted(curves, key=lambda entry: -float(entry["initial_residual"]))
    # the yellow end of the map is too pale for lines
    shades = colormaps["viridis"](np.linspace(0.88, 0.0, len(ordered)))
    for entry, shade, (_, marker, line) in zip(ordered, shades, cycle(SPARE), strict=False):
        values = entry.get(quantity) or []
        pairs = _positive(range(1, len(values) + 1), values)
        style = Style(str(entry["start"]), to_hex(shade), marker, line)
        curve(axis, [x - 1 for x, _ in pairs], [y for _, y in pairs], style)
    if any(len(line.get_xdata()) for line in axis.lines):  # type: ignore[arg-type]
        axis.set_yscale("log")
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _cut_above([axis])


def _positive(xs: Any, ys: Any) -> list[tuple[float, float]]:
    """The pairs that a logarithmic axis can show."""
    return [
        (float(x), float(y))
        for x, y in zip(xs or (), ys or (), strict=False)
        if x is not None and y is not None and 0 < x < float("inf") and 0 < y < float("inf")
    ]


def _cut_above(axes: Iterable[Axes], room: float = ROOM_ABOVE) -> None:
    """Let a method that diverges leave the picture instead of flattening the others."""
    axes = list(axes)
    first = [
        np.asarray(line.get_ydata(), dtype=np.float64)[:1] for axis in axes for line in axis.lines
    ]
    begin = max((float(value) for values in first for value in values), default=np.inf)
    for axis in axes:
        axis.set_ylim(top=min(axis.get_ylim()[1], begin * 10**room))
