"""How a field is drawn, everywhere the same.

Fields that change sign get a diverging map that is white at zero, others a sequential one; both can
be told apart without colour vision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

Field = npt.NDArray[np.floating[Any]]

SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
"""The colour maps of fields of one sign and of both."""

ERROR_COLOUR, RESIDUAL_COLOUR = "#0072B2", "#D55E00"
"""The curves of error and residual in every picture (of Okabe and Ito's set)."""


def colours(fields: Field) -> dict[str, Any]:
    """Colour map and limits that suit the values of some fields drawn side by side."""
    low, high = float(fields.min()), float(fields.max())
    if min(-low, high) > 0.02 * max(-low, high):
        largest = max(-low, high)
        return {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    return {"cmap": SEQUENTIAL, "vmin": low, "vmax": high if high > low else low + 1.0}


def draw(axis: Axes, field: Field, title: str = "", **options: Any) -> AxesImage:
    """A field (n, n) on the unit square, r₁ to the right and r₂ up."""
    image = axis.imshow(field.T, origin="lower", extent=(0, 1, 0, 1), **(options or colours(field)))
    axis.set_xticks([0, 1])
    axis.set_yticks([0, 1])
    axis.tick_params(labelsize=7)
    axis.set_title(title, fontsize=9)
    return image


def shade(axis: Axes, held: npt.NDArray[np.bool_], *, hide: bool = False) -> None:
    """The outline of the points of a drawn field that are held; grey over them with `hide`."""
    place: dict[str, Any] = {"origin": "lower", "extent": (0, 1, 0, 1)}
    if hide:
        grey = np.ma.masked_where(~held.T, np.ones(held.T.shape))
        axis.imshow(grey, cmap="gray", vmin=0, vmax=1.25, **place)
    if held.any() and not held.all():
        axis.contour(held.T.astype(float), levels=[0.5], colors="black", linewidths=0.7, **place)
