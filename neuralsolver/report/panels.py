"""Figures of fields: what a method answers, where it is wrong, and how the error goes away.

Errors are shown on a logarithmic scale that all panels of a figure share: on a linear one every
method that is ten times better than the worst looks perfect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from neuralsolver.drawing import Field, colours, draw
from neuralsolver.report.rows import Results
from neuralsolver.report.style import DPI, EXPERIMENTS, METHOD_STYLE, regime_label

CASES = (
    ("helmholtz", "cross-equation"),
    ("poisson", "cross-equation"),
    ("helmholtz", "super-resolution"),
    ("darcy", "shift"),
    ("helmholtz", "shift"),
    ("nonlinear-helmholtz", "shift"),
)
SHOWN = ("fno", "pino", "pino-ttop", "ens", "ens-contractive", "ens-accelerated")
DECADES = 6
"""Length of the logarithmic colour scale of errors."""

STEPS_SHOWN = 6
SHADES = 49
PANEL = 1.5
"""Side of one panel in inches."""


def qualitative(results: Results, experiment: str, regime: str) -> Figure | None:
    """Input, truth and the answers of the methods above the magnitude of their errors."""
    fields = items_of(results.fields, f"{experiment}/{regime}/")
    methods = [method for method in SHOWN if method in fields]
    if "truth" not in fields or not methods:
        return None
    truth = fields["truth"]
    size = (PANEL * (len(methods) + 2) + 1.2, 2 * PANEL + 0.95)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = figure.subplots(2, len(methods) + 2, squeeze=False)
    errors = {method: np.abs(fields[method] - truth) for method in methods}
    shared = colours(truth)
    smallest, largest = log_range(list(errors.values()))
    norm = LogNorm(smallest, largest)
    if "input" in fields:
        panel(axes[0, 0], fields["input"], "input", **colours(fields["input"]))
    answer = panel(axes[0, 1], truth, "truth", **shared)
    for column, method in enumerate(methods, start=2):
        relative = np.linalg.norm(errors[method]) / max(float(np.linalg.norm(truth)), 1e-30)
        panel(axes[0, column], fields[method], METHOD_STYLE[method].label, **shared)
        error = np.maximum(errors[method], smallest)
        wrong = panel(axes[1, column], error, f"{relative:.1e}", cmap="cividis", norm=norm)
    for axis in (*axes[1, :2], *([] if "input" in fields else [axes[0, 0]])):
        axis.set_axis_off()
    axes[1, 1].text(1.0, 0.5, "|error|\nand relative\n$L_2$", ha="right", va="center", fontsize=9)
    for row, image in ((0, answer), (1, wrong)):
        bar = figure.colorbar(image, ax=axes[row, :].tolist(), shrink=0.9, aspect=18, pad=0.01)
        bar.ax.tick_params(labelsize=7)
    heading = f"{EXPERIMENTS[experiment]}, {regime_label(experiment, regime)}"
    figure.suptitle(f"{heading}: answers and where they are wrong", fontsize=10)
    return figure


def items_of(fields: Mapping[str, Field], beginning: str) -> dict[str, Field]:
    """The fields of one regime by item; one that is not finite is left out."""
    return {
        name.removeprefix(beginning): np.asarray(field, dtype=np.float64)
        for name, field in fields.items()
        if name.startswith(beginning) and np.isfinite(field).all()
    }


def log_range(fields: Sequence[Field], decades: float = DECADES) -> tuple[float, float]:
    """The ends of a logarithmic scale that reaches up to the largest magnitude of all fields."""
    largest = max((float(np.abs(field).max()) for field in fields), default=0.0) or 1.0
    return largest * 10.0**-decades, largest


def panel(axis: Axes, field: Field, title: str, **options: Any) -> AxesImage:
    """One field without ticks."""
    # as many shades as a palette can hold, odd in number so that zero is white
    options["cmap"] = colormaps[options["cmap"]].resampled(SHADES)
    image = draw(axis, field, "", interpolation_stage="data", **options)
    axis.set_title(title, fontsize=8)
    axis.set_xticks([])
    axis.set_yticks([])
    return image


def snapshot_steps(results: Results, experiment: str, regime: str, method: str) -> list[int]:
    """The steps of which there are snapshots, thinned to those that a figure shows."""
    pattern = re.compile(re.escape(f"{experiment}/{regime}/{method}") + r"@(\d+)/error")
    steps = sorted(int(found[1]) for name in results.fields if (found := pattern.fullmatch(name)))
    if len(steps) <= STEPS_SHOWN:
        return steps
    chosen = np.linspace(0, len(steps) - 1, STEPS_SHOWN).round().astype(int)
    return [steps[index] for index in chosen]


def snapshots(results: Results, experiment: str, regime: str, method: str) -> Figure | None:
    """Error, residual and correction of one sample over iterations, each panel on its own scale.

    The scale is printed above the panel: the shape is to be compared down a column, the size along
    a line.
    """
    steps = snapshot_steps(results, experiment, regime, method)
    if len(steps) < 2:
        return None
    items = items_of(results.fields, f"{experiment}/{regime}/{method}@")
    figure = Figure(
        figsize=(PANEL * len(steps) + 0.5, 3 * PANEL + 1.2), dpi=DPI, layout="constrained"
    )
    axes = figure.subplots(3, len(steps), squeeze=False)
    for line, (quantity, name) in enumerate(
        (("error", "|error|"), ("residual", "residual"), ("correction", "correction"))
    ):
        for column, step in enumerate(steps):
            axis, field = axes[line, column], items.get(f"{step}/{quantity}")
            head = f"step {step}\n" if line == 0 else ""
            if field is None:
                axis.set_axis_off()
                axis.set_title(head, fontsize=8)
                continue
            largest = float(np.abs(field).max()) or 1.0
            limits = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
            if quantity == "error":
                field, limits = np.abs(field), {"cmap": "cividis", "vmin": 0.0, "vmax": largest}
            panel(axis, field, f"{head}max {largest:.0e}", **limits)
        axes[line, 0].text(
            -0.12,
            0.5,
            name,
            rotation=90,
            ha="right",
            va="center",
            fontsize=9,
            transform=axes[line, 0].transAxes,
        )
    heading = f"{METHOD_STYLE[method].label} on {EXPERIMENTS[experiment]}"
    figure.suptitle(
        f"{heading}, {regime_label(experiment, regime)}: error, residual and correction",
        fontsize=10,
    )
    return figure


COMPARED = (
    ("in-distribution", "ens-zero-field"),
    ("in-distribution", "ens"),
    ("shift", "ens"),
    ("noisy-input", "ens"),
    ("in-distribution", "ens-contractive"),
    ("shift", "ens-contractive"),
)


def iterations_side_by_side(results: Results, experiment: str, quantity: str) -> Figure | None:
    """Magnitude of the error or the residual over iterations, a line a method and regime."""
    lines = [
        (regime, method, steps)
        for regime, method in COMPARED
        if len(steps := snapshot_steps(results, experiment, regime, method)) > 1
    ]
    if len(lines) < 2:
        return None
    width = max(len(steps) for _, _, steps in lines)
    size = (PANEL * width + 2.2, (PANEL + 0.12) * len(lines) + 0.6)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = figure.subplots(len(lines), width, squeeze=False)
    pictures = {
        (line, column): np.abs(field)
        for line, (regime, method, steps) in enumerate(lines)
        for column, step in enumerate(steps)
        if (field := results.fields.get(f"{experiment}/{regime}/{method}@{step}/{quantity}"))
        is not None
        and np.isfinite(field).all()
    }
    smallest, largest = log_range(list(pictures.values()))
    norm = LogNorm(smallest, largest)
    for (line, column), axis in np.ndenumerate(axes):
        axis.set_axis_off()
        field = pictures.get((line, column))
        if field is not None:
            axis.set_axis_on()
            title = f"step {lines[line][2][column]}, max {float(field.max()):.0e}"
            image = panel(axis, np.maximum(field, smallest), title, cmap="cividis", norm=norm)
    for line, (regime, method, _) in enumerate(lines):
        label = f"{METHOD_STYLE[method].label}\n{regime_label(experiment, regime)}"
        axes[line, 0].text(
            -0.1, 0.5, label, ha="right", va="center", fontsize=8, transform=axes[line, 0].transAxes
        )
    bar = figure.colorbar(image, ax=axes.ravel().tolist(), shrink=0.6, aspect=30, pad=0.01)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(f"{EXPERIMENTS[experiment]}: |{quantity}| over iterations", fontsize=10)
    return figure
