"""What is known of a solution beforehand: values on the walls, or of points inside.

Where u is known it is what it is given to be, and the residual is zero. Electrodes, obstacles and
domains of any shape within the box are points that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations.arrays import mask_tensor, real_tensor
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.complex_field import logical_names, to_real
from neuralsolver.fields.space import Space

WallValues = float | Tensor | npt.ArrayLike | Callable[..., Tensor | npt.ArrayLike]
"""u on the walls: a number, an array, or a function of the coordinates."""


@dataclass(frozen=True, eq=False)
class FixedValues:
    """Values of the solution that are given: `values` where `mask` is true.

    Both have the shape of the solution, or of its last axes: (n, n) serves all samples alike.

    >>> import neuralsolver as ns, numpy as np
    >>> wall = np.zeros((16, 16), dtype=bool)
    >>> wall[0] = True
    >>> known = ns.FixedValues(wall, np.ones((16, 16)))
    >>> float(ns.Problem(ns.Poisson(), np.zeros((16, 16)), fixed=known).zeros()[0, 0, 0, 5])
    1.0
    """

    mask: Tensor
    values: Tensor

    def __init__(self, mask: Tensor | npt.ArrayLike, values: Tensor | npt.ArrayLike) -> None:
        where, what = mask_tensor("fixed mask", mask), real_tensor("fixed values", values)
        try:
            shape = np.broadcast_shapes(tuple(where.shape), tuple(what.shape))
        except ValueError:
            got = f"{tuple(where.shape)} and {tuple(what.shape)}"
            raise InvalidInput("fixed", "a mask and values of one shape", got) from None
        if not bool((torch.isfinite(what) | ~where).expand(shape).all()):
            raise InvalidInput("fixed values", "finite values where the mask is true", "NaN or inf")
        object.__setattr__(self, "mask", where)
        object.__setattr__(self, "values", what)

    def spread(self, shape: Sequence[int], like: Tensor) -> FixedValues:
        """The same for every sample and frame of a batch of solutions."""
        try:
            mask, values = (part.expand(*shape) for part in (self.mask, self.values))
        except RuntimeError:
            got = f"{tuple(self.mask.shape)} and {tuple(self.values.shape)}"
            raise InvalidInput("fixed", f"a mask and values of shape {tuple(shape)}", got) from None
        return FixedValues(
            mask.to(like.device), values.to(like).masked_fill(~mask.to(like.device), 0.0)
        )


def with_walls(space: Space, walls: WallValues, known: FixedValues | None = None) -> FixedValues:
    """u = g on the walls of every field, beside what else is known; that is not changed.

    An array has the shape of the grid, of which only the values on walls are read, or of a batch.
    That of a complex field may be complex.
    """
    grid = space.grid
    on_wall = grid.on_wall if space.uniform else ~space.unknown
    given = walls(*grid.points()) if callable(walls) else walls
    values = real_tensor("walls", given, complex_too=True)
    try:
        values = values + torch.zeros(grid.shape, dtype=values.dtype, device=values.device)
        wrong = values.shape[-grid.dimension :] != grid.shape
    except RuntimeError:
        wrong = True
    if wrong:
        expected = f"a number, a function, or an array of shape {grid.shape}"
        raise InvalidInput("walls", expected, f"shape {tuple(values.shape)}")
    if values.is_complex():
        names = tuple(field.name for field in space.fields)
        if len(logical_names(names)) > 1 or len(names) == 1:
            raise InvalidInput("walls", "real values", values.dtype)
        values = to_real(names, values.reshape(-1, 1, *grid.shape))
    missing = ~torch.isfinite(values.detach()) & on_wall.to(values.device)
    if bool(missing.any()):
        got = f"{int(missing.sum())} NaN or infinite values"
        raise InvalidInput("walls", "finite values on every wall", got)
    if values.dim() == grid.dimension + 1:  # a batch of fields
        values = values[:, None]
    values = torch.where(on_wall.to(values.device), values, 0.0)
    if known is None:
        return FixedValues(on_wall.to(values.device), values)
    mask = known.mask | on_wall.to(known.mask.device)
    return FixedValues(mask, torch.where(known.mask, known.values, values.to(known.values)))
