"""A trajectory as an animated GIF: fields side by side, one picture per frame.

    index of a colour = first + round((w − low) / (high − low) (COLOURS − 1))

The map is diverging, its middle at zero; fields that are nowhere negative have a sequential one.
Fields that are compared share their scale over all frames; an error or a residual has its own. The
pictures are made of palette indices from the start, so no colour is approximated and the same
fields give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.plotting.pictures import DIVERGING, SEQUENTIAL

Indices = npt.NDArray[np.uint8]
Fields = Mapping[str, npt.NDArray[np.floating[Any]]]

COLOURS, GREYS = 63, 16
"""Entries of the palette: an odd number, so that zero has one, and the text. On noise, 191 colours
instead of 63 make the file a quarter larger."""

PANEL = 192
"""Side of a panel in pixels, roughly: a grid point is a whole number of them."""

MARGIN, HEADER, BAR, FOOTER = 8, 22, 8, 18
MILLISECONDS, LAST_MILLISECONDS = 150, 1200


def animate(
    path: str | Path,
    fields: Fields,
    times: Sequence[float] | npt.NDArray[np.floating[Any]],
    *,
    own_scale: Collection[str] = ("error", "residual"),
) -> Path:
    """Write a GIF of fields (T, n, m) by title at T times; all but `own_scale` share one scale."""
    path = Path(path)
    _check(path, fields, times)
    shared = [name for name in fields if name not in own_scale]
    together = [fields[name] for name in shared]
    scales = {name: _scale(together if name in shared else [fields[name]]) for name in fields}
    if shared and (low := float(np.min(together))) >= 0:
        high = float(np.max(together))
        positive = (low, high if high > low else low + 1.0, COLOURS + GREYS)
        scales.update(dict.fromkeys(shared, positive))
    pictures = []
    for frame, moment in enumerate(times):
        panels = [
            _panel(f"{name}, t = {moment:.4g}", field[frame], *scales[name])
            for name, field in fields.items()
        ]
        picture = Image.fromarray(np.concatenate(panels, axis=1))
        picture.putpalette(_palette())
        pictures.append(picture)
    durations = [MILLISECONDS] * (len(pictures) - 1) + [LAST_MILLISECONDS]
    memory = io.BytesIO()
    pictures[0].save(
        memory,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=durations,
        loop=0,
        optimize=False,
    )
    write_whole(path, memory.getvalue())
    return path


def _check(path: Path, fields: Fields, times: Sequence[float] | npt.NDArray[Any]) -> None:
    if path.suffix.lower() != ".gif":
        raise InvalidInput("animation", "a file name ending in .gif", path)
    if not path.parent.is_dir():
        raise InvalidInput("animation", "a file in an existing folder", path)
    if not fields:
        raise InvalidInput("fields", "at least one trajectory", "none")
    shapes = {name: np.shape(field) for name, field in fields.items()}
    first = next(iter(shapes.values()))
    expected = f"shape ({len(times)}, n, m), the same for all"
    for name, shape in shapes.items():
        if len(shape) != 3 or min(shape) < 1 or shape != first or not 0 < len(times) == shape[0]:
            raise InvalidInput(name, expected, f"shape {shape}")
        if not np.isfinite(fields[name]).all():
            raise InvalidInput(name, "finite values", "NaN or infinity")


def _scale(fields: Sequence[npt.NDArray[np.floating[Any]]]) -> tuple[float, float, int]:
    """Ends of the diverging scale of some fields, and its first colour."""
    # nothing but zeros looks the same on any scale
    largest = max(float(np.abs(field).max()) for field in fields) or 1.0
    return -largest, largest, 0


def _panel(
    title: str, field: npt.NDArray[np.floating[Any]], low: float, high: float, first: int
) -> Indices:
    """Title, field, colour bar and its limits, one above the other."""
    scaled = np.rint((field.astype(np.float64) - low) / (high - low) * (COLOURS - 1))
    # r₁ to the right and r₂ up, as in every other picture
    upright = first + scaled.astype(np.uint8).T[::-1]
    pixels = max(1, round(PANEL / max(field.shape)))
    enlarged = np.kron(upright, np.ones((pixels, pixels), dtype=np.uint8))
    side = enlarged.shape[1]
    bar = np.tile(first + np.linspace(0, COLOURS - 1, side).round().astype(np.uint8), (BAR, 1))
    gap = np.full((4, side), COLOURS + GREYS - 1, dtype=np.uint8)
    header = _text(side, HEADER, [(title, "left")])
    footer = _text(side, FOOTER, [(f"{low:.2g}", "left"), (f"{high:.2g}", "right")])
    column = np.concatenate([header, enlarged, gap, bar, footer])
    return np.pad(column, ((0, 0), (MARGIN, MARGIN)), constant_values=COLOURS + GREYS - 1)


def _text(width: int, height: int, words: Sequence[tuple[str, str]]) -> Indices:
    """A white strip with black words at its left or right end."""
    strip = Image.new("L", (width, height), 255)
    drawing = ImageDraw.Draw(strip)
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf", 11)
    for word, side in words:
        place = 0.0 if side == "left" else width - drawing.textlength(word, font)
        drawing.text((place, 3), word, fill=0, font=font)
    return COLOURS + np.asarray(strip) // np.uint8(256 // GREYS)


def _palette() -> list[int]:
    """The diverging map, the greys from black to white, the sequential map; red, green, blue …"""
    line = np.linspace(0, 1, COLOURS)
    maps = [matplotlib.colormaps[name](line)[:, :3] for name in (DIVERGING, SEQUENTIAL)]
    greys = np.repeat(np.linspace(0, 1, GREYS)[:, None], 3, axis=1)
    values = np.rint(255 * np.concatenate([maps[0], greys, maps[1]])).astype(int)
    return [int(value) for value in values.ravel()]
