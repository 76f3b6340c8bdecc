"""What users give: arrays, axes, and what is known of a solution beforehand.

Each is read as it is meant, or refused with one line that says what came instead.

Where u is known it is what it is given to be, and the residual is zero. Electrodes, obstacles and
domains of any shape within the box are points that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations.base import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.complex_field import REAL, logical_names, to_real
from neuralsolver.fields.grid import Grid, Side
from neuralsolver.fields.space import Space
from neuralsolver.limits import POSITIVE

REALS = (torch.float32, torch.float64)

WallValues = float | Tensor | npt.ArrayLike | Callable[..., Tensor | npt.ArrayLike]
"""u on the walls: a number, an array, or a function of the coordinates."""


def real_tensor(name: str, values: Any, *, complex_too: bool = False) -> Tensor:
    """Real numbers as a tensor in float32 or float64.

    Args:
        name: What the values are called in an error.
        values: A tensor, or anything that NumPy reads as an array of real numbers.
        complex_too: Whether complex numbers are taken as well, as complex128.

    Returns:
        The values; a tensor in one of these precisions is returned as it is, with its gradient.

    Raises:
        InvalidInput: The values are masked, ragged, complex, dates, records, texts or objects.
    """
    if isinstance(values, Tensor):
        wrong = values.is_complex() and not complex_too
        if wrong or values.is_sparse or values.is_quantized:
            raise InvalidInput(name, "real numbers in a dense tensor", values.dtype)
        if values.is_complex():
            return values
        return values if values.dtype in REALS else values.double()
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        hidden = f"{int(np.ma.getmaskarray(values).sum())} masked values"
        raise InvalidInput(name, "a value at every point (fill them first)", hidden)
    array = _array(name, values)
    if array.dtype.kind == "c" and complex_too:
        return torch.from_numpy(array.astype(np.complex128))
    if array.dtype.kind not in "iubf":
        raise InvalidInput(name, "real numbers", f"dtype {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    # a copy where it must be: tensors know no negative strides and no foreign byte order
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def mask_tensor(name: str, mask: Any) -> Tensor:
    """True or false at every point as a tensor.

    Args:
        name: What the mask is called in an error.
        mask: A tensor or an array of booleans.

    Returns:
        The mask.

    Raises:
        InvalidInput: It holds numbers (NaN would count as true) or anything else.
    """
    where = mask if isinstance(mask, Tensor) else _array(name, mask)
    if where.dtype not in (torch.bool, np.dtype(bool)):
        raise InvalidInput(name, "true or false at every point", where.dtype)
    return where if isinstance(where, Tensor) else torch.from_numpy(np.array(where))


Axes = tuple[int, tuple[float, ...] | None, tuple[Side, ...] | None]
"""The number of axes that a user asks for, and the length and the sides of each."""


def asked_axes(equation: Equation, grid: Grid | None, lengths: Any, sides: Any) -> Axes:
    """The axes that are asked for by a grid, or by lengths and sides.

    Args:
        equation: It says how many axes there are where nothing else does.
        grid: The grid, which then says everything.
        lengths: One positive number, or one for every axis.
        sides: One word, or a word or a pair of words for every axis.

    Returns:
        The number of axes, their lengths and their sides.

    Raises:
        InvalidInput: One of them is something else.
    """
    if not isinstance(grid, Grid | None):
        raise InvalidInput("grid", "a Grid", type(grid).__name__)
    if grid is not None:
        return grid.dimension, None, None
    given = [g for g in (lengths, sides) if isinstance(g, Sequence) and not isinstance(g, str)]
    dimension = max([len(g) for g in given], default=equation.dimension)
    long = _for_every_axis("lengths", lengths, dimension)
    if long is not None:
        long = tuple(POSITIVE.read("lengths", length) for length in long)
    return dimension, long, _for_every_axis("sides", sides, dimension)


def asked_grid(equation: Equation, axes: Axes, points: tuple[int, ...]) -> Grid:
    """The grid of so many points; that of the equation unless something else is asked for."""
    _, lengths, sides = axes
    stated = len(set(points)) == 1 and len(points) == equation.dimension
    if lengths is None and sides is None and stated:
        return equation.grid(points[0])
    if equation.boundary == "periodic":
        got = f"{points}, lengths {lengths}, sides {sides}"
        raise InvalidInput("grid", f"the unit square, which is all {equation.name} knows", got)
    return Grid.with_sides(points, lengths, sides or ("dirichlet",) * len(points))


def input_tensor(
    equation: Equation, inputs: Any, dimension: int, batch: bool
) -> tuple[Tensor, int]:
    """The inputs as a batch.

    Args:
        equation: It names the inputs, and checks them.
        inputs: One field (x, y), the fields of a sample, or a batch, as `Problem` takes them.
        dimension: The number of axes of the grid.
        batch: Whether (batch, x, y) is a batch of fields.

    Returns:
        (batch, channel, x, y[, z]), and how many axes stood before those of the grid.

    Raises:
        InvalidInput: They are none of these.
    """
    channels, names = equation.input_names, " and ".join(equation.input_names)
    pairs = any(name.endswith(REAL) for name in channels)
    tensor = real_tensor(names, inputs, complex_too=pairs)
    logical = len(logical_names(channels) if tensor.is_complex() else channels)
    batched, got = tensor.dim() - dimension, tuple(tensor.shape)
    square = equation.boundary == "periodic"
    if batched not in (0, 1, 2) or (square and len(set(got[-dimension:])) > 1):
        kind = "square field" if square else "field"
        expected = f"a {kind} ({', '.join('n' * dimension)}) or a batch of them"
        raise InvalidInput(names, expected, got)
    if 0 in got:
        raise InvalidInput(names, "at least one sample", got)
    if batched == 1 and batch is (logical > 1):
        expected = "(batch, field, x, y), batch=True, or the lengths of a box"
        raise InvalidInput(names, expected, got)
    if batched == 0:
        tensor = tensor[None, None]
    elif batched == 1:
        tensor = tensor[:, None] if batch else tensor[None]
    if tensor.is_complex() and logical < len(channels) and tensor.shape[1] == logical:
        tensor = to_real(channels, tensor)
    equation.check_inputs(tensor)
    return tensor, batched


def _for_every_axis(name: str, given: Any, dimension: int) -> tuple[Any, ...] | None:
    """What was given for every axis: one word or number stands for all of them."""
    if given is None:
        return None
    if isinstance(given, str | int | float | np.number):
        return (given,) * dimension
    if isinstance(given, Tensor | np.ndarray):
        given = given.tolist()
    if not isinstance(given, Sequence) or not 1 <= len(given) <= 3:
        raise InvalidInput(name, "one value for every axis of the grid", repr(given)[:60])
    return tuple(given)


def _array(name: str, values: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:  # rows of different lengths
        raise InvalidInput(name, "an array of numbers", " ".join(str(error).split())) from None


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
