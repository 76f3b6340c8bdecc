"""Figures of iterations: how error, residual and correction fall, or do not, step by step.

Every curve is a mean over the test samples of `python -m paper evaluate`. The residual is the mean
square of the residual field, the correction the root mean square of one update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neuralsolver.training.presets import moving
from paper.methods import BLACK, METHODS
from paper.regimes import EXPERIMENTS
from paper.results import Results, Row, drawable, experiment_label, regime_label, series
from paper.style import LINES, MARKERS, Style, canvas, curve, furnish, shared_legend, styles_of
from paper.tables import backbone_labels

QUANTITIES = {
    "error": "relative $L_2$ error",
    "residual": "residual (mean square)",
    "correction": "correction (RMS)",
}
ROOM_ABOVE, FLOW_ROOM_ABOVE = 5.0, 1.0
"""Decades above the start that a picture shows of a method that diverges."""


def is_flow(experiment: str) -> bool:
    """Whether the experiment is about trajectories."""
    return experiment in EXPERIMENTS and moving(EXPERIMENTS[experiment].equation)


def histories(
    results: Results, experiment: str, regime: str, methods: Iterable[str]
) -> dict[str, Row]:
    """The rows of these methods that have a history to draw."""
    rows = {method: results.get(experiment, regime, method) for method in methods}
    return {
        method: row
        for method, row in rows.items()
        if row is not None and (series(row, "residual")[0] or series(row, "error")[0])
    }


def draw_histories(
    axis: Axes, rows: Mapping[str, Row], quantity: str, looks: Mapping[str, Style]
) -> None:
    """One curve a method on a logarithmic axis; a mean over fewer samples says so."""
    for method, row in rows.items():
        look = looks[method]
        few = f" [{row.samples // row.seeds} samples]" if row.few else ""
        curve(axis, *series(row, quantity), look._replace(label=f"{look.label}{few}"))
    _logarithmic(axis)


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
    regimes = EXPERIMENTS[experiment].regimes
    shown = {
        r.key: histories(results, experiment, r.key, methods if flow else methods[:3])
        for r in regimes
        if flow or r.key in ("in-distribution", "shift", "noisy-input")
    }
    found = {regime: rows for regime, rows in shown.items() if rows}
    if not found:
        return None
    title = f"{experiment_label(experiment)}, {results.grids(experiment, found)}: error, residual "
    size = (3.1 * len(found) + 0.6, 7.0)
    looks = styles_of(methods, experiment)
    figure, axes = canvas(
        3, len(found), size, f"{title}and correction over iterations", sharex="col", sharey="row"
    )
    for column, (regime, rows) in enumerate(found.items()):
        for line, (quantity, name) in enumerate(QUANTITIES.items()):
            axis = axes[line, column]
            draw_histories(axis, rows, quantity, looks)
            truth = results.get(experiment, regime, "truth")
            if quantity == "residual" and flow and truth is not None and truth.residual > 0:
                # below it a smaller residual is no smaller error
                label = "residual of the ground truth (floor)"
                axis.axhline(truth.residual, color=BLACK, ls="--", linewidth=1.0, label=label)
            head = regime_label(experiment, regime) if line == 0 else ""
            furnish(axis, head, "corrections" if line == 2 else "", "" if column else name)
    if flow:
        for row_of_axes in axes:
            _cut_above(row_of_axes, FLOW_ROOM_ABOVE)
    shared_legend(figure, 3)
    return figure


def refinement(results: Results) -> Figure | None:
    """Residual above error at κ = 1 and κ = 3: the network's steps and test-time optimisation."""
    methods = ("ens", "ens-contractive", "pino-ttop")
    panels = {"in-distribution": "κ = 1", "shift": "κ = 3"}
    found = {r: histories(results, "helmholtz", r, methods) for r in panels}
    if not any(found.values()):
        return None
    title = "Does a smaller residual mean a smaller error? ENS against PINO(TTOP)"
    figure, axes = canvas(2, 2, (8.0, 5.6), title, sharex=True, sharey="row")
    for column, (regime, head) in enumerate(panels.items()):
        for line, quantity in enumerate(("residual", "error")):
            axis = axes[line, column]
            draw_histories(axis, found[regime], quantity, styles_of(methods))
            # optimisation makes hundreds of steps where a corrector makes ten; step 0 is shown too
            axis.set_xscale("symlog", linthresh=1.0)
            axis.set_xlim(left=0)
            furnish(
                axis,
                "" if line else f"Helmholtz, {head}",
                "refinement steps" if line else "",
                "" if column else QUANTITIES[quantity],
            )
    shared_legend(figure, 3)
    return figure


def twin(results: Results, title: str, labels: Mapping[str, str]) -> Figure | None:
    """Residual and error of the ablations over iterations, side by side."""
    rows = histories(results, "ablations", "in-distribution", labels)
    if len(rows) < 2:
        return None  # a comparison of one
    grid = results.grids("ablations", ("in-distribution",))
    figure, axes = canvas(1, 2, (8.0, 3.6), f"{title} (Helmholtz, {grid}, in-distribution)")
    styles = styles_of(rows)
    looks = {method: styles[method]._replace(label=labels[method]) for method in rows}
    for axis, quantity in zip(axes[0], ("residual", "error"), strict=True):
        draw_histories(axis, rows, quantity, looks)
        furnish(axis, "", "corrections", QUANTITIES[quantity])
    shared_legend(figure, 5)
    return figure


def gradient_conditioning(results: Results) -> Figure | None:
    """A corrector that reads the residual, and one that reads the gradient of its square."""
    labels = {method: METHODS[method].label for method in ("ens", "ens-gradient")}
    return twin(results, "Reading the residual, or the gradient of its square", labels)


def backbones(results: Results) -> Figure | None:
    """ENS with each backbone."""
    return twin(results, "The iteration with each backbone", backbone_labels())


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
    shared_legend(figure, 4)
    return figure


def starts(results: Results) -> Figure | None:
    """Solvers from starts whose residuals span many orders of magnitude, a line a solver."""
    study = results.study("starts") or {}
    solvers: dict[str, list[Any]] = {}
    for entry in study.get("curves") or []:
        if drawable([0], [entry.get("initial_residual")])[0]:
            words = [experiment_label(entry["experiment"])] if entry.get("experiment") else []
            words.append(METHODS[entry.get("method", "ens")].label)
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
    shared_legend(figure, 4)
    return figure
