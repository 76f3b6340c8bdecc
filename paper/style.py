"""How curves, axes and legends look, and how a picture becomes a file.

A method has its colour, marker and line from its row; colour alone carries nothing. Within a figure
no two look alike: `styles_of` gives another look to whatever would.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paper.methods import METHODS, PALETTE
from paper.regimes import EXPERIMENTS

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


MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "*", "x", "+", "1", "2")
LINES = ("-", "--", "-.", ":")
ALIKE = {"p": "o", "h": "o", "H": "o", "8": "o", "d": "D"}
"""Markers that cannot be told from others at the size of a legend."""


def style(method: str, experiment: str = "helmholtz") -> Style:
    """The looks of a method and its name in an experiment."""
    row = METHODS[method]
    label = row.label_in(EXPERIMENTS[experiment]) if experiment in EXPERIMENTS else row.label
    return Style(label, row.colour, row.marker, row.line)


def styles_of(names: Iterable[str], experiment: str = "helmholtz") -> dict[str, Style]:
    """The styles of all that one figure draws: no two of them share a colour or a marker.

    The first to come keeps what its row says. One that comes later and would look like it, or has
    no row, gets what is still free; when all colours or all markers are in use, they are given out
    again, and still no two have both.
    """
    found: dict[str, Style] = {}
    for name in dict.fromkeys(names):
        line = LINES[len(found) % len(LINES)]
        wanted = Style(name.replace("_", " "), "", "", line)
        if name in METHODS:
            wanted = style(name, experiment)
        taken = [(look.colour, ALIKE.get(look.marker, look.marker)) for look in found.values()]
        colours = _in_order(wanted.colour, PALETTE, {colour for colour, _ in taken})
        markers = _in_order(wanted.marker, MARKERS, {marker for _, marker in taken})
        pairs = (p for p in product(colours, markers) if (p[0], ALIKE.get(p[1], p[1])) not in taken)
        colour, marker = next(pairs)
        found[name] = wanted._replace(colour=colour, marker=marker)
    return found


def _in_order(wanted: str, others: Sequence[str], taken: set[str]) -> list[str]:
    """First what is wanted, then the others, those that are in use after all that are free."""
    every = dict.fromkeys([wanted, *others] if wanted else others)
    return sorted(every, key=lambda choice: ALIKE.get(choice, choice) in taken)


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
    """One legend under all panels, a method once, in as many columns as the figure has room for."""
    entries: dict[str, Any] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    widest = 0.75 + 0.058 * max(map(len, entries), default=1)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=max(1, min(columns, len(entries), int(figure.get_figwidth() / widest))),
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
