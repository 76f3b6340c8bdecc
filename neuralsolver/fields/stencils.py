"""Second-order finite differences on the points of a `Grid`; here for a square between walls.

    (Δu)ᵢⱼ        = (uᵢ₊₁ⱼ + uᵢ₋₁ⱼ + uᵢⱼ₊₁ + uᵢⱼ₋₁ − 4uᵢⱼ) / h²
    (∇·a∇u)ᵢⱼ     = Σ over the four faces of (mean of a at the face's ends) · (uₙ − uᵢⱼ) / h²
    wide variant  = D(a Du) with the central difference D over 2h, as in PINO: spacing 2h, blind to
                    the checkerboard mode, defined two points away from the wall

Beyond a mirror stands the image of u (and of a), beyond the end of a ring its beginning: the same
formulas then hold at the ends. All return the shape of u, zero where the stencil does not fit.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from neuralsolver.fields.grid import Grid, unit_grid


def interior(u: Tensor, width: int = 1) -> Tensor:
    """The grid points at least `width` away from the walls.

    >>> import torch
    >>> from neuralsolver.fields.stencils import interior
    >>> tuple(interior(torch.zeros(2, 1, 9, 9)).shape)
    (2, 1, 7, 7)
    """
    return u[..., width:-width, width:-width]


def from_interior(values: Tensor, width: int = 1) -> Tensor:
    """A full field that is zero on the outermost `width` points.

    >>> import torch
    >>> from neuralsolver.fields.stencils import from_interior
    >>> float(from_interior(torch.ones(7, 7)).sum())
    49.0
    """
    return pad(values, (width, width, width, width))


def laplacian(u: Tensor, grid: Grid | None = None) -> Tensor:
    """Δu by the second difference along each axis of a grid, the unit square unless given.

    >>> import neuralsolver as ns, torch
    >>> r = torch.linspace(0, 1, 9, dtype=torch.float64)
    >>> u = (r[:, None] ** 2).expand(9, 9)
    >>> float(ns.laplacian(u)[4, 4])
    2.0
    """
    grid = grid or unit_grid(False, *u.shape[-2:])
    v, rates, d = grid.surrounded(u), grid.rates, grid.dimension
    centre, axes = v[_inside(d)], range(-d, 0)
    if len(set(rates)) > 1:
        parts = (
            rate * (v[_inside(d, axis, 1)] + v[_inside(d, axis, -1)] - 2 * centre)
            for axis, rate in zip(axes, rates, strict=True)
        )
        return grid.embed(functools.reduce(torch.add, parts))
    beside = (v[_inside(d, axis, step)] for axis in axes for step in (1, -1))
    neighbours = functools.reduce(torch.add, beside)
    return grid.embed((neighbours - 2 * d * centre) * rates[0])


def laplacian_eigenvalues(grid: Grid | int) -> Tensor:
    """The eigenvalues of −Δ, one axis for each of the grid: sums of 4h⁻² sin²(θ/2).

    Along an axis of m intervals θ is, with p = 0, 1, 2 …:

        π(p+1)/m between walls,   πp/m between mirrors,   π(p+½)/m between one and the other,
        2πp/m on a ring
    """
    grid = Grid.between_walls(grid, grid) if isinstance(grid, int) else grid
    lines = []
    for n, rate, ring, (low, high) in zip(
        grid.shape, grid.rates, grid.periodic, grid.walls, strict=True
    ):
        p = torch.arange(n - low - high, dtype=torch.float64) + (low + high) / 2
        angle = math.pi * p / n if ring else math.pi * p / (2 * (n - 1))
        lines.append(4 * rate * torch.sin(angle) ** 2)
    return functools.reduce(torch.add, torch.meshgrid(*lines, indexing="ij"))


def mirror_factor(grid: Grid) -> float:
    """By how much a singular value may fall short of the eigenvalue: √2 for each axis with mirrors.

    −Δ = W⁻¹S with S symmetric and W the shares of the points, half at a mirror: it is symmetric
    after a change of scale of condition √2 along each such axis.
    """
    return math.sqrt(2.0) ** sum(any(ends) for ends in grid.mirrors)


def flux_divergence(a: Tensor, u: Tensor, grid: Grid | None = None) -> Tensor:
    """∇·(a∇u) in flux form with arithmetic face means; exact conservation, matched to solvers.

    >>> import neuralsolver as ns, torch
    >>> from neuralsolver.fields.stencils import flux_divergence
    >>> u = torch.rand(1, 1, 9, 9)
    >>> bool(torch.allclose(flux_divergence(torch.ones_like(u), u), ns.laplacian(u), atol=1e-3))
    True
    """
    grid = grid or unit_grid(False, *u.shape[-2:])
    a, u, rates = grid.surrounded(a), grid.surrounded(u), grid.rates
    even = len(set(rates)) == 1
    parts = []
    for axis, rate in zip(range(-grid.dimension, 0), rates, strict=True):
        # every point along this axis, the inside of the others
        line = list(_inside(grid.dimension))
        line[axis] = slice(None)
        b = a[tuple(line)]
        n = b.shape[axis]
        flux = (b.narrow(axis, 1, n - 1) + b.narrow(axis, 0, n - 1)) * torch.diff(
            u[tuple(line)], dim=axis
        )
        parts.append(torch.diff(flux, dim=axis) * (1.0 if even else rate / rates[0]))
    return grid.embed(functools.reduce(torch.add, parts) * (0.5 * rates[0]))


def central_difference(u: Tensor, axis: int, grid: Grid) -> Tensor:
    """∂u/∂rₐ by (uᵢ₊₁ − uᵢ₋₁) / 2h along one axis of a grid; zero across a mirror."""
    v, d = grid.surrounded(u), grid.dimension
    difference = v[_inside(d, axis, 1)] - v[_inside(d, axis, -1)]
    return grid.embed(difference * (0.5 / grid.spacing[axis]))


@functools.cache
def _inside(dimension: int, axis: int = 0, step: int = 0) -> tuple[Any, ...]:
    """The slices of the points inside a box, or of those one step further along an axis (−1 …)."""
    slices = [slice(1, -1)] * dimension
    if step:
        slices[axis] = slice(2, None) if step > 0 else slice(None, -2)
    return (..., *slices)


def wide_divergence(a: Tensor, u: Tensor) -> Tensor:
    """∇·(a∇u) as a central difference of a central difference."""
    centre = interior(a)
    across = centre * (u[..., 2:, 1:-1] - u[..., :-2, 1:-1])
    along = centre * (u[..., 1:-1, 2:] - u[..., 1:-1, :-2])
    divergence = (across[..., 2:, 1:-1] - across[..., :-2, 1:-1]) + (
        along[..., 1:-1, 2:] - along[..., 1:-1, :-2]
    )
    return from_interior(divergence * (0.25 * (u.shape[-1] - 1) ** 2), 2)
