"""What was measured about fields from sensors: two tables and two figures.

sensors               the paper's table of sparse observations beside ours, with the exact
                      posterior as its floor
sensors-calibration   means of many samples, coverage and CRPS over those of exact samples
sensors-number        the error against the number of sensors
sensors-coverage      how many truths an interval holds against how many it promises
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from paper.cells import number
from paper.results import published
from paper.rows import Row, read_rows
from paper.sensors import EQUATIONS, SWEPT
from paper.style import BLACK, GREY, ORANGE, VERMILION, Style, curve, furnish, png, shared_legend
from paper.typeset import Table, table

NAMES = {"helmholtz": "Helmholtz", "darcy": "Darcy", "poisson": "Poisson"}
METHODS = {
    "diffusion-ens": "DiffENS",
    "diffusion-ens, 50 steps": "DiffENS, 50 steps",
    "diffusion-ens+gn": "DiffENS+GN",
    "diffusion-ens+ens": "DiffENS+ENS",
    "diffusion-pde": "DiffusionPDE",
    "pcfm": "PCFM",
    "palette": "Palette",
    "correction": "correction by mismatch",
    "centred-spline": "spline without its mean",
    "spline": "thin-plate spline",
    "nearest": "nearest sensor",
    "exact": "exact posterior",
}
LOOKS = {
    "exact": Style("exact posterior, one sample", BLACK, "o"),
    "spline": Style("thin-plate spline", GREY, "s", "--"),
    "palette": Style("Palette, one sample", ORANGE, "^", "-."),
    "diffusion-ens": Style("Diffusion ENS, one sample", VERMILION, "D"),
}
CALIBRATION = {
    "error_mean": ".4f", "ratio_mean": ".2f",
    "coverage_50": ".0%", "coverage_90": ".0%", "crps_ratio": ".2f",
}  # fmt: skip
"""Columns of the table of calibration, and their formats."""
SENSORS = 500
SMALL = 5e-4
"""Errors below this are printed with an exponent."""


def write_sensors(folder: Path, put: Callable[[Path, bytes], None]) -> None:
    """Tables and figures of folder/sensors.jsonl, where it exists."""
    rows = read_rows(folder / "sensors.jsonl")
    if not rows:
        return
    for made in (sparse(rows), other_tasks(rows), calibration(rows)):
        made.put(folder / "tables", put)
    put(folder / "figures" / "sensors-number.png", png(number_of_sensors(rows)))
    put(folder / "figures" / "sensors-coverage.png", png(coverage(rows)))


def sparse(rows: Iterable[Row]) -> Table:
    """One sample from 500 sensors of the input: error, its ratio to the floor, residual."""
    asked = ("input", 1, SENSORS)
    found = {
        (row["equation"], _variant(row)): row
        for row in sorted(rows, key=lambda row: row["instances"])
        if (row["task"], row["samples"], row["sensors"]) == asked
    }
    lines = []
    for method, label in METHODS.items():
        chosen = {name: found.get((name, method)) for name in EQUATIONS}
        measured = [row for row in chosen.values() if row is not None]
        cells: list[str] = []
        for name, row in chosen.items():
            cells += [_paper(label, name), *_cells(row)]
        columns = ("instances", "steps", "seconds")
        counts, steps, seconds = ([row[c] for row in measured if row[c]] for c in columns)
        mean = f"{sum(seconds) / len(seconds):.2f}" if seconds else "—"
        lines.append(((label, _joined(counts), _joined(steps), mean), cells))
    heads = ("paper L₂", "L₂", "/ exact", "residual")
    grouped = [(NAMES[name], head) for name in EQUATIONS for head in heads]
    caption = (
        f"Fields from {SENSORS} sensors of the input, one sample: relative L₂ error of u, its "
        "ratio to that of an exact posterior sample on the same instances, mean square residual. "
        "The paper's column is for 128 × 128 points and networks of 55 million weights, ours for "
        "64 × 64 and 1.7 million. What has one answer only (fills, corrections) aims at the mean: "
        "that of the exact posterior has the ratio 0.71. s: CPU seconds of one thread a sample."
    )
    return table("sensors", caption, "method, instances, steps, s", grouped, [lines])


def other_tasks(rows: Iterable[Row]) -> Table:
    """Inverse problems: sensors of the solution, alone or beside those of the input."""
    chosen = [row for row in rows if row["task"] != "input"]
    chosen.sort(key=lambda row: (row["task"], row["equation"]))
    words = {"solution": "500 sensors of u", "input+solution": "500 of f, 500 of u"}
    lines = []
    for row in chosen:
        labels = (
            words[row["task"]],
            NAMES[row["equation"]],
            METHODS[row["method"]],
            str(row["instances"]),
            "—" if row["seconds"] is None else f"{row['seconds']:.1f}",
        )
        lines.append((labels, [*_cells(row), _cell(row, "error_input", ".4f")]))
    caption = "Inverse problems: one sample from sensors of u, and of f and u; CPU seconds of it."
    columns = ("L₂ of u", "/ exact", "residual", "L₂ of the input")
    names = "seen, equation, method, instances, s"
    return table("sensors-inverse", caption, names, columns, [lines])


def calibration(rows: Iterable[Row]) -> Table:
    """Sixteen samples: their mean, their intervals, their score."""
    lines = []
    for row in rows:
        if row["samples"] > 1:
            cells = [_cell(row, name, form) for name, form in CALIBRATION.items()]
            labels = (NAMES[row["equation"]], METHODS[row["method"]], str(row["instances"]))
            lines.append((labels, cells))
    caption = (
        "Sixteen samples of each instance: error of their mean and its ratio to that of sixteen "
        "exact samples, coverage of the central 50 % and 90 % intervals of u (16 exact samples "
        "hold 88 % in their widest), CRPS over that of exact samples."
    )
    columns = ("L₂ of the mean", "/ exact", "50 %", "90 %", "CRPS / exact")
    return table("sensors-calibration", caption, "equation, method, instances", columns, [lines])


def _panels(draw: Callable[[Any, str], None], x: str, y: str, scale: str) -> Figure:
    """One panel per equation, under one legend."""
    figure = Figure(figsize=(11.0, 3.6), layout="constrained")
    for axis, name in zip(figure.subplots(1, 3), EQUATIONS, strict=True):
        draw(axis, name)
        axis.set_xscale(scale)
        axis.set_yscale(scale)
        furnish(axis, NAMES[name], x, y)
    shared_legend(figure)
    return figure


def number_of_sensors(rows: Iterable[Row]) -> Figure:
    """The error of u against the number of sensors."""
    chosen = [row for row in rows if row["instances"] == SWEPT and row["samples"] == 1]

    def draw(axis: Any, name: str) -> None:
        for method, look in LOOKS.items():
            wanted = (name, method, "input")
            points = sorted(
                (row["sensors"], row["error"])
                for row in chosen
                if (row["equation"], row["method"], row["task"]) == wanted
            )
            curve(axis, [x for x, _ in points], [y for _, y in points], look)

    return _panels(draw, "sensors of the input", "relative L₂ error of u", "log")


def coverage(rows: Iterable[Row]) -> Figure:
    """The part of the truths that an interval holds, against its promise."""
    chosen = [row for row in rows if "calibration" in row and row["method"] in LOOKS]

    def draw(axis: Any, name: str) -> None:
        axis.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
        for row in chosen:
            if row["equation"] == name:
                look = LOOKS[row["method"]]._replace(label=METHODS[row["method"]])
                xs, ys = zip(*row["calibration"], strict=True)
                curve(axis, list(xs), list(ys), look)

    return _panels(draw, "central interval", "truths inside", "linear")


def _variant(row: Row) -> str:
    """The method of a row, with its steps where there are rows of another number of them."""
    named = f"{row['method']}, {row['steps']} steps"
    return named if named in METHODS else str(row["method"])


def _cells(row: Row | None) -> list[str]:
    if row is None:
        return ["not run", "—", "—"]
    residual = "not finite" if row["residual"] is None else number(row["residual"])
    return [_cell(row, "error", ".4f"), _cell(row, "ratio", ".2f"), residual]


def _cell(row: Row, name: str, form: str) -> str:
    value = row.get(name)
    if value is None:
        return "—"
    return number(value) if abs(value) < SMALL else format(value, form)


def _paper(label: str, equation: str) -> str:
    place = ("diffusion_original", label, NAMES[equation], "error")
    return str(published()["value"].get(place, "—"))


def _joined(values: list[int]) -> str:
    return ", ".join(str(value) for value in sorted(set(values))) or "—"
