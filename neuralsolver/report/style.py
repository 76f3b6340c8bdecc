"""How curves, axes and legends look, and how a picture becomes a file.

A method has its colour, marker and line from its row; colour alone carries nothing. What has no row
is given one of the spare looks.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralsolver.experiments.methods import GREEN, GREY, METHODS, ORANGE, SKY
from neuralsolver.experiments.paper import EXPERIMENTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110


class Style(NamedTuple):
    """Name, colour, marker and line of one curve."""

    label: str
    colour: str
    marker: str
    line: str = "-"


SPARE = (
    (GREEN, "P", "-."),
    (SKY, "8", "--"),
    (ORANGE, "d", "--"),
    (SKY, "<", "-"),
    (GREY, "h", "-."),
    (GREEN, "s", ":"),
    (GREY, "^", "--"),
    (ORANGE, "8", "-"),
)
"""None of the colours of ENS is among them."""


def style(method: str, experiment: str = "helmholtz") -> Style:
    """The looks of a method and its name in an experiment."""
    row = METHODS[method]
    label = row.label_in(EXPERIMENTS[experiment]) if experiment in EXPERIMENTS else row.label
    return Style(label, row.colour, row.marker, row.line)


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """The styles of methods and of whatever else is drawn beside them."""
    spare = cycle(SPARE)
    return {
        name: style(name) if name in METHODS else Style(name.replace("_", " "), *next(spare))
        for name in names
    }


def canvas(
    lines: int, columns: int, size: tuple[float, float], title: str, **sharing: Any
) -> tuple[Figure, Any]:
    """A figure with its title and an array of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    figure.suptitle(title, fontsize=10)
    return figure, figure.subplots(lines, columns, squeeze=False, **sharing)


def curve(axis: Axes, xs: list[float], ys: list[float], look: Style, **options: Any) -> None:
    """One curve of a method, with about ten markers however many points it has."""
    if not xs:
        return
    axis.plot(
        xs,
        ys,
        color=look.colour,
        linestyle=look.line,
        marker=look.marker,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        markevery=max(1, len(xs) // 10),
        linewidth=1.5,
        label=look.label,
        **options,
    )


def furnish(axis: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Titles, labels and a quiet grid."""
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(which="both", labelsize=7)
    axis.grid(alpha=0.25, linewidth=0.6)


def shared_legend(figure: Figure, columns: int = 4) -> None:
    """One legend under all panels, a method once."""
    entries: dict[str, Any] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=min(columns, max(1, len(entries))),
        fontsize=8,
        frameon=False,
        handlelength=3.2,
    )


def png(figure: Figure) -> bytes:
    """The picture as a file whose bytes depend on nothing but the picture.

    A palette of 256 colours shows no difference on a screen and takes a third of the space.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    memory = io.BytesIO()
    picture = Image.fromarray(pixels[..., :3]).quantize(256, dither=Image.Dither.NONE)
    picture.save(memory, format="png")
    return memory.getvalue()
