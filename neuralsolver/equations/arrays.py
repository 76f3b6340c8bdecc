"""Arrays and axes as users give them, or one line that says what came instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Grid, Side
from neuralsolver.limits import POSITIVE

REALS = (torch.float32, torch.float64)


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


@dataclass(frozen=True)
class AskedAxes:
    """The axes that a user asks for, and what is said of each."""

    dimension: int
    lengths: tuple[float, ...] | None = None
    sides: tuple[Side, ...] | None = None

    @classmethod
    def of(cls, equation: Equation, grid: Grid | None, lengths: Any, sides: Any) -> AskedAxes:
        """By a grid, or by lengths and sides; one value stands for all axes of the equation.

        Args:
            equation: It says how many axes there are where nothing else does.
            grid: The grid, which then says everything.
            lengths: One positive number, or one for every axis.
            sides: One word, or a word or a pair of words for every axis.

        Returns:
            What is asked for.

        Raises:
            InvalidInput: One of them is something else.
        """
        if not isinstance(grid, Grid | None):
            raise InvalidInput("grid", "a Grid", type(grid).__name__)
        if grid is not None:
            return cls(grid.dimension)
        if lengths is None and sides is None:
            return cls(equation.dimension)
        given = [g for g in (lengths, sides) if isinstance(g, Sequence) and not isinstance(g, str)]
        dimension = max([len(g) for g in given], default=equation.dimension)
        long = _for_every_axis("lengths", lengths, dimension)
        if long is not None:
            long = tuple(POSITIVE.read("lengths", length) for length in long)
        return cls(dimension, long, _for_every_axis("sides", sides, dimension))

    def grid(self, equation: Equation, points: tuple[int, ...]) -> Grid:
        """The grid of so many points; that of the equation unless something else is asked for."""
        stated = len(set(points)) == 1 and len(points) == equation.dimension
        if self.lengths is None and self.sides is None and stated:
            return equation.grid(points[0])
        if equation.boundary == "torus":
            got = f"{points}, lengths {self.lengths}, sides {self.sides}"
            raise InvalidInput("grid", f"the unit square, which is all {equation.name} knows", got)
        return Grid.with_sides(points, self.lengths, self.sides or ("walls",) * len(points))


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
