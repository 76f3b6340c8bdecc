"""The picture of samples: sensors, mean, error bar or probability, three samples, misfit, truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from neuralsolver.plotting.pictures import DIVERGING, ERROR_COLOUR, SEQUENTIAL, colours, draw

if TYPE_CHECKING:
    from torch import Tensor

    from neuralsolver.samplers.samples import Samples

SHOWN = 3
LARGEST_MISFIT = 3.0
"""Where the colours of the misfit end, in units of the noise."""


def plot_samples(
    samples: Samples,
    path: str | None,
    truth: tuple[Tensor, Tensor] | None = None,
    length: float = 1.0,
) -> Figure:
    """Draw two rows, input and solution.

    Args:
        samples: What is drawn; where their misfit is known in units of the noise, in a last column.
        path: Of the picture; none is written without.
        truth: The true pair (n, n), in two further columns.
        length: Of the sides of the domain.
    """
    single = samples.notes.get("single", False)
    count, missed = 0 if single else min(SHOWN, len(samples)), samples.notes.get("misfit")
    observed = samples.observed
    rows = [
        _panels(samples, row, name, count, truth)
        for row, name in enumerate((observed.equation.input_names[0], "solution"))
    ]
    columns = len(rows[0]) + bool(missed)
    figure = Figure(figsize=(2.35 * columns + 0.3, 4.5), dpi=130, layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False)
    for row, panels in enumerate(rows):
        for axis, (title, field, options) in zip(axes[row], panels, strict=False):
            draw(axis, field, title, lengths=(length, length), bar=True, **options)
        name = "solution" if row else observed.equation.input_names[0]
        chosen = [seen == name for seen in observed.sensors.fields]
        places = length * observed.sensors.positions[chosen]
        size = min(12.0, max(2.0, 600 / max(1, len(places))))
        axes[row][0].scatter(
            *places.T, s=size, c="k", edgecolors="w", linewidths=0.3, clip_on=False
        )
    if missed:
        _misfit(axes[:, -1], samples, length)
    sensors = observed.sensors.counted
    figure.suptitle(f"{observed.equation.name} from {sensors}, by {samples.method}", fontsize=10)
    if path is not None:
        figure.savefig(path)
    return figure


def _panels(
    samples: Samples, row: int, name: str, count: int, truth: tuple[Tensor, Tensor] | None
) -> list[tuple[str, Any, Any]]:
    """Title, field and colours of the mean, its error bar, `count` samples and the truth."""
    drawn = (samples.inputs, samples.solutions)[row]
    mean, deviation = samples.mean[row].numpy(), samples.deviation[row].numpy()
    scale = colours(np.concatenate([mean[None], drawn[: max(1, count), 0].numpy()]))
    panels = [(f"{name}: {'mean' if count else 'one answer'}", mean, scale)]
    if count and row == 0 and samples.probability is not None:
        high = samples.notes["phases"][1]
        unit = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": 1.0}
        panels.append((f"probability of {high:g}", samples.probability.numpy(), unit))
    elif count:
        positive = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": float(deviation.max()) or 1.0}
        panels.append(("standard deviation", deviation, positive))
    panels += [(f"sample {i + 1}", drawn[i, 0].numpy(), scale) for i in range(count)]
    if truth is not None:
        true = truth[row].numpy()
        panels += [
            ("truth", true, scale),
            (f"{'mean' if count else 'answer'} − truth", mean - true, {}),
        ]
    return panels


def _misfit(axes: Any, samples: Samples, length: float) -> None:
    """The misfit of every sample, and where the mean of the samples misses which sensor."""
    upper, lower = axes
    each = samples.notes["misfit"]
    upper.hist(each, bins=np.linspace(0.0, max(2.0, 1.05 * max(each)), 25), color=ERROR_COLOUR)
    upper.axvline(1.0, color="k", linewidth=0.8)
    upper.set_title("samples: misfit / noise", fontsize=9)
    upper.tick_params(labelsize=7)
    upper.set_box_aspect(1)
    observed = samples.observed
    seen = np.array([field == "solution" for field in observed.sensors.fields], dtype=bool)
    floor = 1e-3 * np.sqrt(np.mean(observed.sensors.values[seen] ** 2))
    deviation = np.maximum(observed.sensors.deviations[seen], floor)
    missed = observed.mismatch(samples.inputs, samples.solutions).mean(0).numpy()[seen] / deviation
    image = lower.scatter(
        *length * observed.sensors.positions[seen].T,
        c=np.clip(missed, -LARGEST_MISFIT, LARGEST_MISFIT),
        s=12,
        cmap=DIVERGING,
        vmin=-LARGEST_MISFIT,
        vmax=LARGEST_MISFIT,
        edgecolors="0.4",
        linewidths=0.4,
    )
    ends = {"xlim": (0, length), "ylim": (0, length), "xticks": [0, length], "yticks": [0, length]}
    lower.set(aspect="equal", **ends)
    lower.tick_params(labelsize=7)
    lower.set_title("mean misfit / noise", fontsize=9)
    lower.figure.colorbar(image, ax=lower, shrink=0.8).ax.tick_params(labelsize=7)
