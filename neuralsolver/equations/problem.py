"""A problem: an equation with its inputs, its grid, and what is known of its solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations.base import Equation, generator
from neuralsolver.equations.grid import Grid, Side
from neuralsolver.equations.known import Known, WallValues, with_walls
from neuralsolver.equations.units import Units, per_sample
from neuralsolver.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Problem:
    """An equation with its inputs, which may be numpy or torch, one field (n, n) or a batch.

    Its grid is the unit square between walls where u = 0, unless

        lengths   a rectangle or a box                                          lengths=(2, 1)
        sides     of every axis "walls", "flux" (none passes) or "periodic",
                  or a pair for its two ends                   sides=("walls", ("walls", "flux"))
        walls     u on the walls: a number, an array, or a function of the coordinates
        known     u anywhere

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
    known: Known | None
    square: bool
    """Whether the grid is that which the equation is stated on: the unit square, or the torus."""

    def __init__(
        self,
        equation: Equation,
        inputs: Tensor | npt.ArrayLike,
        *,
        known: Known | None = None,
        grid: Grid | None = None,
        lengths: Sequence[float] | None = None,
        sides: Sequence[Side] | None = None,
        walls: WallValues | None = None,
    ) -> None:
        as_numpy = not isinstance(inputs, Tensor)
        tensor = inputs if isinstance(inputs, Tensor) else _tensor_of(equation, inputs)
        asked = grid.shape if grid is not None else lengths or sides or (None,) * equation.dimension
        batched = tensor.dim() - len(asked)
        points = tuple(tensor.shape[-len(asked) :])
        if batched not in (0, 1, 2) or (equation.any_grid is False and len(set(points)) > 1):
            kind = "field" if equation.any_grid else "square field"
            expected = f"a {kind} ({', '.join('n' * len(asked))}) or a batch of them"
            raise InvalidInput(" and ".join(equation.input_names), expected, tuple(tensor.shape))
        if batched == 0:
            tensor = tensor[None, None]
        elif batched == 1:
            tensor = tensor[None] if len(equation.input_names) > 1 else tensor[:, None]
        if 0 in tensor.shape:
            expected = "at least one sample"
            raise InvalidInput(" and ".join(equation.input_names), expected, tuple(tensor.shape))
        equation.check_inputs(tensor)
        grid = grid or _grid_of(equation, points, lengths, sides)
        if grid.shape != points:
            raise InvalidInput("grid", f"{points}, as the inputs", grid.shape)
        if walls is not None:
            known = with_walls(grid, walls, known)
        object.__setattr__(self, "equation", equation)
        object.__setattr__(self, "inputs", tensor)
        object.__setattr__(self, "grid", grid)
        shape = (tensor.shape[0], *equation.solution_shape(*points))
        object.__setattr__(self, "known", known and known.spread(shape, tensor))
        object.__setattr__(self, "_given", (as_numpy, batched))
        square = len(points) == equation.dimension and grid == equation.grid(points[-1])
        object.__setattr__(self, "square", square)
        if not square or known is not None:
            _check_determined(self)

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
    def known_inside(self) -> bool:
        """Whether points are known that are not on a wall."""
        return self.known is not None and bool(self.grid.interior(self.known.mask).any())

    @property
    def free(self) -> Tensor:
        """Which points are solved for, as a field (batch, 1, …): neither on a wall nor known."""
        inside = ~self.grid.on_wall.to(self.inputs.device)
        free = inside.expand(self.batch, 1, *self.grid.shape)
        return free if self.known is None else free & ~self.known.mask

    @property
    def batch(self) -> int:
        return self.inputs.shape[0]

    def residual(self, u: Tensor) -> Tensor:
        """F(u; f), zero where u is known."""
        if self.square:
            residual = self.equation.residual(u, self.inputs)
        else:
            residual = self.equation.residual_on(self.grid, u, self.inputs)
        return residual if self.known is None else residual.masked_fill(self.known.mask, 0.0)

    def impose(self, u: Tensor) -> Tensor:
        """u with its known values."""
        u = self.equation.impose(u, self.inputs) if self.square else self.grid.zero_walls(u)
        return u if self.known is None else torch.where(self.known.mask, self.known.values, u)

    def zeros(self) -> Tensor:
        """The zero guess, with the known values imposed."""
        shape = (self.batch, *self.equation.solution_shape(*self.grid.shape))
        return self.impose(self.inputs.new_zeros(shape))

    def first_guess(self) -> Tensor:
        """The field one begins with; values on the walls are blended into it."""
        guess = self.equation.first_guess(self.inputs) if self.square else self.zeros()
        if self.known is None:
            return guess
        if any(map(any, self.grid.walls)) and not self.equation.frames:
            guess = guess + self.grid.spread_from_walls(self.impose(guess))
        return self.impose(guess)

    def smallest_singular_value(self) -> Tensor | None:
        """A proven lower bound on the singular values of ∂F/∂u over what is solved for, if any."""
        if self.square and not self.known_inside:
            return self.equation.smallest_singular_value(self.inputs)
        return self.equation.smallest_singular_value_on(self.grid, self.inputs)

    def measure(self, residual: Tensor) -> Tensor:
        """A residual as it is measured: L⁻¹r in the units of the error where L⁻¹ is known, or r."""
        integrated = self.equation.invert_linear_part(residual)
        return residual if integrated is None else integrated

    @property
    def varies(self) -> bool:
        """Whether its solution is asked for as a differentiable function of something."""
        parts = (self.inputs, *self.equation.varying)
        known = () if self.known is None else (self.known.values,)
        return torch.is_grad_enabled() and any(part.requires_grad for part in (*parts, *known))

    def detached(self) -> Problem:
        """The same with numbers that depend on nothing."""
        known = self.known and Known(self.known.mask, self.known.values.detach())
        equation = self.equation.with_plain_constants()
        fixed = Problem(equation, self.inputs.detach(), known=known, grid=self.grid)
        object.__setattr__(fixed, "_given", self._given)  # type: ignore[attr-defined]
        return fixed

    def holding(self, mask: npt.ArrayLike | None, values: npt.ArrayLike | float) -> Problem:
        """The same with u known on the walls and where `mask` is true, from a field of values."""
        known = with_walls(self.grid, values)
        if mask is not None:
            inside = Known(mask, np.broadcast_to(np.asarray(values, float), np.shape(mask)))
            known = with_walls(self.grid, values, inside)
        held = Problem(self.equation, self.inputs, known=known, grid=self.grid)
        object.__setattr__(held, "_given", self._given)  # type: ignore[attr-defined]
        return held

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
        return Problem(units.equation, units.inputs, known=known, grid=self.grid)

    def in_lengths(self, length: float) -> tuple[Problem, float]:
        """The same with lengths measured in `length`, and the unit σ of its solution."""
        equation, sigma = self.equation.in_lengths(length)
        lengths = tuple(side / length for side in self.grid.lengths)
        known = self.known and Known(self.known.mask, self.known.values / sigma)
        grid = replace(self.grid, lengths=lengths)
        return Problem(equation, self.inputs, known=known, grid=grid), sigma

    def natural(self) -> tuple[Problem, Units] | None:
        """The same with numbers of ordinary size and sides of length one, and the units of that."""
        mean = math.prod(self.grid.lengths) ** (1 / self.grid.dimension)
        inner, sigma = (self, 1.0) if self.square or mean == 1.0 else self.in_lengths(mean)
        units = inner.equation.natural_units(inner.inputs)
        if units is not None:
            return inner.in_units(units), replace(units, solution=sigma * units.solution)
        if inner is self:
            return None
        one = torch.ones(self.batch, dtype=torch.float64, device=self.inputs.device)
        return inner, Units(inner.equation, inner.inputs, sigma * one, one)

    def coarsened(self, grid: Grid) -> Problem:
        """The same problem with its inputs averaged to a coarser grid between walls."""
        known = None
        if self.known is not None:
            if self.known_inside:
                got = "values that are known inside"
                raise InvalidInput("grid", "the one on which values are known", got)
            values = self.grid.prolong(self.known.values, grid)
            known = Known(grid.on_wall.to(values.device), values)
        return Problem(self.equation, self.grid.coarsen(self.inputs, grid), known=known, grid=grid)

    def resampled(self, grid: Grid) -> Problem:
        """The same problem on another torus."""
        return Problem(self.equation, self.grid.resample(self.inputs, grid))

    def restore(self, u: Tensor) -> Any:
        """u in the kind and layout in which the inputs were given."""
        as_numpy, batched = self._given  # type: ignore[attr-defined]
        if batched == 0:
            u = u[0, 0]
        elif batched == 1:
            u = u[0] if len(self.equation.input_names) > 1 else u[:, 0]
        return u.detach().cpu().numpy() if as_numpy else u

    def adopt(self, u: Tensor | npt.ArrayLike) -> Tensor:
        """A field in the layout of the inputs, or of the solution, as an iterate: the inverse of
        `restore`, with the known values imposed."""
        given = torch.as_tensor(np.asarray(u) if not isinstance(u, Tensor) else u)
        shape = (self.batch, *self.equation.solution_shape(*self.grid.shape))
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
        return Problem(self.equation, inputs, known=known, grid=self.grid)


def _grid_of(
    equation: Equation,
    points: tuple[int, ...],
    lengths: Sequence[float] | None,
    sides: Sequence[Side] | None,
) -> Grid:
    """The grid that is asked for; that of the equation unless something is."""
    stated = len(set(points)) == 1 and len(points) == equation.dimension
    if lengths is None and sides is None and stated:
        return equation.grid(points[0])
    if not equation.any_grid:
        asked = f"{points}, lengths {lengths}, sides {sides}"
        raise InvalidInput("grid", f"the unit square, which is all {equation.name} knows", asked)
    return Grid.with_sides(points, lengths, sides or ("walls",) * len(points))


def _check_determined(problem: Problem) -> None:
    """Raise InvalidInput where nothing is to be solved, or nothing determines the solution."""
    known, grid = problem.known, problem.grid
    if known is not None:
        free = grid.interior(~known.mask).flatten(1).any(1)
        if not bool(free.all()):
            count = int((~free).sum())
            got = f"all points known in {count} of {len(free)} samples"
            raise InvalidInput("known", "at least one point that is not known", got)
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
