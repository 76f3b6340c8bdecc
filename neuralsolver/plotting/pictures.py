"""Pictures of fields: one solution, one wave, or some samples of a dataset.

Fields that change sign get a diverging map that is white at zero, others a sequential one; both can
be told apart without colour vision. A positive field that spans decades has a logarithmic scale.
Fixed points inside the domain are grey and outlined: nothing is solved there.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage
    from torch import Tensor

    from neuralsolver.data import Dataset
    from neuralsolver.solvers.solution import Solution
    from neuralsolver.solvers.wave_solver import WaveSolution

Field = npt.NDArray[np.floating[Any]]

SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
"""The colour maps of fields of one sign and of both."""
ERROR_COLOUR, RESIDUAL_COLOUR = "#0072B2", "#D55E00"
"""The curves of error and residual in every picture (of Okabe and Ito's set)."""
DECADES = 2.0
"""Positive fields that span as many are drawn on a logarithmic scale."""
ENDINGS = (".png", ".pdf", ".svg")
FRAMES_SHOWN = 5
PANEL, CHARACTERS_PER_INCH = 2.1, 14
"""Side of one picture of a dataset in inches, and how much text fits above it."""


def colours(fields: Field) -> dict[str, Any]:
    """Colour map and limits that suit the values of some fields drawn side by side."""
    low, high = float(fields.min()), float(fields.max())
    if low > 0 and high >= 10**DECADES * low:
        return {"cmap": SEQUENTIAL, "norm": LogNorm(low, high)}
    if min(-low, high) > 0.02 * max(-low, high):
        largest = max(-low, high)
        return {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    return {"cmap": SEQUENTIAL, "vmin": low, "vmax": high if high > low else low + 1.0}


def draw(
    axis: Axes,
    field: Field,
    title: str = "",
    *,
    lengths: tuple[float, float] = (1.0, 1.0),
    bar: bool = False,
    **options: Any,
) -> AxesImage:
    """A field (n, m) on a rectangle, r₁ to the right and r₂ up; masked points are grey.

    Args:
        axis: Where it is drawn.
        field: The values.
        title: Above it.
        lengths: Of the rectangle.
        bar: Draw a colour bar beside it.
        options: Of `imshow`; what suits the values unless given.
    """
    axis.set_facecolor("0.8")
    place = (0.0, lengths[0], 0.0, lengths[1])
    image = axis.imshow(field.T, origin="lower", extent=place, **(options or colours(field)))
    axis.set_xticks([0, lengths[0]], ["0", f"{lengths[0]:g}"])
    axis.set_yticks([0, lengths[1]], ["0", f"{lengths[1]:g}"])
    axis.tick_params(labelsize=7)
    axis.set_title(title, fontsize=9)
    if bar:
        side: Any = axis.figure.colorbar(image, ax=axis, shrink=0.8)
        side.ax.tick_params(labelsize=7)
    return image


def plot_solution(solution: Solution, path: str | None, sample: int) -> Figure:
    """Draw input, solution, what is left of the residual, and its history.

    Args:
        solution: Of a flow the last frame is shown, of a box the middle.
        path: Of the picture; none is written without.
        sample: Which one of the batch.
    """
    problem = solution.problem
    box = problem.grid.dimension == 3
    fields = [(problem.equation.input_names[0], _slice(problem.inputs[sample, 0], box))]
    residuals, names = problem.residual(solution.tensor)[sample], problem.equation.unknowns
    for name, u, r in zip(names, solution.tensor[sample], residuals, strict=True):
        titles = ("solution", "residual") if len(names) == 1 else (name, f"residual of {name}")
        fields += zip(titles, (_slice(u, box), _slice(r, box)), strict=True)
    mask = None
    if problem.fixed is not None and problem.fixed_inside:
        mask = _slice(problem.fixed.mask[sample, 0], box).copy()
        rim = np.ones_like(mask)
        rim[1:-1, 1:-1] = False
        if mask[rim].all():  # walls are drawn as the solution beside them is
            mask[rim] = np.pad(mask[1:-1, 1:-1], 1, mode="edge")[rim]
    first, second = problem.grid.lengths[-2:]
    figure = Figure(figsize=(3.375 * (len(fields) + 1), 3.4), dpi=130, layout="constrained")
    *panels, curve = figure.subplots(1, len(fields) + 1)
    for axis, (title, field) in zip(panels, fields, strict=True):
        masked = field if mask is None else np.ma.masked_where(mask, field)
        draw(axis, masked, title, lengths=(first, second), bar=True)
        if mask is not None and mask.any() and not mask.all():
            place: dict[str, Any] = {"origin": "lower", "extent": (0, first, 0, second)}
            axis.contour(mask.T.astype(float), [0.5], colors="black", linewidths=0.7, **place)
    norms = solution.residual_norms[:, sample] / solution.residual_scale[sample]
    curve.semilogy(norms.cpu().numpy(), marker=".", color=RESIDUAL_COLOUR)
    curve.set_title("relative residual", fontsize=9)
    curve.set_xlabel("step", fontsize=8)
    curve.grid(alpha=0.3)
    curve.tick_params(labelsize=7)
    status = solution.status[sample]
    figure.suptitle(f"{problem.equation.name}: {status.name}, {status.value}", fontsize=10)
    if path is not None:
        figure.savefig(path)
    return figure


def _slice(field: Tensor, box: bool) -> Any:
    """A field as a picture: the middle of a box, the last frame of a flow."""
    values = field.detach().cpu().numpy()
    if values.ndim < 3:
        return values
    return values[len(values) // 2] if box else values[-1]


def draw_waves(solution: WaveSolution, path: str | Path) -> Figure:
    """Draw a wave; amplitudes share their colours, the phase has cyclic ones.

    Args:
        solution: The wave.
        path: Where the picture goes.
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
        draw(axis, field, title, bar=True, **options)
    figure.suptitle(f"waves: residual {solution.residual:.0e}, {solution.method}", fontsize=10)
    figure.savefig(path)
    return figure


def draw_dataset(dataset: Dataset, path: str | Path, count: int = 4) -> Path:
    """Write a picture of the first samples: a row for every field, of a flow for every sample.

    Args:
        dataset: What is drawn.
        path: A .png, .pdf or .svg file.
        count: Samples to draw.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise InvalidInput("output", f"a file name ending in {', '.join(ENDINGS)}", path)
    if count < 1:
        raise InvalidInput("count", "at least 1", count)
    if not path.parent.is_dir():
        raise InvalidInput("output", "a file in an existing folder", path)
    inputs, solution = dataset[: min(count, len(dataset))]
    if solution.ndim == 5:
        frames, times = solution.shape[2], dataset.frame_times
        shown = np.unique(np.linspace(0, frames - 1, min(frames, FRAMES_SHOWN)).round().astype(int))
        titles = [f"frame {j}" if times is None else f"t = {times[j]:g}" for j in shown]
        rows = [(f"sample {i}", sample[0, shown]) for i, sample in enumerate(solution)]
    else:
        titles = [f"sample {i}" for i in range(len(inputs))]
        given, unknown = _channel_names(dataset, inputs.shape[1], solution.shape[1])
        rows = [(name, inputs[:, channel]) for channel, name in enumerate(given)]
        rows += [(name, solution[:, channel]) for channel, name in enumerate(unknown)]
    memory = io.BytesIO()
    _grid(_title(dataset), rows, titles).savefig(memory, format=path.suffix[1:].lower())
    write_whole(path, memory.getvalue())
    return path


def _grid(title: str, rows: Sequence[tuple[str, Field]], titles: Sequence[str]) -> Figure:
    """One colour bar serves a whole row, so its pictures compare."""
    height, width = len(rows), len(titles)
    size = (PANEL * width + 1.4, PANEL * height + 0.9)
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    lines = [fill(line, int(CHARACTERS_PER_INCH * size[0])) for line in title.splitlines()]
    figure.suptitle("\n".join(lines), fontsize=10)
    axes = figure.subplots(height, width, squeeze=False, sharex=True, sharey=True)
    for row, (name, fields) in zip(axes, rows, strict=True):
        shared = colours(fields)
        for axis, field, above in zip(row, fields, titles, strict=True):
            image = draw(axis, field, above if row is axes[0] else "", **shared)
        row[0].set_ylabel(f"{name}\n$r_2$", fontsize=9, labelpad=-2)
        bar = figure.colorbar(image, ax=row.tolist(), shrink=0.9, pad=0.02, aspect=18)
        bar.ax.tick_params(labelsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("$r_1$", fontsize=8, labelpad=-4)
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
