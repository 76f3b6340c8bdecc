"""The points of a problem: a box of points, each axis between two ends or closed to a ring.

    between ends     rᵢ = i h,  i = 0 … n−1,  h = L/(n−1)     the ends are points
    ring             rᵢ = i h,  i = 0 … n−1,  h = L/n         the right end is the left one

An end is a wall, where u is known, or a mirror, behind which u goes on as its own image: no flux
passes, and the points on it are unknowns like those inside.

Fields carry these axes last; whatever stands before them (batch, fields, frames) is left alone.

From grid to grid, with P the (bi-, tri-) linear interpolation from a coarser grid, walls on walls:

    prolong      P u                     a correction, to a finer grid
    restrict     w⁻¹ Pᵀ W r              a residual, to a coarser grid; zero on the walls
    coarsen      restrict / restrict 1   a coefficient or a source: a local mean, up to the walls
    resample     the modes both grids have                                  fields on the torus

W and w are the shares of the points (`weights`): hᵈ and Hᵈ, but half of it on a mirror.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from neuralsolver.errors import InvalidInput
from neuralsolver.fields import fourier

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}

LENGTHS = (1e-30, 1e30)
"""Sides of a box: 1/h⁴ and the sixth power of a length still are numbers of ordinary size."""

Side = str | tuple[str, str]
"""Both ends of an axis: "dirichlet", "neumann" (zero flux) or "periodic", or a pair of the first
two. "walls" and "flux" are older words for these."""

_OLDER_WORDS = {"walls": "dirichlet", "flux": "neumann"}


@dataclass(frozen=True)
class Grid:
    """A box of `shape` points and `lengths`; `periodic` says which axes are closed to a ring.

    `mirrors` says of every axis whether its lower and its upper end are mirrors, not walls.

    >>> from neuralsolver.fields.grid import Grid
    >>> Grid.between_walls(5, 9).spacing, Grid.torus(4).spacing
    ((0.25, 0.125), (0.25,))
    """

    shape: tuple[int, ...]
    lengths: tuple[float, ...]
    periodic: tuple[bool, ...]
    mirrors: tuple[tuple[bool, bool], ...] = ()

    def __post_init__(self) -> None:
        if not self.mirrors:
            object.__setattr__(self, "mirrors", ((False, False),) * len(self.shape))
        if not 1 <= len(self.shape) <= 3:
            raise InvalidInput("grid", "one to three axes", self.shape)
        if {len(self.lengths), len(self.periodic), len(self.mirrors)} != {len(self.shape)}:
            got = f"{self.shape}, {self.lengths} and {self.periodic}"
            raise InvalidInput("grid", "points, length and kind of every axis", got)
        if min(self.shape) < 3:
            raise InvalidInput("grid", "at least 3 points along every axis", self.shape)
        if not all(LENGTHS[0] <= length <= LENGTHS[1] for length in self.lengths):
            expected = f"positive finite numbers from {LENGTHS[0]:g} to {LENGTHS[1]:g}"
            raise InvalidInput("lengths", expected, self.lengths)

    @classmethod
    def between_walls(cls, *shape: int, lengths: tuple[float, ...] | None = None) -> Grid:
        """A box with a wall at each end of every axis, of unit lengths unless given."""
        return cls(shape, lengths or (1.0,) * len(shape), (False,) * len(shape))

    @classmethod
    def torus(cls, *shape: int, lengths: tuple[float, ...] | None = None) -> Grid:
        """A box whose opposite ends are the same."""
        return cls(shape, lengths or (1.0,) * len(shape), (True,) * len(shape))

    @classmethod
    def with_sides(
        cls, shape: Sequence[int], lengths: Sequence[float] | None, sides: Sequence[Side]
    ) -> Grid:
        """A box of which every axis has its own kind of ends."""
        pairs = [tuple(side) if isinstance(side, list | tuple) else (side, side) for side in sides]
        pairs = [tuple(_OLDER_WORDS.get(str(word), word) for word in pair) for pair in pairs]
        for pair in pairs:
            both = len(pair) == 2 and all(end in ("dirichlet", "neumann") for end in pair)
            if not (both or pair == ("periodic", "periodic")):
                expected = "for every axis dirichlet, neumann, periodic or a pair of the first two"
                if "absorbing" in pair:
                    expected += " (waves with absorbing sides: ns.Waves)"
                raise InvalidInput("sides", expected, sides)
        periodic = tuple(pair[0] == "periodic" for pair in pairs)
        mirrors = tuple((pair[0] == "neumann", pair[1] == "neumann") for pair in pairs)
        unit = (1.0,) * len(shape)
        return cls(tuple(shape), tuple(map(float, lengths or unit)), periodic, mirrors)

    @property
    def dimension(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def spacing(self) -> tuple[float, ...]:
        """h along each axis."""
        return tuple(
            length / (n if ring else n - 1)
            for n, length, ring in zip(self.shape, self.lengths, self.periodic, strict=True)
        )

    @functools.cached_property
    def rates(self) -> tuple[float, ...]:
        """h⁻² along each axis; a whole number where h = 1/m."""
        return tuple(
            ((n if ring else n - 1) / length) ** 2
            for n, length, ring in zip(self.shape, self.lengths, self.periodic, strict=True)
        )

    @functools.cached_property
    def walls(self) -> tuple[tuple[bool, bool], ...]:
        """Which ends of every axis are walls."""
        return tuple(
            (not (ring or low), not (ring or high))
            for ring, (low, high) in zip(self.periodic, self.mirrors, strict=True)
        )

    @functools.cached_property
    def walled(self) -> bool:
        """Whether there is a wall at each end of every axis."""
        return all(low and high for low, high in self.walls)

    @property
    def on_wall(self) -> Tensor:
        """Which points are on a wall."""
        inside = [n - a - b for n, (a, b) in zip(self.shape, self.walls, strict=True)]
        return self.embed(torch.ones(inside)) == 0

    @property
    def size(self) -> int:
        """The number of points that are not on a wall."""
        return math.prod(n - a - b for n, (a, b) in zip(self.shape, self.walls, strict=True))

    def points(self) -> tuple[Tensor, ...]:
        """The coordinates of all points, one field per axis, in float64."""
        lines = [
            h * torch.arange(n, dtype=torch.float64)
            for n, h in zip(self.shape, self.spacing, strict=True)
        ]
        return torch.meshgrid(*lines, indexing="ij")

    @property
    def weights(self) -> Tensor:
        """The share of the box that belongs to each point: the trapezoidal rule."""
        lines = []
        for n, h, ring in zip(self.shape, self.spacing, self.periodic, strict=True):
            line = torch.full((n,), h, dtype=torch.float64)
            if not ring:
                line[0] = line[-1] = h / 2
            lines.append(line)
        return functools.reduce(torch.Tensor.mul, torch.meshgrid(*lines, indexing="ij"))

    def interior(self, u: Tensor) -> Tensor:
        """The values that are not on a wall."""
        for axis, (low, high) in enumerate(self.walls, -len(self.shape)):
            u = u.narrow(axis, int(low), self.shape[axis] - low - high)
        return u

    def embed(self, values: Tensor) -> Tensor:
        """A field from its values that are not on a wall; zero on the walls."""
        return pad(values, [int(end) for axis in reversed(self.walls) for end in axis])

    def surrounded(self, u: Tensor) -> Tensor:
        """u with a further point beyond every end that is no wall: its image, or the other end.

        The interior of what is returned is then every point that is not on a wall.
        """
        for axis, (low, high) in zip(range(-self.dimension, 0), self.walls, strict=True):
            if low and high:
                continue
            n, ring = u.shape[axis], self.periodic[axis]
            before = [] if low else [u.narrow(axis, n - 1 if ring else 1, 1)]
            after = [] if high else [u.narrow(axis, 0 if ring else n - 2, 1)]
            u = torch.cat([*before, u, *after], axis)
        return u

    def spread_from_walls(self, u: Tensor) -> Tensor:
        """The values on the walls blended into the box: linear between opposite walls."""
        total, rest = torch.zeros_like(u), u
        for axis, (low, high) in zip(range(-self.dimension, 0), self.walls, strict=True):
            if not (low or high):
                continue
            n = u.shape[axis]
            first, last = rest.narrow(axis, 0, 1), rest.narrow(axis, n - 1, 1)
            share = torch.linspace(0, 1, n, dtype=u.dtype, device=u.device)
            share = share.view(-1, *[1] * (-1 - axis)) * (low and high)
            blend = torch.lerp(first if low else last, last, share)
            total, rest = total + blend, rest - blend
        return total

    def zero_walls(self, u: Tensor) -> Tensor:
        """u with its values on the walls set to zero."""
        return self.embed(self.interior(u))

    def flatten(self, u: Tensor) -> Tensor:
        """The unknowns of each sample as a vector (B, N), in C order."""
        return self.interior(u).flatten(1)

    def unflatten(self, vector: Tensor, like: Tensor) -> Tensor:
        """The field, shaped as `like`, whose unknowns are a vector (B, N)."""
        return self.embed(vector.to(like).view_as(self.interior(like)))

    def prolong(self, u: Tensor, finer: Grid) -> Tensor:
        """u (B, C, …) of this grid by linear interpolation on a finer one."""
        mode = _LINEAR[self.dimension]
        if not any(self.periodic):
            return interpolate(u, size=finer.shape, mode=mode, align_corners=True)
        rings = [(axis, ring) for axis, ring in enumerate(self.periodic, -self.dimension) if ring]
        for axis, _ in rings:
            u = torch.cat([u, u.narrow(axis, 0, 1)], axis)
        size = [n + ring for n, ring in zip(finer.shape, self.periodic, strict=True)]
        u = interpolate(u, size=size, mode=mode, align_corners=True)
        for axis, _ in rings:
            u = u.narrow(axis, 0, finer.shape[axis])
        return u

    def restrict(self, r: Tensor, coarser: Grid) -> Tensor:
        """A residual of this grid on a coarser one."""
        if self.walled:
            return coarser.zero_walls(self._weighted_adjoint(r, coarser))
        return coarser.zero_walls(self._weighted_mean(r, coarser))

    def coarsen(self, field: Tensor, coarser: Grid) -> Tensor:
        """A coefficient or source of this grid on a coarser one."""
        if not self.walled:
            return self._weighted_mean(field, coarser)
        weight = self._weighted_adjoint(torch.ones_like(field[:1, :1]), coarser)
        return self._weighted_adjoint(field, coarser) / weight

    def resample(self, u: Tensor, other: Grid) -> Tensor:
        """u by the modes that this torus and another have."""
        return fourier.resample(u, other.shape[-1])

    def ladder(self, coarsest: Grid) -> list[Grid]:
        """This grid, others of about half the points each, and the coarsest."""
        grids = [self]
        while any(n > m for n, m in zip(grids[-1].shape, coarsest.shape, strict=True)):
            halves = zip(grids[-1].shape, coarsest.shape, strict=True)
            shape = tuple(max(m, (n + 1) // 2) for n, m in halves)
            grids.append(replace(self, shape=shape))
        return grids

    def _weighted_mean(self, r: Tensor, coarser: Grid) -> Tensor:
        """w⁻¹ Pᵀ W r."""
        r = r * self.weights.to(r)
        for axis, ring in enumerate(self.periodic, -self.dimension):
            r = _gather(r, axis, coarser.shape[axis], ring)
        return r / coarser.weights.to(r)

    def _weighted_adjoint(self, r: Tensor, coarser: Grid) -> Tensor:
        """(h/H)ᵈ Pᵀ r, one axis after the other."""
        weight = math.prod(h / big for h, big in zip(self.spacing, coarser.spacing, strict=True))
        for axis in range(-self.dimension, 0):
            r = _gather(r, axis, coarser.shape[axis])
        return weight * r


@functools.lru_cache(maxsize=64, typed=True)
def unit_grid(periodic: bool, *shape: int) -> Grid:
    """The grid of so many points in the unit box; the same object every time.

    Args:
        periodic: Whether all axes are periodic; otherwise all their ends are Dirichlet ends.
        shape: Points along every axis.
    """
    return Grid(shape, (1.0,) * len(shape), (periodic,) * len(shape))


def _gather(r: Tensor, axis: int, points: int, ring: bool = False) -> Tensor:
    """Pᵀ along an axis: each value is shared by the two coarse points it was interpolated from."""
    n = r.shape[axis]
    scale = (points, n) if ring else (points - 1, n - 1)
    position = torch.arange(n, dtype=torch.float64, device=r.device) * scale[0] / scale[1]
    lower = position.floor().clamp_max(points - 1 if ring else points - 2).long()
    upper_share = (position - lower).to(r.dtype)[:, None]
    rows = r.transpose(axis, -2).contiguous()
    coarse = r.new_zeros(*rows.shape[:-2], points, rows.shape[-1])
    coarse.index_add_(-2, lower, (1 - upper_share) * rows)
    coarse.index_add_(-2, (lower + 1) % points, upper_share * rows)
    return coarse.transpose(axis, -2).contiguous()
