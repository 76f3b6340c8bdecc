"""The unknown fields of a problem on its grid: one space for one field or for several.

    u ∈ V = V₁ × … × V_U        (batch, field, [frame,] x, y[, z])

A field has the boundary of the grid unless it declares its own. What is to be solved for are the
points that are not on a Dirichlet end of their field. As a vector the unknowns are interleaved,

    x = (u₁(r₁), …, u_U(r₁), u₁(r₂), …, u_U(r₂), …)

so that a Jacobian of several fields is the scalar pattern with small dense blocks, and its sparse
factors fill in no more than the blocks do.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from neuralsolver.fields.grid import Grid, Side


@dataclass(frozen=True)
class Field:
    """An unknown by its name.

    Args:
        name: How answers, pictures and messages call it.
        boundary: The kind of ends of every axis, as `Problem` takes them; that of the grid if None.

    >>> import neuralsolver as ns
    >>> ns.Field("temperature").name
    'temperature'
    """

    name: str
    boundary: Sequence[Side] | None = None


@dataclass(frozen=True)
class Space:
    """Several fields on one grid.

    Args:
        grid: The points.
        fields: The unknowns, in the order of the field axis.
        frames: The number of frames after the initial one; zero where nothing moves.

    >>> import neuralsolver as ns
    >>> from neuralsolver.fields.grid import Grid
    >>> space = ns.Space(Grid.between_walls(5, 5), (ns.Field("a"), ns.Field("b")))
    >>> space.shape, space.size
    ((2, 5, 5), 18)
    """

    grid: Grid
    fields: tuple[Field, ...]
    frames: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one solution, without the batch axis."""
        moving = (self.frames + 1,) if self.frames else ()
        return (len(self.fields), *moving, *self.grid.shape)

    @property
    def scalar(self) -> bool:
        """Whether there is one unknown field."""
        return len(self.fields) == 1

    @functools.cached_property
    def uniform(self) -> bool:
        """Whether all fields have the boundary of the grid."""
        own = any(field.boundary is not None for field in self.fields)
        return not own or all(grid == self.grid for grid in self.grids)

    @functools.cached_property
    def grids(self) -> tuple[Grid, ...]:
        """The grid of every field, with the ends of that field."""
        return tuple(
            self.grid
            if field.boundary is None
            else Grid.with_sides(self.grid.shape, self.grid.lengths, field.boundary)
            for field in self.fields
        )

    @functools.cached_property
    def unknown(self) -> Tensor:
        """Which values are solved for, (field, x, y[, z])."""
        return torch.stack([~grid.on_wall for grid in self.grids])

    @functools.cached_property
    def size(self) -> int:
        """The number of unknowns of one sample."""
        return int(self.unknown.sum())

    @property
    def interior_shape(self) -> tuple[int, ...]:
        """The points along each axis that are not on a Dirichlet end of the grid."""
        return tuple(self.grid.interior(torch.empty(self.grid.shape, device="meta")).shape)

    @functools.cached_property
    def _places(self) -> Tensor:
        """Where the unknowns are, among all values of one sample with the fields last."""
        return self.unknown.movedim(0, -1).flatten().nonzero()[:, 0]

    def zero_boundary(self, u: Tensor) -> Tensor:
        """u with zero on the Dirichlet ends of every field."""
        if self.uniform:
            return self.grid.zero_walls(u)
        parts = zip(u.unbind(1), self.grids, strict=True)
        return torch.stack([grid.zero_walls(part) for part, grid in parts], 1)

    def flatten(self, u: Tensor) -> Tensor:
        """The unknowns of each sample as a vector (batch, size), fields interleaved."""
        if self.scalar and self.uniform:
            return self.grid.flatten(u)
        return u.movedim(1, -1).flatten(1)[:, self._places.to(u.device)]

    def unflatten(self, vector: Tensor, like: Tensor) -> Tensor:
        """The fields, shaped and typed as `like`, whose unknowns are a vector (batch, size)."""
        if self.scalar and self.uniform:
            return self.grid.unflatten(vector, like)
        last = like.new_zeros((len(vector), *self.grid.shape, len(self.fields)))
        last.flatten(1)[:, self._places.to(like.device)] = vector.to(like)
        return last.movedim(-1, 1).contiguous()

    @functools.cached_property
    def weights(self) -> Tensor:
        """The quadrature weight of every unknown, (size,)."""
        return self.flatten(self.grid.weights.expand(1, *self.shape))[0]

    def probes(self, like: Tensor, period: int) -> Iterator[tuple[int, Tensor]]:
        """For each field and colour: the field's number and ones on its points of that colour.

        Points of one colour are `period` apart along every axis. Around a periodic axis the last
        points may need colours of their own.
        """
        lines = []
        for n, ring in zip(self.grid.shape, self.grid.periodic, strict=True):
            colours = torch.arange(n, device=like.device) % period
            if ring and n % period:
                rest = n % period
                colours[n - rest :] = period + torch.arange(rest, device=like.device)
            lines.append(colours)
        for colour in itertools.product(*(range(int(line.max()) + 1) for line in lines)):
            chosen = [(line == c).to(like) for line, c in zip(lines, colour, strict=True)]
            points = functools.reduce(torch.mul, torch.meshgrid(*chosen, indexing="ij"))
            for number in range(len(self.fields)):
                if self.scalar:
                    yield number, points.expand(like.shape)
                    continue
                probe = torch.zeros_like(like)
                probe[:, number] = points
                yield number, probe
