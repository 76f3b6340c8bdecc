"""Figures of fields: what a method answers, where it is wrong, and how the error goes away.

Errors are shown on a logarithmic scale that all panels of a figure share: on a linear one every
method that is ten times better than the worst looks perfect. The archives hold the truth w and for
every method its error u − w: of an answer that is right to as many digits as are stored, nothing
would be left of the error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from neuralsolver.plotting.pictures import Field, colours, draw
from paper.figures import is_flow
from paper.methods import METHODS
from paper.results import Results, experiment_label, regime_label
from paper.style import canvas, label_of

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


def _answers(items: Mapping[str, Field], kind: str) -> dict[str, Field]:
    """Errors or residuals of final answers in the order of the legends, the truth's first."""
    return {m: items[f"{m}/{kind}"] for m in ("truth", *METHODS) if f"{m}/{kind}" in items}


def qualitative(results: Results, experiment: str, regime: str) -> Figure | None:
    """Truth and answers with the magnitudes of their errors and of their residuals.

    Those of a static equation stand below the answers. Of a flow there is a line a time, the first
    frame that can be wrong, the middle and the last, and they stand to the right.
    """
    items = results.items(f"{experiment}/{regime}")
    errors, residuals = (_answers(items, kind) for kind in ("error", "residual"))
    if not errors or "truth" not in items:
        return None
    flow, truth = is_flow(experiment), items["truth"]
    given = {} if flow or "input" not in items else {"input": items["input"]}
    answers = {"truth": truth} | {method: truth + error for method, error in errors.items()}
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
            head = "" if line else fill(label_of(method, experiment), TITLE_WIDTH)
            left = panel(axis, _at(answer, frame), head, **colours(truth))
        if flow:
            axes[line, 0].set_ylabel(f"t = {items['times'][frame]:.3g}", fontsize=8)
    shared = axes[:, :split] if flow else axes[0, :]
    _bar(figure, left, shared, "vorticity" if flow else "solution", flow)
    right = split + len(errors)
    beside = {"error": (axes[:, split:right] if flow else axes[1:2, split - len(errors) :], errors)}
    if residuals:
        below = axes[:, right:] if flow else axes[2:, split - len(residuals) :]
        beside["residual"] = (below, residuals)
    for kind, (chosen, fields) in beside.items():
        heads = [fill(label_of(method, experiment), TITLE_WIDTH) for method in fields]
        _magnitudes(figure, chosen, [*fields.values()], heads, truth, kind, frames if flow else [])
    return figure


def _magnitudes(
    figure: Figure,
    axes: Any,
    fields: Sequence[Field],
    heads: Sequence[str],
    truth: Field,
    kind: str,
    frames: Sequence[int],
) -> None:
    """|error| or |residual| of every method on one logarithmic scale; above a panel its size.

    That of an error is relative, that of a residual its root mean square.
    """
    largest = max(float(np.abs(field).max()) for field in fields) or 1.0
    smallest = largest * 10.0 ** -(FLOW_DECADES if frames else DECADES)
    for line, frame in enumerate(frames or [0]):
        for axis, field, head in zip(axes[line], fields, heads, strict=True):
            wrong, right = _at(field, frame), _at(truth, frame)
            unit = float(np.linalg.norm(right)) if kind == "error" else math.sqrt(wrong.size)
            number = f"{np.linalg.norm(wrong) / max(unit, 1e-30):.1e}"
            words = f"{kind} of\n{head}\n{number}" if frames and line == 0 else number
            options = {"cmap": "cividis", "norm": LogNorm(smallest, largest)}
            image = panel(axis, np.maximum(np.abs(wrong), smallest), words, **options)
    words = {"error": "|error|, relative $L_2$", "residual": "|residual|, RMS"}[kind]
    _bar(figure, image, axes, words, bool(frames))


def _at(field: Field, frame: int) -> Field:
    return field[frame] if field.ndim == 3 else field


def _bar(figure: Figure, image: AxesImage, axes: Any, name: str, below: bool) -> None:
    look: dict[str, Any] = {"shrink": 0.7 if below else 0.9, "aspect": 30 if below else 18}
    look["location"] = "bottom" if below else "right"
    bar = figure.colorbar(image, ax=axes.ravel().tolist(), pad=0.02, **look)
    bar.set_label(name, fontsize=8)
    bar.ax.tick_params(labelsize=7)


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
        place: dict[str, Any] = {"ha": "right", "va": "center", "rotation": 90, "fontsize": 9}
        words = "|error|" if line == 0 else quantity
        axes[line, 0].text(-0.1, 0.5, words, transform=axes[line, 0].transAxes, **place)
    return figure


def animations(results: Results) -> dict[str, tuple[dict[str, Field], Field]]:
    """Truth, answer and error of ENS over time with the times, by the name of the file."""
    found = {}
    for experiment, regime in places(results):
        items = results.items(f"{experiment}/{regime}")
        errors = _answers(items, "error")
        method = next((m for m in errors if m.startswith("ens")), None)
        if is_flow(experiment) and method is not None and {"truth", "times"} <= items.keys():
            fields = {"truth": items["truth"], "ENS": items["truth"] + errors[method]}
            shown = {**fields, "error": errors[method]}
            found[f"flow-{experiment}-{regime}"] = (shown, items["times"])
    return found
