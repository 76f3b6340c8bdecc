"""How a field is drawn, everywhere the same.

Fields that change sign get a diverging map that is white at zero, others a sequential one; both can
be told apart without colour vision. A positive field that spans decades has a logarithmic scale.
Masked points are grey.
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


DECADES = 2.0
"""Positive fields that span as many are drawn on a logarithmic scale."""


def colours(fields: Field) -> dict[str, Any]:
    """Colour map and limits that suit the values of some fields drawn side by side."""
    low, high = float(fields.min()), float(fields.max())
    if low > 0 and high >= 10**DECADES * low:
        from matplotlib.colors import LogNorm

        return {"cmap": SEQUENTIAL, "norm": LogNorm(low, high)}
    if min(-low, high) > 0.02 * max(-low, high):
        largest = max(-low, high)
        return {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    return {"cmap": SEQUENTIAL, "vmin": low, "vmax": high if high > low else low + 1.0}


def draw(
    axis: Axes,
    field: Field,
    title: str = "",
    *,
    lengths: tuple[float, float] = (1.0, 1.0),
    **options: Any,
) -> AxesImage:
    """A field (n, m) on a rectangle, r₁ to the right and r₂ up; masked points are grey."""
    axis.set_facecolor("0.8")
    place = (0.0, lengths[0], 0.0, lengths[1])
    image = axis.imshow(field.T, origin="lower", extent=place, **(options or colours(field)))
    axis.set_xticks([0, lengths[0]])
    axis.set_yticks([0, lengths[1]])
    axis.tick_params(labelsize=7)
    axis.set_title(title, fontsize=9)
    return image


def outline(
    axis: Axes, mask: npt.NDArray[np.bool_], lengths: tuple[float, float] = (1.0, 1.0)
) -> None:
    """The outline of the fixed points of a drawn field."""
    if mask.any() and not mask.all():
        place: dict[str, Any] = {"origin": "lower", "extent": (0, lengths[0], 0, lengths[1])}
        axis.contour(mask.T.astype(float), levels=[0.5], colors="black", linewidths=0.7, **place)
