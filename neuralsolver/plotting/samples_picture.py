"""The picture of samples: sensors, mean, error bar or probability, three samples, misfit, truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from neuralsolver.plotting.axes import DIVERGING, ERROR_COLOUR, colours, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from neuralsolver.samplers.samples import Samples

SHOWN = 3


def plot_samples(
    samples: Samples,
    path: str | None,
    truth: tuple[Tensor, Tensor] | None = None,
    length: float = 1.0,
) -> Figure:
    """Two rows, input and solution; with the true pair (n, n) two further columns, and one more
    where the misfit is known in units of the noise. The sides of the domain have this length."""
    count, missed = min(SHOWN, len(samples)), samples.notes.get("misfit")
    columns = 2 + count + (2 if truth is not None else 0) + bool(missed)
    figure = Figure(figsize=(2.35 * columns, 5.0), dpi=130, layout="constrained")
    axes = figure.subplots(2, columns)
    observed = samples.observed
    names = (observed.equation.input_names[0], "solution")
    for row, name in enumerate(names):
        panels = _panels(samples, row, name, count)
        if truth is not None:
            true = truth[row].numpy()
            panels += [("truth", true, panels[0][2]), ("mean − truth", panels[0][1] - true, {})]
        for axis, (title, field, options) in zip(axes[row], panels, strict=False):
            image = draw(axis, field, title, **options)
            figure.colorbar(image, ax=axis, shrink=0.75).ax.tick_params(labelsize=6)
        chosen = [seen == name for seen in observed.sensors.fields]
        places = observed.sensors.positions[chosen]
        axes[row][0].scatter(*places.T, s=4.0, c="k", linewidths=0)
    if missed:
        _misfit(figure, axes[:, -1], samples)
    for axis in axes.ravel():
        if length != 1.0 and list(axis.get_xticks()) == [0, 1]:
            axis.set_xticks([0, 1], ["0", f"{length:g}"])
            axis.set_yticks([0, 1], ["0", f"{length:g}"])
    figure.suptitle(
        f"{observed.equation.name} from {len(observed.sensors)} sensors, by {samples.method}",
        fontsize=10,
    )
    if path is not None:
        figure.savefig(path)
    return figure


def _panels(samples: Samples, row: int, name: str, count: int) -> list[tuple[str, Any, Any]]:
    """Title, field and colours of the mean, its error bar and `count` samples."""
    drawn = (samples.inputs, samples.solutions)[row]
    mean, deviation = samples.mean[row].numpy(), samples.deviation[row].numpy()
    scale = colours(np.concatenate([mean[None], drawn[:count, 0].numpy()]))
    panels = [(f"{name}: mean", mean, scale)]
    if row == 0 and samples.probability is not None:
        high = samples.notes["phases"][1]
        unit = {"cmap": "viridis", "vmin": 0.0, "vmax": 1.0}
        panels.append((f"probability of {high:g}", samples.probability.numpy(), unit))
    else:
        panels.append(("standard deviation", deviation, _positive(deviation)))
    return panels + [(f"sample {i + 1}", drawn[i, 0].numpy(), scale) for i in range(count)]


def _misfit(figure: Figure, axes: Any, samples: Samples) -> None:
    """The misfit of every sample, and where the mean of the samples misses which sensor."""
    upper: Axes = axes[0]
    upper.hist(samples.notes["misfit"], bins=12, color=ERROR_COLOUR)
    upper.axvline(1.0, color="k", linewidth=0.8)
    upper.set_title("misfit / noise of the samples", fontsize=9)
    upper.tick_params(labelsize=7)
    upper.set_box_aspect(1)
    observed = samples.observed
    seen = np.array([field == "solution" for field in observed.sensors.fields])
    deviation = np.maximum(observed.sensors.deviations, 1e-300)[seen]
    missed = observed.mismatch(samples.inputs, samples.solutions).mean(0).numpy()[seen]
    largest = 3.0
    image = axes[1].scatter(
        *observed.sensors.positions[seen].T,
        c=np.clip(missed / deviation, -largest, largest),
        s=10,
        cmap=DIVERGING,
        vmin=-largest,
        vmax=largest,
        edgecolors="0.4",
        linewidths=0.4,
    )
    axes[1].set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 1], yticks=[0, 1], aspect="equal")
    axes[1].tick_params(labelsize=7)
    axes[1].set_title("mean misfit / noise", fontsize=9)
    figure.colorbar(image, ax=axes[1], shrink=0.75).ax.tick_params(labelsize=6)


def _positive(field: Any) -> dict[str, Any]:
    high = float(field.max())
    return {"cmap": "viridis", "vmin": 0.0, "vmax": high if high > 0 else 1.0}
