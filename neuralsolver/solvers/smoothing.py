"""Smoothing: a few cheap sweeps that damp what oscillates from point to point.

    u ← u − ω D⁻¹F(u),    D = diag J,    ω⁻¹ = 5/4 + 3/4 cos(π(j − ½)/s),   j = 1 … s

Of several fields D holds the small block of J at each point (block Jacobi).
With these Chebyshev weights s sweeps damp the upper three quarters [½, 2] of the spectrum of D⁻¹J
of a five-point operator by 1/T_s(5/3): 0.22, 0.07, 0.025 for s = 2, 3, 4. What is left is smooth,
and its residual is no longer hidden under the large residual of small oscillations. In three
dimensions what oscillates along one axis alone begins at ⅓: the weights are those of [⅓, 2], and
the factors 0.34, 0.15, 0.06.

Where the same J is applied many times (`multilevel`), it is written out once as a few diagonals,
four beside D for a five-point operator: with the field as one long row and (Sₖe)ₓ = eₓ₊ₖ,

    J = D (1 − Σₖ cₖSₖ),    ê = Σₖ cₖSₖe − D⁻¹r,    e ← (1 − ω) e + ω ê

where ê solves Je = −r at each point with its neighbours held: a few passes over contiguous memory.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.fields.jacobian import divide_by_blocks, jacobian_blocks, linearisation


def chebyshev_weights(sweeps: int, dimension: int = 2) -> list[float]:
    """The weights ω of s sweeps in d dimensions."""
    middle, half = 1 + 0.5 / dimension, 1 - 0.5 / dimension
    return [1 / (middle + half * math.cos(math.pi * (j + 0.5) / sweeps)) for j in range(sweeps)]


def smooth(
    problem: Problem, u: Tensor, residual: Tensor, blocks: Tensor, weights: list[float]
) -> tuple[Tensor, Tensor]:
    """u after the sweeps, and its residual."""
    for weight in weights:
        u = u - divide_by_blocks(weight * residual, blocks)
        residual = problem.residual(u)
    return u, residual


@dataclass(frozen=True)
class Stencil:
    """J as its diagonal D, D⁻¹ (zero where nothing is solved) and the cₖ by their shift k.

    All of them have one row per sample, or a single one for all samples.
    """

    diagonal: Tensor
    inverse: Tensor
    neighbours: dict[int, Tensor]

    def sweep(self, r: Tensor, weights: list[float], e: Tensor | None = None) -> Tensor:
        """e (or zero) after the sweeps on Je = −r."""
        target = -self.inverse * r
        if e is None:  # then ê is the target itself
            e, weights = weights[0] * target, weights[1:]
        for weight in weights:
            e = torch.lerp(e, self._add_neighbours(target.clone(), e), weight)
        return e

    def apply(self, e: Tensor) -> Tensor:
        """Je."""
        return (e - self._add_neighbours(torch.zeros_like(e), e)).mul_(self.diagonal)

    def select(self, mask: Tensor) -> Stencil:
        """Some of the samples."""
        if len(self.diagonal) == 1:
            return self
        neighbours = {shift: values[mask] for shift, values in self.neighbours.items()}
        return Stencil(self.diagonal[mask], self.inverse[mask], neighbours)

    def _add_neighbours(self, total: Tensor, e: Tensor) -> Tensor:
        """total + Σₖ cₖSₖe, in place; the first and the last points are wall and have no cₖ."""
        row, margin = e.flatten(1), max(self.neighbours, default=0)
        end = row.shape[1] - margin
        inside = total.view(row.shape)[:, margin:end]
        for shift, coefficient in self.neighbours.items():
            inside.addcmul_(coefficient, row[:, margin + shift : end + shift])
        return total


@dataclass(frozen=True)
class BlockStencil:
    """J(u) of several fields as a product, with its block D at each point."""

    problem: Problem
    u: Tensor

    @functools.cached_property
    def apply(self) -> Callable[[Tensor], Tensor]:
        """e → Je."""
        return _responses(self.problem, self.u)

    @functools.cached_property
    def blocks(self) -> Tensor:
        """D as `jacobian_blocks` has it."""
        return jacobian_blocks(self.problem, self.u)

    def sweep(self, r: Tensor, weights: list[float], e: Tensor | None = None) -> Tensor:
        """e (or zero) after the sweeps on Je = −r."""
        for weight in weights:
            left = r if e is None else r + self.apply(e)
            change = divide_by_blocks(-weight * left, self.blocks)
            e = change if e is None else e + change
        return torch.zeros_like(r) if e is None else e

    def select(self, mask: Tensor) -> BlockStencil:
        """Some of the samples."""
        return BlockStencil(self.problem.select(mask), self.u[mask])


Entries = dict[tuple[int, ...], Tensor]
"""The values of J by the offset between a point and the one it looks at."""

FAITHFUL = 1e-3
"""How far a product with a star may be from that with J; sweeps need no more."""


def stencil(problem: Problem, u: Tensor) -> Stencil | BlockStencil:
    """J(u) written out, once for all samples where it is the same for all."""
    if not problem.space.scalar:
        return BlockStencil(problem, u)
    if not problem.equation.jacobian_depends_on and problem.fixed is None:
        problem, u = problem.select([0]), u[:1]
    if problem.equation.stencil_reach == 1:
        found = _written(problem.grid.shape, _star(problem, u))
        if _faithful(found, problem, u):
            return found
    return _written(problem.grid.shape, _box(problem, u))


def _written(shape: tuple[int, ...], entries: Entries) -> Stencil:
    diagonal = entries.pop((0,) * len(shape))
    inverse = torch.where(diagonal == 0, 0.0, 1 / diagonal)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    present = {
        sum(o * step for o, step in zip(offset, steps, strict=True)): entry
        for offset, entry in entries.items()
        if bool(entry.any())
    }
    margin = max(present, default=0)
    neighbours = {
        shift: (-inverse * entry).flatten(1)[:, margin : math.prod(shape) - margin].contiguous()
        for shift, entry in present.items()
    }
    return Stencil(diagonal, inverse, neighbours)


def _star(problem: Problem, u: Tensor) -> Entries:
    """J(u), if a point looks at nothing but its nearest neighbours along the axes.

    With the colour Σₖ k xₖ modulo 2d+1 a point and its 2d neighbours have all colours once.
    """
    shape, colours = problem.grid.shape, 2 * problem.grid.dimension + 1
    lines = [torch.arange(n, device=u.device) * (k + 1) for k, n in enumerate(shape)]
    colour = functools.reduce(torch.add, torch.meshgrid(*lines, indexing="ij")) % colours
    respond = _responses(problem, u)
    responses = torch.stack([respond((colour == c).to(u).expand(u.shape)) for c in range(colours)])
    entries = {}
    for axis in (None, *range(len(shape))):
        for step in (0,) if axis is None else (1, -1):
            offset = tuple(step if k == axis else 0 for k in range(len(shape)))
            looked_at = (colour + step * (0 if axis is None else axis + 1)) % colours
            index = looked_at.expand(1, *u.shape)
            entries[offset] = responses.gather(0, index)[0]
    return entries


def _box(problem: Problem, u: Tensor) -> Entries:
    """J(u) of any stencil within its reach, by the probing of `fields.jacobian`."""
    reach, dimension = problem.equation.stencil_reach, problem.grid.dimension
    period = 2 * reach + 1
    respond = _responses(problem, u)
    offsets = itertools.product(range(-reach, reach + 1), repeat=dimension)
    entries = {offset: torch.zeros_like(u) for offset in offsets}
    for colour in itertools.product(range(period), repeat=dimension):
        probe = torch.zeros_like(u)
        probe[_every(period, colour)] = 1.0
        response = respond(probe)
        for offset, entry in entries.items():
            # the points whose neighbour at this offset has this colour
            here = _every(period, [c - o for c, o in zip(colour, offset, strict=True)])
            entry[here] = response[here]
    return entries


def _responses(problem: Problem, u: Tensor) -> Callable[[Tensor], Tensor]:
    """J(u) of a probe of ones."""
    jacobian = linearisation(problem, u)
    # a probe too small beside the source would be lost in F(probe) − F(0)
    size = float(problem.residual(torch.zeros_like(u)).abs().max()) or 1.0
    return lambda probe: jacobian(size * probe) / size


def _faithful(found: Stencil, problem: Problem, u: Tensor) -> bool:
    """Whether what was written out is J(u), by its product with an arbitrary field."""
    random = torch.Generator(u.device).manual_seed(0)
    field = torch.rand(u.shape, generator=random, dtype=u.dtype, device=u.device) - 0.5
    field = problem.grid.zero_walls(field)
    product = _responses(problem, u)(field)
    far = (found.apply(field) - product).abs().amax()
    return bool(far <= FAITHFUL * product.abs().amax())


def _every(period: int, first: Sequence[int]) -> tuple[Any, ...]:
    """The points of one colour along every axis."""
    return (..., *(slice(start % period, None, period) for start in first))
