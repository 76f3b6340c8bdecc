"""Pictures of fields: a grid of inputs and solutions.

Fields that change sign get a diverging map that is white at zero, others a sequential one; both
can be told apart without colour vision. One colour bar serves a whole row, so its pictures compare.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from neuralsolver.data import Dataset
from neuralsolver.equations.base import Array
from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.plotting.axes import colours, draw

FRAMES_SHOWN = 5
PANEL = 2.1
"""Side of one picture in inches."""

CHARACTERS_PER_INCH = 14


def draw_dataset(dataset: Dataset, path: str | Path, count: int = 4) -> Path:
    """Write a PNG of the first `count` samples."""
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise InvalidInput("output", "a file name ending in .png", path)
    if count < 1:
        raise InvalidInput("count", "at least 1", count)
    if not path.parent.is_dir():
        raise InvalidInput("output", "a file in an existing folder", path)
    inputs, solution = dataset[: min(count, len(dataset))]
    flow = solution.ndim == 5
    figure = _flow(dataset, solution) if flow else _static(dataset, inputs, solution)
    memory = io.BytesIO()
    figure.savefig(memory, format="png")
    write_whole(path, memory.getvalue())
    return path


def _static(dataset: Dataset, inputs: Array, solution: Array) -> Figure:
    given, unknown = _channel_names(dataset, inputs.shape[1], solution.shape[1])
    rows = [(name, inputs[:, channel]) for channel, name in enumerate(given)]
    rows += [(name, solution[:, channel]) for channel, name in enumerate(unknown)]
    titles = [f"sample {i}" for i in range(len(inputs))]
    return _grid(_title(dataset), rows, titles)


def _flow(dataset: Dataset, solution: Array) -> Figure:
    frames = solution.shape[2]
    shown = np.unique(np.linspace(0, frames - 1, min(frames, FRAMES_SHOWN)).round().astype(int))
    times = dataset.frame_times
    titles = [f"frame {j}" if times is None else f"t = {times[j]:g}" for j in shown]
    rows = [(f"sample {i}", sample[0, shown]) for i, sample in enumerate(solution)]
    return _grid(_title(dataset), rows, titles)


def _grid(title: str, rows: Sequence[tuple[str, Array]], titles: Sequence[str]) -> Figure:
    height, width = len(rows), len(titles)
    size = (PANEL * width + 1.4, PANEL * height + 0.9)
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    lines = [fill(line, int(CHARACTERS_PER_INCH * size[0])) for line in title.splitlines()]
    figure.suptitle("\n".join(lines), fontsize=10)
    axes = figure.subplots(height, width, squeeze=False, sharex=True, sharey=True)
    for row, (name, fields) in enumerate(rows):
        shared = colours(fields)
        for column, field in enumerate(fields):
            axis = axes[row, column]
            image = draw(axis, field, titles[column] if row == 0 else "", **shared)
            if row == height - 1:
                axis.set_xlabel("$r_1$", fontsize=8, labelpad=-4)
        axes[row, 0].set_ylabel(f"{name}\n$r_2$", fontsize=9, labelpad=-2)
        bar = figure.colorbar(image, ax=axes[row, :].tolist(), shrink=0.9, pad=0.02, aspect=18)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_linewidth(0.5)
    return figure


def _channel_names(dataset: Dataset, inputs: int, unknowns: int) -> tuple[list[str], list[str]]:
    try:
        given, unknown = list(dataset.equation.input_names), list(dataset.equation.unknowns)
    except InvalidInput:  # an equation that this process does not know
        given = [f"input {channel}" for channel in range(inputs)]
        unknown = [f"solution {channel}" for channel in range(unknowns)]
    return given, unknown if unknowns > 1 else ["solution"]


def _title(dataset: Dataset) -> str:
    described, n = dataset.description, dataset.resolution
    kind = "samples"
    if "seed" in described:
        kind = f"{described['split']} samples, seed {described['seed']}"
    constants = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in described["constants"].items()
    )
    heading = f"{described['equation']}: {len(dataset)} {kind}, {n} × {n} points"
    return f"{heading}\n{constants.replace('_', ' ')}"
