"""How curves, axes and legends look, and how a picture becomes a file.

A method has its colour, marker and line from its place in the list of methods; colour alone carries
nothing. Within a figure no two look alike: `styles_of` gives another look to whatever would.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paper.methods import METHODS
from paper.regimes import EXPERIMENTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110
BLUE, VERMILION, GREEN, ORANGE, BLACK, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#000000", "#7F7F7F",
)  # fmt: skip
PALETTE = (
    BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", "#8C564B", "#332288", "#44AA99",
    "#882255", "#999933", "#C9B35B", GREY, "#6699CC", "#F0E442", BLACK,
)  # fmt: skip
"""Okabe and Ito's colours and some of Tol's, which differ for every kind of colour vision."""
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">", "*", "x", "+", "1", "2")
LINES = ("-", "--", "-.", ":")


class Style(NamedTuple):
    """Name, colour, marker and line of one curve."""

    label: str
    colour: str
    marker: str
    line: str = "-"


def label_of(method: str, experiment: str = "helmholtz") -> str:
    """What a method is called in an experiment; a name that is no method's is its own label."""
    if method not in METHODS:
        return method
    row = METHODS[method]
    return row.label_in(EXPERIMENTS[experiment]) if experiment in EXPERIMENTS else row.label


def styles_of(names: Iterable[str], experiment: str = "helmholtz") -> dict[str, Style]:
    """The styles of all that one figure draws, no two alike.

    A method takes the colour and the marker of its place in the list, or the next that are used
    least in this figure.

    Args:
        names: Methods, or other names, in the order in which they are drawn.
        experiment: The one whose labels are wanted.
    """
    order, found = list(METHODS), dict[str, Style]()
    for name in dict.fromkeys(names):
        place = order.index(name) if name in METHODS else len(found)
        colours, markers = (
            many[place % len(many) :] + many[: place % len(many)] for many in (PALETTE, MARKERS)
        )
        taken = [(look.colour, look.marker) for look in found.values()]
        used = [choice for pair in taken for choice in pair]
        colour, marker = min(
            product(colours, markers),
            key=lambda pair: (pair in taken, used.count(pair[0]), used.count(pair[1])),
        )
        found[name] = Style(label_of(name, experiment), colour, marker, LINES[place % len(LINES)])
    return found


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
    looks: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.line,
        "marker": look.marker,
        "markersize": 4.5,
    }
    looks |= {"markeredgecolor": "white", "markeredgewidth": 0.4, "linewidth": 1.5}
    axis.plot(xs, ys, markevery=max(1, len(xs) // 10), label=look.label, **looks, **options)


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
    room = max(1, min(columns, len(entries), int(figure.get_figwidth() / widest)))
    looks: dict[str, Any] = {"fontsize": 8, "frameon": False, "handlelength": 3.2}
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=room, **looks)


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


def pdf(figure: Figure) -> bytes:
    """The same as vectors, without the date."""
    memory = io.BytesIO()
    figure.savefig(memory, format="pdf", metadata={"CreationDate": None})
    return memory.getvalue()
