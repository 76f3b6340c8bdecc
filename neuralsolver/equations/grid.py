"""The points of a problem: a box of points, each axis between walls or closed to a ring.

    between walls    rᵢ = i h,  i = 0 … n−1,  h = L/(n−1)     the walls are points
    torus            rᵢ = i h,  i = 0 … n−1,  h = L/n         the right end is the left one

Fields carry these axes last; whatever stands before them (batch, fields, frames) is left alone.

From grid to grid, with P the (bi-, tri-) linear interpolation from a coarser grid, walls on walls:

    prolong      P u                     a correction, to a finer grid
    restrict     (h/H)ᵈ Pᵀ r             a residual, to a coarser grid; zero on the walls
    coarsen      restrict / restrict 1   a coefficient or a source: a local mean, up to the walls
    resample     the modes both grids have                                  fields on the torus
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from neuralsolver.equations import fourier
from neuralsolver.errors import InvalidInput

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True)
class Grid:
    """A box of `shape` points and `lengths`; `periodic` says which axes are closed to a ring.

    >>> import neuralsolver as ns
    >>> ns.Grid.between_walls(5, 9).spacing, ns.Grid.torus(4).spacing
    ((0.25, 0.125), (0.25,))
    """

    shape: tuple[int, ...]
    lengths: tuple[float, ...]
    periodic: tuple[bool, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.shape) <= 3:
            raise InvalidInput("grid", "one to three axes", self.shape)
        if not len(self.shape) == len(self.lengths) == len(self.periodic):
            got = f"{self.shape}, {self.lengths} and {self.periodic}"
            raise InvalidInput("grid", "points, length and kind of every axis", got)
        if min(self.shape) < 3:
            raise InvalidInput("grid", "at least 3 points along every axis", self.shape)
        if not all(math.isfinite(length) and length > 0 for length in self.lengths):
            raise InvalidInput("lengths", "positive finite numbers", self.lengths)

    @classmethod
    def between_walls(cls, *shape: int, lengths: tuple[float, ...] | None = None) -> Grid:
        """A box with a wall at each end of every axis, of unit lengths unless given."""
        return cls(shape, lengths or (1.0,) * len(shape), (False,) * len(shape))

    @classmethod
    def torus(cls, *shape: int, lengths: tuple[float, ...] | None = None) -> Grid:
        """A box whose opposite ends are the same."""
        return cls(shape, lengths or (1.0,) * len(shape), (True,) * len(shape))

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

    @property
    def size(self) -> int:
        """The number of points that are not on a wall."""
        return math.prod(
            n if ring else n - 2 for n, ring in zip(self.shape, self.periodic, strict=True)
        )

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
        inside = tuple(slice(None) if ring else slice(1, -1) for ring in self.periodic)
        return u[(..., *inside)]

    def embed(self, values: Tensor) -> Tensor:
        """A field from its values that are not on a wall; zero on the walls."""
        margins = [0 if ring else 1 for ring in reversed(self.periodic)]
        return pad(values, [margin for axis in margins for margin in (axis, axis)])

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
        return interpolate(u, size=finer.shape, mode=mode, align_corners=True)

    def restrict(self, r: Tensor, coarser: Grid) -> Tensor:
        """A residual of this grid on a coarser one."""
        return coarser.zero_walls(self._weighted_adjoint(r, coarser))

    def coarsen(self, field: Tensor, coarser: Grid) -> Tensor:
        """A coefficient or source of this grid on a coarser one."""
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
            grids.append(Grid(shape, self.lengths, self.periodic))
        return grids

    def _weighted_adjoint(self, r: Tensor, coarser: Grid) -> Tensor:
        """(h/H)ᵈ Pᵀ r, one axis after the other."""
        weight = math.prod(h / big for h, big in zip(self.spacing, coarser.spacing, strict=True))
        for axis in range(-self.dimension, 0):
            r = _gather(r, axis, coarser.shape[axis])
        return weight * r


def _gather(r: Tensor, axis: int, points: int) -> Tensor:
    """Pᵀ along an axis: each value is shared by the two coarse points it was interpolated from."""
    n = r.shape[axis]
    position = torch.arange(n, dtype=torch.float64, device=r.device) * (points - 1) / (n - 1)
    lower = position.floor().clamp_max(points - 2).long()
    upper_share = (position - lower).to(r.dtype)[:, None]
    rows = r.transpose(axis, -2).contiguous()
    coarse = r.new_zeros(*rows.shape[:-2], points, rows.shape[-1])
    coarse.index_add_(-2, lower, (1 - upper_share) * rows)
    coarse.index_add_(-2, lower + 1, upper_share * rows)
    return coarse.transpose(axis, -2).contiguous()
