"""Figures of fields: what a method answers, where it is wrong, and how the error goes away.

Errors are shown on a logarithmic scale that all panels of a figure share: on a linear one every
method that is ten times better than the worst looks perfect. The archives hold the truth w and for
every method its error u − w: of an answer that is right to as many digits as are stored, nothing
would be left of the error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from neuralsolver.plotting.pictures import Field, colours, draw
from paper.curves import is_flow
from paper.methods import METHODS
from paper.results import Results, experiment_label, regime_label
from paper.style import canvas, style

DECADES, FLOW_DECADES = 6, 3
"""Length of the logarithmic colour scale of errors; those of a flow are closer together."""
STEPS_SHOWN = 6
SHADES = 49
PANEL = 1.5
"""Side of one panel in inches."""
TITLE_WIDTH = 19
"""Characters that fit above a panel."""


def places(results: Results) -> list[tuple[str, str]]:
    """The experiments and regimes of which there are answers to draw."""
    found = (name.split("/") for name in results.fields if re.fullmatch(r"[^@]*/error", name))
    return list(dict.fromkeys((experiment, regime) for experiment, regime, *_ in found))


def errors_of(results: Results, place: str) -> dict[str, Field]:
    """The errors of final answers by method, in the order of the legends."""
    items = results.items(place)
    return {m: items[f"{m}/error"] for m in METHODS if f"{m}/error" in items}


def residuals_of(results: Results, place: str) -> dict[str, Field]:
    """The residuals of final answers by method, of a flow those of the truth before them."""
    items = results.items(place)
    return {m: items[f"{m}/residual"] for m in ("truth", *METHODS) if f"{m}/residual" in items}


def qualitative(results: Results, experiment: str, regime: str) -> Figure | None:
    """Truth and answers with the magnitudes of their errors and of their residuals.

    Those of a static equation stand below the answers. Of a flow there is a line a time, the first
    frame that can be wrong, the middle and the last, and they stand to the right.
    """
    place = f"{experiment}/{regime}"
    items, errors = results.items(place), errors_of(results, place)
    if not errors or "truth" not in items:
        return None
    flow, truth = is_flow(experiment), items["truth"]
    given = {} if flow or "input" not in items else {"input": items["input"]}
    answers = {"truth": truth} | {method: truth + error for method, error in errors.items()}
    residuals = residuals_of(results, place)
    split, kinds = len(given) + len(answers), 3 if residuals else 2
    frames = sorted({min(1, len(truth) - 1), len(truth) // 2, len(truth) - 1}) if flow else [0]
    shape = (len(frames), split + len(errors) + len(residuals)) if flow else (kinds, split)
    title = f"{experiment_label(experiment)}, {regime_label(experiment, regime)}: answers"
    title += ", errors and residuals" if residuals else " and where they are wrong"
    size = (PANEL * shape[1] + 0.5, (PANEL + 0.2) * shape[0] + (1.3 if flow else 0.6))
    figure, axes = canvas(*shape, size, title)
    for axis in () if flow else axes[1:, : split - len(errors)].ravel():
        axis.set_axis_off()
    for field in given.values():
        panel(axes[0, 0], field, "input", **colours(field))
    for line, frame in enumerate(frames):
        for axis, (method, answer) in zip(axes[line, len(given) :], answers.items(), strict=False):
            head = "" if line else _head(experiment, method)
            left = panel(axis, _at(answer, frame), head, **colours(truth))
        if flow:
            axes[line, 0].set_ylabel(f"t = {items['times'][frame]:.3g}", fontsize=8)
    where = "bottom" if flow else "right"
    shared = axes[:, :split] if flow else axes[0, :]
    _bar(figure, left, shared, "vorticity" if flow else "solution", where)
    right = split + len(errors)
    beside = {"error": (axes[:, split:right] if flow else axes[1:2, split - len(errors) :], errors)}
    if residuals:
        below = axes[:, right:] if flow else axes[2:, split - len(residuals) :]
        beside["residual"] = (below, residuals)
    for kind, (chosen, fields) in beside.items():
        shown = frames if flow else None
        _magnitudes(figure, chosen, fields, truth=truth, kind=kind, frames=shown, place=experiment)
    return figure


def _magnitudes(
    figure: Figure,
    axes: Any,
    fields: Mapping[str, Field],
    *,
    truth: Field,
    kind: str,
    frames: Sequence[int] | None,
    place: str,
) -> None:
    """|error| or |residual| of every method on one logarithmic scale; above a panel its size.

    That of an error is relative, that of a residual its root mean square.
    """
    smallest, largest = log_range(fields.values(), DECADES if frames is None else FLOW_DECADES)
    for line, frame in enumerate(frames or [0]):
        for axis, (method, field) in zip(axes[line], fields.items(), strict=True):
            wrong, right = _at(field, frame), _at(truth, frame)
            unit = float(np.linalg.norm(right)) if kind == "error" else math.sqrt(wrong.size)
            number = np.linalg.norm(wrong) / max(unit, 1e-30)
            head = f"{kind} of\n{_head(place, method)}\n" if frames and line == 0 else ""
            options = {"cmap": "cividis", "norm": LogNorm(smallest, largest)}
            image = panel(
                axis, np.maximum(np.abs(wrong), smallest), f"{head}{number:.1e}", **options
            )
    words = {"error": "|error|, relative $L_2$", "residual": "|residual|, RMS"}[kind]
    _bar(figure, image, axes, words, "bottom" if frames else "right")


def _at(field: Field, frame: int) -> Field:
    return field[frame] if field.ndim == 3 else field


def _head(experiment: str, method: str) -> str:
    return fill(method if method == "truth" else style(method, experiment).label, TITLE_WIDTH)


def _bar(figure: Figure, image: AxesImage, axes: Any, name: str, where: str) -> None:
    long = where == "bottom"
    look: dict[str, Any] = {"shrink": 0.7 if long else 0.9, "aspect": 30 if long else 18}
    bar = figure.colorbar(image, ax=axes.ravel().tolist(), location=where, pad=0.02, **look)
    bar.set_label(name, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def log_range(fields: Iterable[Field], decades: float = DECADES) -> tuple[float, float]:
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


def followed(results: Results) -> dict[tuple[str, str, str], list[int]]:
    """The experiments, regimes and methods with snapshots, and the steps that a figure shows."""
    pattern = re.compile(r"([^/]+)/([^/]+)/([^/@]+)@(\d+)/error")
    found: dict[tuple[str, str, str], list[int]] = {}
    for match in filter(None, map(pattern.fullmatch, results.fields)):
        found.setdefault((match[1], match[2], match[3]), []).append(int(match[4]))
    for place, steps in found.items():
        chosen = np.linspace(0, len(steps) - 1, min(STEPS_SHOWN, len(steps))).round().astype(int)
        found[place] = [sorted(steps)[index] for index in chosen]
    return dict(sorted(found.items()))


def _beside(axis: Axes, words: str, **options: Any) -> None:
    axis.text(-0.1, 0.5, words, ha="right", va="center", transform=axis.transAxes, **options)


def snapshots(results: Results, experiment: str, regime: str, method: str) -> Figure | None:
    """Error, residual and correction of one sample over iterations, each panel on its own scale.

    The scale is printed above the panel: the shape is to be compared down a column, the size along
    a line.
    """
    steps = followed(results).get((experiment, regime, method), [])
    if len(steps) < 2:
        return None
    items = results.items(f"{experiment}/{regime}")
    title = f"{METHODS[method].label} on {experiment_label(experiment)}"
    title += f", {regime_label(experiment, regime)}: error, residual and correction"
    figure, axes = canvas(3, len(steps), (PANEL * len(steps) + 0.5, 3 * PANEL + 1.2), title)
    for line, quantity in enumerate(("error", "residual", "correction")):
        for column, step in enumerate(steps):
            axis, field = axes[line, column], items.get(f"{method}@{step}/{quantity}")
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
        _beside(axes[line, 0], "|error|" if line == 0 else quantity, rotation=90, fontsize=9)
    return figure


def iterations(results: Results, experiment: str, quantity: str) -> Figure | None:
    """Magnitude of the error or the residual over iterations, a line a method and regime."""
    lines = [
        (regime, method, steps)
        for (name, regime, method), steps in followed(results).items()
        if name == experiment and len(steps) > 1
    ]
    if len(lines) < 2:
        return None
    width = max(len(steps) for _, _, steps in lines)
    size = (PANEL * width + 2.2, (PANEL + 0.12) * len(lines) + 0.6)
    title = f"{experiment_label(experiment)}: |{quantity}| over iterations"
    figure, axes = canvas(len(lines), width, size, title)
    pictures = {
        (line, column): np.abs(results.fields[name])
        for line, (regime, method, steps) in enumerate(lines)
        for column, step in enumerate(steps)
        if (name := f"{experiment}/{regime}/{method}@{step}/{quantity}") in results.fields
    }
    smallest, largest = log_range(pictures.values())
    for (line, column), axis in np.ndenumerate(axes):
        axis.set_axis_off()
        field = pictures.get((line, column))
        if field is not None:
            axis.set_axis_on()
            title = f"step {lines[line][2][column]}, max {float(field.max()):.0e}"
            norm = LogNorm(smallest, largest)
            image = panel(axis, np.maximum(field, smallest), title, cmap="cividis", norm=norm)
    for line, (regime, method, _) in enumerate(lines):
        label = f"{METHODS[method].label}\n{regime_label(experiment, regime)}"
        _beside(axes[line, 0], label, fontsize=8)
    bar = figure.colorbar(image, ax=axes.ravel().tolist(), shrink=0.6, aspect=30, pad=0.01)
    bar.ax.tick_params(labelsize=7)
    return figure


def animations(results: Results) -> dict[str, tuple[dict[str, Field], Field]]:
    """Truth, answer and error of ENS over time with the times, by the name of the file."""
    found = {}
    for experiment, regime in places(results):
        place = f"{experiment}/{regime}"
        items, errors = results.items(place), errors_of(results, place)
        method = next((m for m in errors if m.startswith("ens")), None)
        if is_flow(experiment) and method is not None and {"truth", "times"} <= items.keys():
            fields = {"truth": items["truth"], "ENS": items["truth"] + errors[method]}
            found[f"flow-{experiment}-{regime}"] = (
                {**fields, "error": errors[method]},
                items["times"],
            )
    return found
