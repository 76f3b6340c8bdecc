"""The qualitative figure of fields from sensors, one for each equation: `sensors-<equation>.png`.

First row: the truth with the sensors in it. Then a row for each method: the mean of its samples of
u, their standard deviation, how far two of them are from the mean, and the mean from the truth. All
means have one scale, and all that is small another, set by the exact posterior; what leaves it is
cut off. What is drawn is in sensor-fields.npz:

    <equation>/sensors               (N, 2)      where the input is seen
    <equation>/input, solution       (n, n)      the truth
    <equation>/<method>/error        (S, n, n)   samples of the solution minus the truth

A method that has one answer only has one sample. Errors are in half precision: three digits of each
to look at, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralsolver.plotting.pictures import DIVERGING, SEQUENTIAL, colours, draw
from neuralsolver.training.library import load_sampler
from paper.sensor_tables import METHODS, NAMES
from paper.sensors import EQUATIONS, STEPS, Instances, Task
from paper.style import png

Array = np.ndarray[Any, Any]
DRAWN = {
    "exact": None,
    "diffusion-ens": STEPS,
    "palette": STEPS,
    "pcfm": 50,
    "correction": None,
    "spline": None,
}
"""The methods that are drawn, with their steps."""
SINGLE = ("correction", "spline")
SAMPLES = 8
COLUMNS = ("mean of u", "standard deviation", "a sample − mean", "another", "|mean − truth|")


def sensor_fields(evaluation: Any) -> dict[str, Array]:
    """Samples of one fresh instance of every equation; a study, as the fields of the others."""
    arrays: dict[str, Array] = {}
    for name in EQUATIONS:
        instance = Instances(Task(name, instances=1), evaluation.seed)
        seen = instance.observed[0]
        arrays[f"{name}/sensors"] = seen.sensors.positions.astype(np.float32)
        arrays[f"{name}/input"] = instance.inputs[0, 0].float().numpy()
        arrays[f"{name}/solution"] = instance.solutions[0, 0].float().numpy()
        for method, steps in DRAWN.items():
            count = 1 if method in SINGLE else SAMPLES
            samples = load_sampler(name, method, steps).sample(seen, count, evaluation.seed)
            error = (samples.solutions - instance.solutions)[:, 0]
            arrays[f"{name}/{method}/error"] = error.numpy().astype(np.float16)
    return arrays


def write_sensor_fields(folder: Path, put: Callable[[Path, bytes], None]) -> None:
    """The figures of folder/sensor-fields.npz, where it exists."""
    file = folder / "sensor-fields.npz"
    if not file.is_file():
        return
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name].astype(np.float64) for name in stored.files}
    for name in EQUATIONS:
        if f"{name}/solution" in arrays:
            put(folder / "figures" / f"sensors-{name}.png", png(samples_figure(arrays, name)))


def samples_figure(arrays: Mapping[str, Array], name: str) -> Figure:
    """Truth, sensors and the samples of every method of one equation."""
    methods = [method for method in DRAWN if f"{name}/{method}/error" in arrays]
    rows = 1 + len(methods)
    figure = Figure(figsize=(10.5, 2.05 * rows), dpi=110, layout="constrained")
    axes = figure.subplots(rows, len(COLUMNS), squeeze=False)
    truth = arrays[f"{name}/solution"]
    scale = colours(truth)
    widest = max(float(arrays[f"{name}/exact/error"].std(0).max()), 1e-12)
    small = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": 2 * widest}
    for axis in axes[0]:
        axis.set_axis_off()
    for axis, field in zip(axes[0], ("input", "solution"), strict=False):
        axis.set_axis_on()
        values = arrays[f"{name}/{field}"]
        _bar(figure, axis, draw(axis, values, f"true {field}", **colours(values)))
    places = arrays[f"{name}/sensors"]
    axes[0][0].scatter(*places.T, s=1.5, c="k", linewidths=0)
    axes[0][0].set_title(f"true input, {len(places)} sensors", fontsize=9)
    for line, method in zip(axes[1:], methods, strict=True):
        _line(figure, line, arrays[f"{name}/{method}/error"], truth, (scale, small))
        line[0].set_ylabel(METHODS[method], fontsize=9)
    for axis, title in zip(axes[1], COLUMNS, strict=True):
        axis.set_title(title, fontsize=9)
    figure.suptitle(f"{NAMES[name]}: u from sensors of the input", fontsize=10)
    return figure


def _line(
    figure: Figure,
    axes: Any,
    errors: Array,
    truth: Array,
    options: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Mean, deviation, two samples and error of one method; one answer has no spread."""
    scale, small = options
    mean = errors.mean(0)
    panels: list[tuple[Array, dict[str, Any]] | None] = [(truth + mean, scale), None, None, None]
    if len(errors) > 1:
        both = {"cmap": DIVERGING, "vmin": -small["vmax"], "vmax": small["vmax"]}
        panels[1:] = [(errors.std(0), small), *((e - mean, both) for e in errors[:2])]
    panels.append((np.abs(mean), small))
    for position, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        if panel is None:
            axis.set_axis_off()
            continue
        image = draw(axis, panel[0], **panel[1])
        if position in (0, len(panels) - 1):
            _bar(figure, axis, image)


def _bar(figure: Figure, axis: Axes, image: Any) -> None:
    figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=6)
