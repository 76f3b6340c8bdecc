"""The picture of samples: the sensors, the mean, its error bar, three samples, and the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from neuralsolver.drawing import colours, draw

if TYPE_CHECKING:
    from torch import Tensor

    from neuralsolver.samplers.samples import Samples

SHOWN = 3


def plot_samples(
    samples: Samples, path: str | None, truth: tuple[Tensor, Tensor] | None = None
) -> Figure:
    """Two rows, input and solution; with the true pair (n, n) two further columns."""
    count = min(SHOWN, len(samples))
    columns = 2 + count + (2 if truth is not None else 0)
    figure = Figure(figsize=(2.35 * columns, 5.0), dpi=130, layout="constrained")
    axes = figure.subplots(2, columns)
    observed = samples.observed
    names = (observed.equation.input_names[0], "solution")
    fields = (samples.inputs, samples.solutions)
    for row, (name, drawn) in enumerate(zip(names, fields, strict=True)):
        mean, deviation = samples.mean[row].numpy(), samples.deviation[row].numpy()
        scale = colours(np.concatenate([mean[None], drawn[:count, 0].numpy()]))
        panels = [
            (f"{name}: mean", mean, scale),
            ("standard deviation", deviation, _positive(deviation)),
        ]
        panels += [(f"sample {i + 1}", drawn[i, 0].numpy(), scale) for i in range(count)]
        if truth is not None:
            true = truth[row].numpy()
            panels += [("truth", true, scale), ("mean − truth", mean - true, {})]
        for axis, (title, field, options) in zip(axes[row], panels, strict=True):
            image = draw(axis, field, title, **options)
            figure.colorbar(image, ax=axis, shrink=0.75).ax.tick_params(labelsize=6)
        chosen = [seen == name for seen in observed.sensors.fields]
        places = observed.sensors.positions[chosen]
        axes[row][0].scatter(*places.T, s=2.0, c="k", linewidths=0)
    figure.suptitle(
        f"{observed.equation.name} from {len(observed.sensors)} sensors, by {samples.method}",
        fontsize=10,
    )
    if path is not None:
        figure.savefig(path)
    return figure


def _positive(field: Any) -> dict[str, Any]:
    high = float(field.max())
    return {"cmap": "viridis", "vmin": 0.0, "vmax": high if high > 0 else 1.0}
