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

from neuralsolver.equations.grid import Grid
from neuralsolver.errors import InvalidInput

WallValues = float | Tensor | npt.ArrayLike | Callable[..., Tensor | npt.ArrayLike]
"""u on the walls: a number, an array, or a function of the coordinates."""


@dataclass(frozen=True, eq=False)
class Known:
    """Values of the solution that are given: `values` where `mask` is true.

    Both have the shape of the solution, or of its last axes: (n, n) serves all samples alike.

    >>> import neuralsolver as ns, numpy as np
    >>> wall = np.zeros((16, 16), dtype=bool)
    >>> wall[0] = True
    >>> known = ns.Known(wall, np.ones((16, 16)))
    >>> float(ns.Problem(ns.Poisson(), np.zeros((16, 16)), known=known).zeros()[0, 0, 0, 5])
    1.0
    """

    mask: Tensor
    values: Tensor

    def __init__(self, mask: Tensor | npt.ArrayLike, values: Tensor | npt.ArrayLike) -> None:
        where = mask if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask))
        what = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values, float))
        if where.dtype != torch.bool:
            raise InvalidInput("known mask", "true or false at every point", where.dtype)
        try:
            shape = np.broadcast_shapes(tuple(where.shape), tuple(what.shape))
        except ValueError:
            got = f"{tuple(where.shape)} and {tuple(what.shape)}"
            raise InvalidInput("known", "a mask and values of one shape", got) from None
        if not bool((torch.isfinite(what) | ~where).expand(shape).all()):
            raise InvalidInput("known values", "finite values where the mask is true", "NaN or inf")
        object.__setattr__(self, "mask", where)
        object.__setattr__(self, "values", what)

    def spread(self, shape: Sequence[int], like: Tensor) -> Known:
        """The same for every sample and frame of a batch of solutions."""
        try:
            mask, values = (part.expand(*shape) for part in (self.mask, self.values))
        except RuntimeError:
            got = f"{tuple(self.mask.shape)} and {tuple(self.values.shape)}"
            raise InvalidInput("known", f"a mask and values of shape {tuple(shape)}", got) from None
        return Known(mask.to(like.device), values.to(like).masked_fill(~mask.to(like.device), 0.0))


def with_walls(grid: Grid, walls: WallValues, known: Known | None = None) -> Known:
    """u = g on the walls of a grid, beside what else is known; that is not changed.

    An array has the shape of the grid, of which only the values on walls are read, or of a batch.
    """
    on_wall = grid.on_wall
    given = walls(*grid.points()) if callable(walls) else walls
    values = given if isinstance(given, Tensor) else torch.from_numpy(np.array(given, float))
    try:
        values = values + torch.zeros(grid.shape, dtype=values.dtype, device=values.device)
        wrong = values.shape[-grid.dimension :] != grid.shape
    except RuntimeError:
        wrong = True
    if wrong:
        expected = f"a number, a function, or an array of shape {grid.shape}"
        raise InvalidInput("walls", expected, f"shape {tuple(values.shape)}")
    missing = ~torch.isfinite(values.detach()) & on_wall.to(values.device)
    if bool(missing.any()):
        got = f"{int(missing.sum())} NaN or infinite values"
        raise InvalidInput("walls", "finite values on every wall", got)
    if values.dim() == grid.dimension + 1:  # a batch of fields
        values = values[:, None]
    values = torch.where(on_wall.to(values.device), values, 0.0)
    if known is None:
        return Known(on_wall.to(values.device), values)
    mask = known.mask | on_wall.to(known.mask.device)
    return Known(mask, torch.where(known.mask, known.values, values.to(known.values)))
