"""Geometric multigrid for any symmetric matrix over the points of a box, by the Galerkin rule.

    A_c = Pᵀ A P

Along each axis the coarse points are every second fine one and the last; P interpolates linearly
between them, by their distances, so that an even number of points needs no other grid. Points that
are known are no unknowns on any level: their rows of P are empty, and coarse points on them are
dropped. What is left of walls thinner than a coarse grid can show is in A_c, which is the best
operator on what P can represent: a coarse correction never increases the energy ½⟨e, Ae⟩ − ⟨r, e⟩.

An axis is halved as long as its spacing is not much larger than the smallest: long boxes become
square before they become small, and point smoothing suffices. Smoothing is damped Jacobi with the
weights of Chebyshev for the upper part of the spectrum of D⁻¹A, the same before and after, so that
a cycle is a symmetric operator and may precondition conjugate gradients.

Where something better than further levels is at hand for grids of a certain size (a corrector that
was trained on one), it stands `below` them.

Cycles run in float32 on a residual of unit size: only the search is shaped by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neuralsolver.solvers.sparse_newton import factorised

Array = npt.NDArray[Any]
Points = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

COARSEST = 400
"""Unknowns that a sparse factorisation solves faster than another level would."""
STRETCHED = 1.6
"""An axis this many times coarser than the finest waits for the others."""
SWEEPS = 3
SPECTRUM = (0.4, 2.0)
"""What the sweeps damp of the spectrum of D⁻¹A. Galerkin operators of nine points end below 1.6,
those of five at 2."""


@dataclass(frozen=True)
class Axis:
    """The coordinates of the points along an axis, its length if it is a ring, and its walls."""

    points: Points
    ring: float = 0.0
    walls: tuple[bool, bool] = (True, True)

    @property
    def spacing(self) -> float:
        """The largest distance between neighbours."""
        return float(np.diff(self.points).max())

    def inside(self) -> slice:
        """The points that are not on a wall."""
        return slice(int(self.walls[0]), len(self.points) - int(self.walls[1]))

    def coarsened(self) -> tuple[Axis, Any]:
        """Every second point and the last, and the interpolation between what is not on a wall."""
        n = len(self.points)
        chosen = np.arange(0, n, 2)
        if not self.ring and n % 2 == 0:
            chosen = np.append(chosen, n - 1)
        coarse = Axis(self.points[chosen], self.ring, self.walls)
        number = np.full(n, -1)
        number[chosen] = np.arange(len(chosen))
        between = np.flatnonzero(number < 0)
        left, right = between - 1, (between + 1) % n
        ahead = np.where(right > left, self.points[right], self.points[right] + self.ring)
        share = (self.points[between] - self.points[left]) / (ahead - self.points[left])
        rows = np.concatenate([chosen, between, between])
        columns = np.concatenate([number[chosen], number[left], number[right]])
        values = np.concatenate([np.ones(len(chosen)), 1 - share, share])
        whole = sparse.csr_array((values, (rows, columns)), shape=(n, len(chosen)))
        return coarse, whole[self.inside()][:, coarse.inside()]


Answer = Callable[[Array], Array]
"""r → an approximation of A⁻¹r for the columns r of a matrix, in float32."""


class CoarseSolver(Protocol):
    """What answers on the first grid that has no more than `points` along any axis."""

    @property
    def points(self) -> int: ...

    def __call__(self, matrix: Any, shape: tuple[int, ...], places: Places) -> Answer:
        """Of a matrix over some of the points of a grid, whose `places` in it are in C order."""


@dataclass(frozen=True)
class Level:
    """An operator, its weighted inverse diagonal for every sweep, and the way to the next level."""

    matrix: Any
    weighted: list[Array]
    down: Any = None
    up: Any = None

    def smooth(self, r: Array, e: Array | None = None) -> Array:
        """e (or zero) after the sweeps on Ae = r."""
        for weight in self.weighted:
            e = weight * r if e is None else e + weight * (r - self.matrix @ e)
        assert e is not None
        return e


class Multigrid:
    """V-cycles for a matrix over the points of `axes` that are not on a wall, in C order.

    `free` says which of these are unknowns. The matrix has to be symmetric for the cycle to be so;
    it need not be definite, but then a Krylov method has to stand around the cycle.
    """

    def __init__(
        self,
        matrix: Any,
        axes: Sequence[Axis],
        free: npt.NDArray[np.bool_],
        below: CoarseSolver | None = None,
    ) -> None:
        self.free, self.size = free, len(free)
        kept = np.flatnonzero(free)
        matrix = sparse.csr_array(matrix)
        if len(kept) < len(free):
            matrix = matrix[kept][:, kept]
        self.levels: list[Level] = []
        while len(kept) > COARSEST:
            if below is not None and max(len(axis.points) for axis in axes) <= below.points:
                self.coarsest: Answer = below(matrix, *_placed(axes, kept))
                return
            axes, prolongation = _coarsened(axes)
            prolongation, free = _masked(prolongation, free, kept)
            if prolongation.shape[1] in (0, prolongation.shape[0]):
                break
            down = sparse.csr_array(prolongation.T)
            self.levels.append(level(matrix, down, prolongation))
            matrix = sparse.csr_array(down @ matrix @ prolongation)
            kept = np.flatnonzero(free)
        factors = factorised(matrix)
        self.coarsest = lambda r: np.asarray(factors(r.astype(np.float64))).astype(np.float32)

    def solve(self, r: Array) -> Array:
        """One V-cycle: an approximation of A⁻¹r, for a vector or for the columns of a matrix."""
        columns = r.reshape(self.size, -1)[self.free]
        size = np.sqrt(np.square(columns).sum(0))
        size[size == 0] = 1.0
        e = np.zeros((self.size, columns.shape[1]))
        e[self.free] = self._cycle(0, (columns / size).astype(np.float32)) * size
        return e.reshape(r.shape)

    def _cycle(self, index: int, r: Array) -> Array:
        if index == len(self.levels):
            return self.coarsest(r)
        here = self.levels[index]
        e = here.smooth(r)
        e += here.up @ self._cycle(index + 1, here.down @ (r - here.matrix @ e))
        return here.smooth(r, e)


def _coarsened(axes: Sequence[Axis]) -> tuple[list[Axis], Any]:
    """The axes of the next grid, and the interpolation from it."""
    finest = min(axis.spacing for axis in axes)
    coarse: list[Axis] = []
    prolongation: Any = sparse.csr_array(np.ones((1, 1)))
    for axis in axes:
        if axis.spacing <= STRETCHED * finest and len(axis.points) > 4:
            new, line = axis.coarsened()
        else:
            new, line = axis, sparse.eye_array(len(axis.points[axis.inside()]), format="csr")
        coarse.append(new)
        prolongation = sparse.kron(prolongation, line, format="csr")
    return coarse, prolongation


def _masked(
    prolongation: Any, free: npt.NDArray[np.bool_], kept: npt.NDArray[np.int64]
) -> tuple[Any, npt.NDArray[np.bool_]]:
    """The interpolation between unknowns, and which coarse points are some.

    A coarse point is a fine one, of which its column of P holds the one entry that is 1.
    """
    if free.all():
        return prolongation, np.ones(prolongation.shape[1], dtype=bool)
    entries = prolongation.tocoo()
    itself = entries.data == 1.0
    own = np.zeros(prolongation.shape[1], dtype=bool)
    own[entries.col[itself]] = free[entries.row[itself]]
    return sparse.csr_array(prolongation[kept][:, np.flatnonzero(own)]), own


def _placed(axes: Sequence[Axis], kept: Places) -> tuple[tuple[int, ...], Places]:
    """The shape of a grid with its walls, and where in it the unknowns are."""
    shape = tuple(len(axis.points) for axis in axes)
    inside = np.arange(math.prod(shape)).reshape(shape)[tuple(axis.inside() for axis in axes)]
    return shape, inside.ravel()[kept]


def level(matrix: Any, down: Any = None, up: Any = None) -> Level:
    """A level with its sweeps, and the transfers to the next if there is one."""
    single = matrix.astype(np.float32)
    diagonal = matrix.diagonal()
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal != 0)
    weighted = [
        (weight * inverse).astype(np.float32)[:, None] for weight in chebyshev_weights(SWEEPS)
    ]
    if down is None:
        return Level(single, weighted)
    return Level(single, weighted, down.astype(np.float32), up.astype(np.float32))


def chebyshev_weights(sweeps: int) -> list[float]:
    """The weights of damped Jacobi for `SPECTRUM`."""
    low, high = SPECTRUM
    middle, half = (high + low) / 2, (high - low) / 2
    angles = (math.pi * (j + 0.5) / sweeps for j in range(sweeps))
    return [1 / (middle + half * math.cos(angle)) for angle in angles]
