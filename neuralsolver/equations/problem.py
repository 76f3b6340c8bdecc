"""A problem: an equation with its inputs, and what of its solution is known beforehand.

`Known` holds values that the equation does not know of: others than zero on the walls, or points
inside. There u is what it is given to be, and the residual is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations.base import Equation, generator
from neuralsolver.equations.grid import Grid
from neuralsolver.equations.units import Units, per_sample
from neuralsolver.errors import InvalidInput


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
        if not bool(torch.isfinite(what.masked_fill(~where, 0.0)).all()):
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


@dataclass(frozen=True, eq=False)
class Problem:
    """An equation with its inputs, which may be numpy or torch, one field (n, n) or a batch.

    `solution.u` comes back as numpy or torch and in the layout of the inputs, in the precision of
    the equation (float64 between walls, float32 for flows) whatever that of the inputs was.

    >>> import neuralsolver as ns, numpy as np
    >>> problem = ns.Problem(ns.Poisson(), np.ones((16, 16), dtype=np.float32))
    >>> problem.batch, problem.resolution, tuple(problem.inputs.shape)
    (1, 16, (1, 1, 16, 16))
    """

    equation: Equation
    inputs: Tensor
    known: Known | None

    def __init__(
        self,
        equation: Equation,
        inputs: Tensor | npt.ArrayLike,
        *,
        known: Known | None = None,
    ) -> None:
        as_numpy = not isinstance(inputs, Tensor)
        tensor = inputs if isinstance(inputs, Tensor) else _tensor_of(equation, inputs)
        dimensions = tensor.dim()
        if dimensions < 2 or tensor.shape[-1] != tensor.shape[-2]:
            names = " and ".join(equation.input_names)
            raise InvalidInput(
                names, "a square field (n, n) or a batch of them", tuple(tensor.shape)
            )
        if dimensions == 2:
            tensor = tensor[None, None]
        elif dimensions == 3:
            tensor = tensor[None] if len(equation.input_names) > 1 else tensor[:, None]
        if 0 in tensor.shape:
            expected = "at least one sample"
            raise InvalidInput(" and ".join(equation.input_names), expected, tuple(tensor.shape))
        equation.check_inputs(tensor)
        shape = (tensor.shape[0], *equation.solution_shape(tensor.shape[-1]))
        object.__setattr__(self, "equation", equation)
        object.__setattr__(self, "inputs", tensor)
        object.__setattr__(self, "known", known and known.spread(shape, tensor))
        object.__setattr__(self, "_given", (as_numpy, dimensions))

    @classmethod
    def random(
        cls, equation: Equation, resolution: int, count: int = 1, seed: int = 0, key: int = 0
    ) -> Problem:
        """`count` random instances in float64; sample i depends on (seed, key, i) only."""
        equation.check_grid(resolution)
        fields = [equation.sample(generator(seed, key, i), resolution) for i in range(count)]
        return cls(equation, torch.from_numpy(np.stack(fields)))

    @property
    def resolution(self) -> int:
        return self.inputs.shape[-1]

    @property
    def grid(self) -> Grid:
        """The points of its fields."""
        return self.equation.grid(self.resolution)

    @property
    def batch(self) -> int:
        return self.inputs.shape[0]

    def residual(self, u: Tensor) -> Tensor:
        """F(u; f), zero where u is known."""
        residual = self.equation.residual(u, self.inputs)
        return residual if self.known is None else residual.masked_fill(self.known.mask, 0.0)

    def impose(self, u: Tensor) -> Tensor:
        """u with its known values."""
        u = self.equation.impose(u, self.inputs)
        return u if self.known is None else torch.where(self.known.mask, self.known.values, u)

    def zeros(self) -> Tensor:
        """The zero guess, with the known values imposed."""
        shape = (self.batch, *self.equation.solution_shape(self.resolution))
        return self.impose(self.inputs.new_zeros(shape))

    def first_guess(self) -> Tensor:
        """The field one begins with."""
        guess = self.equation.first_guess(self.inputs)
        return guess if self.known is None else self.impose(guess)

    def measure(self, residual: Tensor) -> Tensor:
        """A residual as it is measured: L⁻¹r in the units of the error where L⁻¹ is known, or r."""
        integrated = self.equation.invert_linear_part(residual)
        return residual if integrated is None else integrated

    def select(self, index: Tensor | Sequence[int] | slice) -> Problem:
        """The sub-batch at `index`."""
        return self._with(self.inputs[index], index)

    def in_precision(self, dtype: torch.dtype) -> Problem:
        """The same problem in another precision, to be restored as it was given."""
        changed = self._with(self.inputs.to(dtype), slice(None))
        object.__setattr__(changed, "_given", self._given)  # type: ignore[attr-defined]
        return changed

    def on(self, device: torch.device) -> Problem:
        """The same problem on another device, to be restored as it was given."""
        changed = self._with(self.inputs.to(device), slice(None))
        object.__setattr__(changed, "_given", self._given)  # type: ignore[attr-defined]
        return changed

    def in_units(self, units: Units) -> Problem:
        """The same problem in natural units."""
        known = self.known
        if known is not None:
            known = Known(known.mask, known.values / per_sample(units.solution, known.values))
        return Problem(units.equation, units.inputs, known=known)

    def coarsened(self, grid: Grid) -> Problem:
        """The same problem with its inputs averaged to a coarser grid between walls."""
        if self.known is not None:
            raise InvalidInput("grid", "the trained one where values are known", self.grid.shape)
        return Problem(self.equation, self.grid.coarsen(self.inputs, grid))

    def resampled(self, grid: Grid) -> Problem:
        """The same problem on another torus."""
        return Problem(self.equation, self.grid.resample(self.inputs, grid))

    def restore(self, u: Tensor) -> Any:
        """u in the kind and layout in which the inputs were given."""
        as_numpy, dimensions = self._given  # type: ignore[attr-defined]
        if dimensions == 2:
            u = u[0, 0]
        elif dimensions == 3:
            u = u[0] if len(self.equation.input_names) > 1 else u[:, 0]
        return u.detach().cpu().numpy() if as_numpy else u

    def adopt(self, u: Tensor | npt.ArrayLike) -> Tensor:
        """A field in the layout of the inputs, or of the solution, as an iterate: the inverse of
        `restore`, with the known values imposed."""
        given = torch.as_tensor(np.asarray(u) if not isinstance(u, Tensor) else u)
        shape = (self.batch, *self.equation.solution_shape(self.resolution))
        layouts = (shape, tuple(self.restore(self.inputs.new_zeros(shape)).shape))
        if given.is_complex() or tuple(given.shape) not in layouts:
            expected = f"real values of shape {' or '.join(str(s) for s in dict.fromkeys(layouts))}"
            raise InvalidInput("u0", expected, f"{given.dtype}, {tuple(given.shape)}")
        if not given.is_floating_point():
            given = given.double()
        field = given.to(self.inputs.device).reshape(shape)
        if not bool(torch.isfinite(field).all()):
            raise InvalidInput("u0", "finite values", "NaN or infinite values")
        return self.impose(field)

    def _with(self, inputs: Tensor, index: Tensor | Sequence[int] | slice) -> Problem:
        known = self.known and Known(self.known.mask[index], self.known.values[index])
        return Problem(self.equation, inputs, known=known)


def _tensor_of(equation: Equation, values: npt.ArrayLike) -> Tensor:
    names = " and ".join(equation.input_names)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        hidden = f"{int(np.ma.getmaskarray(values).sum())} masked values"
        raise InvalidInput(names, "a value at every point (fill them first)", hidden)
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(names, "an array of numbers", " ".join(str(error).split())) from None
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InvalidInput(names, "real numbers", f"dtype {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return torch.from_numpy(np.ascontiguousarray(array))
