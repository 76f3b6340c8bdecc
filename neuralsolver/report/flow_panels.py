"""Figures and animations of flows: what a method answers at some times, and where it is wrong.

The trajectories are those of flow-fields.npz. It holds the truth and, for every method, the error
u − w rather than the answer u = w + (u − w): half precision has three digits, and of an answer that
is right to three digits they would leave nothing of the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from neuralsolver.drawing import Field, colours
from neuralsolver.report.panels import PANEL, items_of, log_range, panel
from neuralsolver.report.rows import Results
from neuralsolver.report.style import DPI, EXPERIMENTS, FLOWS, regime_label, styles_in

DECADES = 3
"""Length of the logarithmic colour scale of errors; those of a flow are closer together."""

TITLE_WIDTH = 19
"""Characters that fit above a panel."""


def places(results: Results) -> list[tuple[str, str]]:
    """The flows and regimes of which there is a trajectory to draw."""
    names = (name.split("/") for name in results.flow_fields)
    return list(dict.fromkeys((flow, regime) for flow, regime, *_ in names if flow in FLOWS))


def errors_of(items: Mapping[str, Field], experiment: str) -> dict[str, Field]:
    """The errors (T, n, n) by method, in the order of the file."""
    methods = (name.removesuffix("/error") for name in items if name.endswith("/error"))
    return {m: items[f"{m}/error"] for m in methods if m in styles_in(experiment)}


def qualitative(results: Results, experiment: str, regime: str) -> Figure | None:
    """Truth, answers and magnitudes of their errors, a line a time: early, middle and last."""
    items = items_of(results.flow_fields, f"{experiment}/{regime}/")
    errors = errors_of(items, experiment)
    if not errors or "truth" not in items or "times" not in items:
        return None
    truth, times = items["truth"], items["times"]
    # frame 0 is given, so the first one that can be wrong is the next
    frames = sorted({min(1, len(times) - 1), len(times) // 2, len(times) - 1})
    answered = {"truth": truth} | {method: truth + error for method, error in errors.items()}
    width = len(answered) + len(errors)
    size = (PANEL * width + 0.5, (PANEL + 0.2) * len(frames) + 1.3)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = figure.subplots(len(frames), width, squeeze=False)
    smallest, largest = log_range(list(errors.values()), DECADES)
    shared, norm = colours(truth), LogNorm(smallest, largest)
    for line, frame in enumerate(frames):
        for column, (method, answer) in enumerate(answered.items()):
            title = _title(experiment, method) if line == 0 else ""
            left = panel(axes[line, column], answer[frame], title, **shared)
        for column, (method, error) in enumerate(errors.items(), start=len(answered)):
            head = f"error of\n{_title(experiment, method)}\n" if line == 0 else ""
            relative = np.linalg.norm(error[frame]) / max(
                float(np.linalg.norm(truth[frame])), 1e-30
            )
            magnitude = np.maximum(np.abs(error[frame]), smallest)
            title = f"{head}{relative:.1e}"
            right = panel(axes[line, column], magnitude, title, cmap="cividis", norm=norm)
        axes[line, 0].set_ylabel(f"t = {times[frame]:.3g}", fontsize=8)
    for image, columns, name in (
        (left, slice(0, len(answered)), "vorticity"),
        (right, slice(len(answered), width), "|error|; above the panels, relative $L_2$"),
    ):
        below: list[Axes] = axes[:, columns].ravel().tolist()
        bar = figure.colorbar(image, ax=below, location="bottom", shrink=0.7, aspect=30, pad=0.02)
        bar.set_label(name, fontsize=8)
        bar.ax.tick_params(labelsize=7)
    heading = f"{EXPERIMENTS[experiment]}, {regime_label(experiment, regime)}"
    figure.suptitle(f"{heading}: answers and where they are wrong", fontsize=10)
    return figure


def _title(experiment: str, method: str) -> str:
    label = method if method == "truth" else styles_in(experiment)[method].label
    return fill(label, TITLE_WIDTH)


def animations(results: Results) -> dict[str, tuple[dict[str, Field], Field]]:
    """Truth, answer and error of ENS over time with the times, by the name of the file."""
    found = {}
    for experiment, regime in places(results):
        items = items_of(results.flow_fields, f"{experiment}/{regime}/")
        errors = errors_of(items, experiment)
        method = next((m for m in errors if m.startswith("ens")), None)
        if method is None or "truth" not in items or "times" not in items:
            continue
        truth, error = items["truth"], errors[method]
        fields = {"truth": truth, "ENS": truth + error, "error": error}
        found[f"flow-{experiment}-{regime}"] = (fields, items["times"])
    return found
