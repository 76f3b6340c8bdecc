"""A problem: an equation with its inputs, its grid, and what is known of its solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.cancellation import checkpoint
from neuralsolver.equations.base import Equation, generator
from neuralsolver.equations.given import (
    FixedValues,
    WallValues,
    asked_axes,
    asked_grid,
    input_tensor,
    real_tensor,
    with_walls,
)
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.complex_field import is_complex, logical_names, to_complex, to_real
from neuralsolver.fields.grid import Grid, Side
from neuralsolver.fields.jacobian import field_units
from neuralsolver.fields.space import Space
from neuralsolver.fields.units import Units, largest, scaled
from neuralsolver.limits import SEED, Int

DERIVED = ("field_units", "network_unit")
"""What a problem computes once from its inputs."""


@dataclass(frozen=True, eq=False)
class Problem:
    """An equation with its inputs, which may be numpy or torch: one field (x, y), the fields of one
    sample (field, x, y), or a batch (batch, field, x, y). `batch=True` reads (batch, x, y).

    Its grid is the unit square between walls where u = 0, unless

        lengths   a rectangle or a box                                          lengths=(2, 1)
        sides     of every axis "dirichlet", "neumann" (zero flux) or "periodic", or a pair
                  for its two ends             sides=("periodic", ("dirichlet", "neumann"))
                  (one word or number stands for all axes)
        walls     u on the walls: a number, an array, or a function of the coordinates
        fixed     u anywhere

    say otherwise. `grid` says the first two of these at once.

    `solution.u` comes back as numpy or torch and in the layout of the inputs, in the precision of
    the equation (float64 between walls, float32 for flows) whatever that of the inputs was.

    >>> import neuralsolver as ns, numpy as np
    >>> problem = ns.Problem(ns.Poisson(), np.ones((16, 16), dtype=np.float32))
    >>> problem.batch, problem.resolution, tuple(problem.inputs.shape)
    (1, 16, (1, 1, 16, 16))
    """

    equation: Equation
    inputs: Tensor
    grid: Grid
    fixed: FixedValues | None
    on_native_grid: bool
    """Whether the grid is that which the equation is stated on: the unit square, or the torus."""

    def __init__(
        self,
        equation: Equation,
        inputs: Tensor | npt.ArrayLike,
        *,
        fixed: FixedValues | None = None,
        grid: Grid | None = None,
        lengths: float | Sequence[float] | None = None,
        sides: Side | Sequence[Side] | None = None,
        walls: WallValues | None = None,
        batch: bool = False,
    ) -> None:
        if not isinstance(equation, Equation):
            raise InvalidInput("equation", "an equation, as Poisson()", type(equation).__name__)
        if not isinstance(batch, bool):
            raise InvalidInput("batch", "True or False", repr(batch)[:60])
        axes = asked_axes(equation, grid, lengths, sides)
        tensor, batched = input_tensor(equation, inputs, axes[0], batch)
        points = tuple(tensor.shape[2:])
        grid = grid or asked_grid(equation, axes, points)
        if grid.shape != points:
            raise InvalidInput("grid", f"{points}, as the inputs", grid.shape)
        if not isinstance(fixed, FixedValues | None):
            expected = "FixedValues(mask, values)"
            raise InvalidInput("fixed", expected, type(fixed).__name__)
        if walls is not None:
            fixed = with_walls(equation.space(grid), walls, fixed)
        shape = (tensor.shape[0], *equation.solution_shape(*points))
        known = fixed and fixed.spread(shape, tensor)
        native = len(points) == equation.dimension and grid == equation.grid(points[-1])
        vars(self).update(equation=equation, inputs=tensor, grid=grid, fixed=known)
        vars(self).update(on_native_grid=native, _given=(not isinstance(inputs, Tensor), batched))
        if not native or fixed is not None:
            _check_determined(self)

    @classmethod
    def random(
        cls, equation: Equation, resolution: int, count: int = 1, seed: int = 0, key: int = 0
    ) -> Problem:
        """`count` random instances in float64; sample i depends on (seed, key, i) only."""
        resolution, count = (
            Int(1).read(name, value)
            for name, value in (("resolution", resolution), ("count", count))
        )
        seed, key = SEED.read("seed", seed), SEED.read("key", key)
        equation.check_grid(resolution)
        fields = [equation.sample(generator(seed, key, i), resolution) for i in range(count)]
        return cls(equation, torch.from_numpy(np.stack(fields)))

    @cached_property
    def space(self) -> Space:
        """The unknown fields on the grid."""
        return self.equation.space(self.grid)

    @property
    def resolution(self) -> int:
        return self.inputs.shape[-1]

    @property
    def fixed_inside(self) -> bool:
        """Whether points are known that are not on a wall."""
        return self.fixed is not None and bool(self.grid.interior(self.fixed.mask).any())

    @property
    def free(self) -> Tensor:
        """Which values are solved for, (batch, field, x, y[, z]): neither on a wall nor known."""
        inside = self.space.unknown.to(self.inputs.device)
        free = inside.expand(self.batch, *inside.shape)
        return free if self.fixed is None else free & ~self.fixed.mask

    @property
    def batch(self) -> int:
        return self.inputs.shape[0]

    def residual(self, u: Tensor) -> Tensor:
        """F(u; f), zero where u is known."""
        checkpoint()
        residual = self.equation.residual(self.space, u, self.inputs)
        return residual if self.fixed is None else residual.masked_fill(self.fixed.mask, 0.0)

    def impose(self, u: Tensor) -> Tensor:
        """u with its known values."""
        native = self.on_native_grid
        u = self.equation.impose(u, self.inputs) if native else self.space.zero_boundary(u)
        return u if self.fixed is None else torch.where(self.fixed.mask, self.fixed.values, u)

    def zeros(self) -> Tensor:
        """The zero guess, with the known values imposed."""
        shape = (self.batch, *self.equation.solution_shape(*self.grid.shape))
        return self.impose(self.inputs.new_zeros(shape))

    def first_guess(self) -> Tensor:
        """The field one begins with; values on the walls are blended into it."""
        guess = self.equation.first_guess(self.inputs) if self.on_native_grid else self.zeros()
        if self.fixed is None:
            return guess
        if any(map(any, self.grid.walls)) and not self.equation.frames:
            guess = guess + self.grid.spread_from_walls(self.impose(guess))
        return self.impose(guess)

    def smallest_singular_value(self) -> Tensor | None:
        """A proven lower bound on the singular values of ∂F/∂u over what is solved for, if any."""
        known = self.grid, self.inputs, self.fixed_inside
        return self.equation.smallest_singular_value(*known)

    def preconditioned_residual(self, residual: Tensor) -> Tensor:
        """A residual as it is measured: L⁻¹r in the units of the error where L⁻¹ is known, or r.

        Of several fields each is measured in its own unit, so that none hides behind another.
        """
        integrated = self.equation.invert_linear_part(residual)
        return self.in_field_units(residual) if integrated is None else integrated

    def in_field_units(self, residual: Tensor) -> Tensor:
        """A residual with each of several fields in its own unit; that of one field as it is."""
        return residual if self.space.scalar else residual / self.field_units

    @cached_property
    def field_units(self) -> Tensor:
        """The unit of the residual of each of several fields, (batch, field, 1, …)."""
        return field_units(self)

    @property
    def varies(self) -> bool:
        """Whether its solution is asked for as a differentiable function of something."""
        parts = (self.inputs, *self.equation.varying)
        known = () if self.fixed is None else (self.fixed.values,)
        return torch.is_grad_enabled() and any(part.requires_grad for part in (*parts, *known))

    def detached(self) -> Problem:
        """The same with numbers that depend on nothing."""
        known = self.fixed and FixedValues(self.fixed.mask, self.fixed.values.detach())
        equation = self.equation.with_plain_constants()
        return self._with(equation=equation, inputs=self.inputs.detach(), fixed=known)

    def holding(self, mask: npt.ArrayLike | None, values: npt.ArrayLike | float) -> Problem:
        """The same with u known on the walls and where `mask` is true, from a field of values."""
        known = with_walls(self.space, values)
        if mask is not None:
            field = real_tensor("values", values)
            inside = FixedValues(
                mask, field.expand(np.broadcast_shapes(field.shape, np.shape(mask)))
            )
            known = with_walls(self.space, values, inside)
        held = Problem(self.equation, self.inputs, fixed=known, grid=self.grid)
        object.__setattr__(held, "_given", self._given)  # type: ignore[attr-defined]
        return held

    def select(self, index: Tensor | Sequence[int] | slice) -> Problem:
        """The sub-batch at `index`; its answers are tensors of shape (batch, field, x, y)."""
        inputs = self.inputs[index]
        if inputs.dim() < self.inputs.dim():  # one number
            return self.select([int(index)])  # type: ignore[arg-type]
        if not len(inputs):
            names = " and ".join(self.equation.input_names)
            raise InvalidInput(names, "at least one sample", tuple(inputs.shape))
        known = self.fixed and FixedValues(self.fixed.mask[index], self.fixed.values[index])
        return self._with(inputs=inputs, fixed=known, _given=(False, 2))

    def in_precision(self, dtype: torch.dtype) -> Problem:
        """The same problem in another precision, to be restored as it was given."""
        if dtype == self.inputs.dtype:
            return self
        largest_number = torch.finfo(dtype).max
        if largest_number < torch.finfo(self.inputs.dtype).max:
            fields = [self.inputs] if self.fixed is None else [self.inputs, self.fixed.values]
            size = max(float(field.abs().max()) for field in fields)
            if size > largest_number:
                expected = f"one that holds the inputs and fixed values, as large as {size:.2g}"
                raise InvalidInput("precision", expected, dtype)
        return self._moved(self.inputs.to(dtype))

    def on(self, device: torch.device) -> Problem:
        """The same problem on another device, to be restored as it was given."""
        return self if device == self.inputs.device else self._moved(self.inputs.to(device))

    def natural(self) -> tuple[Problem, Units] | None:
        """The same with numbers and sides of ordinary size, and the units of that."""
        length = 2.0 ** round(math.log2(self.mean_length))
        found = None if length == 1.0 else self.equation.in_lengths(length)
        equation, sigma = found or (self.equation, 1.0)
        none = torch.zeros(self.batch, dtype=torch.long, device=self.inputs.device)
        exponent, fixed = none + round(math.log2(sigma)), self.fixed
        size = none.double() if fixed is None else largest(scaled(fixed.values, -exponent))
        units = equation.natural_units(self.inputs, size)
        if units is None and found is None:
            return None
        if units is None:
            units = Units(equation, self.inputs, none, none)
        grid, units = self.grid, replace(units, solution=exponent + units.solution)
        if found is not None:
            grid = replace(grid, lengths=tuple(side / length for side in grid.lengths))
        if fixed is not None:
            fixed = FixedValues(fixed.mask, scaled(fixed.values, -units.solution))
        return Problem(units.equation, units.inputs, fixed=fixed, grid=grid), units

    @property
    def mean_length(self) -> float:
        """The geometric mean of the sides; 1 on the grid that the equation is stated on."""
        if self.on_native_grid:
            return 1.0
        return math.prod(self.grid.lengths) ** (1 / self.grid.dimension)

    @cached_property
    def network_unit(self) -> Tensor | float:
        """How many times as large J⁻¹ is as that of the problems a network was trained on.

        Powers of two are out of it already; it multiplies a field, and divides a u that is read.
        """
        unit, sigma = self.equation.network_unit(self.inputs), self.mean_length**2
        if unit is None:
            return sigma
        return sigma * unit.to(self.inputs).view(-1, *[1] * (self.inputs.dim() - 1))

    def coarsened(self, grid: Grid) -> Problem:
        """The same problem with its inputs averaged to a coarser grid between walls."""
        known = None
        if self.fixed is not None:
            if self.fixed_inside:
                got = "values that are known inside"
                raise InvalidInput("grid", "the one on which values are known", got)
            values = self.grid.prolong(self.fixed.values, grid)
            known = FixedValues(grid.on_wall.to(values.device), values)
        return Problem(self.equation, self.grid.coarsen(self.inputs, grid), fixed=known, grid=grid)

    def resampled(self, grid: Grid) -> Problem:
        """The same problem on another torus."""
        return Problem(self.equation, self.grid.resample(self.inputs, grid))

    def restore(self, u: Tensor) -> Any:
        """u in the kind and layout in which the inputs were given."""
        as_numpy, batched = self._given  # type: ignore[attr-defined]
        if is_complex(self.equation.unknowns):
            u = to_complex(u)
        single = u.shape[1] == 1
        if batched == 0:
            u = u[0, 0] if single else u[0]
        elif batched == 1:
            several = len(logical_names(self.equation.input_names)) > 1
            u = u[0] if several else (u[:, 0] if single else u)
        return u.detach().cpu().numpy() if as_numpy else u

    def adopt(self, u: Tensor | npt.ArrayLike) -> Tensor:
        """A field in the layout of the inputs, or of the solution, as an iterate: the inverse of
        `restore`, with the known values imposed."""
        given = real_tensor("u0", u, complex_too=True)
        shape = (self.batch, *self.equation.solution_shape(*self.grid.shape))
        restored = tuple(self.restore(self.inputs.new_zeros(shape)).shape)
        names = self.equation.unknowns
        if given.is_complex() and is_complex(names) and tuple(given.shape) == restored:
            pairs = (self.batch, len(names) // 2, *shape[2:])
            given, restored = to_real(names, given.reshape(pairs)), shape
        layouts = (shape, restored)
        if given.is_complex() or tuple(given.shape) not in layouts:
            expected = f"real values of shape {' or '.join(str(s) for s in dict.fromkeys(layouts))}"
            raise InvalidInput("u0", expected, f"{given.dtype}, {tuple(given.shape)}")
        field = given.to(self.inputs.device).reshape(shape)
        if not bool(torch.isfinite(field).all()):
            raise InvalidInput("u0", "finite values", "NaN or infinite values")
        return self.impose(field)

    def _moved(self, inputs: Tensor) -> Problem:
        """The same with its inputs in another precision or on another device."""
        inputs = real_tensor(" and ".join(self.equation.input_names), inputs)
        self.equation.check_inputs(inputs)  # a small positive number may have become zero
        known = self.fixed and self.fixed.spread(self.fixed.mask.shape, inputs)
        return self._with(inputs=inputs, fixed=known)

    def _with(self, **parts: Any) -> Problem:
        """The same with other parts, on the grid and in the space of this one; not checked again.

        Args:
            parts: Attributes that change. An equation differs in the values of its constants only.
        """
        changed = object.__new__(Problem)
        kept = {name: value for name, value in vars(self).items() if name not in DERIVED}
        vars(changed).update(kept, **parts)
        return changed


def _check_determined(problem: Problem) -> None:
    """Raise InvalidInput where nothing is to be solved, or nothing determines the solution."""
    known, grid = problem.fixed, problem.grid
    if known is not None:
        free = grid.interior(~known.mask).flatten(1).any(1)
        if not bool(free.all()):
            count = int((~free).sum())
            got = f"all points known in {count} of {len(free)} samples"
            raise InvalidInput("fixed", "at least one point that is not known", got)
    held = known is not None and bool(known.mask.flatten(1).any(1).all())
    if held or any(map(any, grid.walls)) or problem.equation.frames:
        return
    with torch.no_grad():
        zero = problem.zeros()
        change = problem.residual(torch.ones_like(zero)) - problem.residual(zero)
    if not bool(change.any()):
        expected = (
            "a wall or a known value in every sample: without, u + c solves it as well as u for "
            "any constant c, and nothing does unless the source has mean zero"
        )
        raise InvalidInput("sides", expected, "no wall and nothing known")
