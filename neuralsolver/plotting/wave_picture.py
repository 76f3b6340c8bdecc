"""The picture of a wave: medium, amplitude, phase, and what the linear wave would be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from neuralsolver.plotting.axes import SEQUENTIAL, draw

if TYPE_CHECKING:
    from neuralsolver.solvers.wave_solver import WaveSolution


def draw_waves(solution: WaveSolution, path: str | Path) -> Figure:
    """Draw a wave; amplitudes share their colours, the phase has cyclic ones.

    Args:
        solution: The wave.
        path: Where the picture goes.

    Returns:
        The figure.
    """
    linear = np.abs(solution.linear)
    largest = float(max(solution.amplitude.max(), linear.max()))
    common: dict[str, Any] = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": largest}
    cyclic: dict[str, Any] = {"cmap": "twilight", "vmin": -np.pi, "vmax": np.pi}
    panels: list[tuple[str, Any, dict[str, Any]]] = [
        ("slowness", solution.slowness, {}),
        ("amplitude", solution.amplitude, common),
        ("phase", solution.phase, cyclic),
    ]
    if not np.array_equal(solution.field, solution.linear):
        panels.insert(1, ("amplitude without the Kerr effect", linear, common))
    figure = Figure(figsize=(3.4 * len(panels), 3.4), dpi=130, layout="constrained")
    for axis, (title, field, options) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        image = draw(axis, field, title, **options)
        figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=7)
    figure.suptitle(f"waves: residual {solution.residual:.0e}, {solution.method}", fontsize=10)
    figure.savefig(path)
    return figure
