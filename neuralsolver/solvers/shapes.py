"""A corrector that reads shapes, under the V-cycles of finer grids.

`geometric_multigrid` coarsens a shape by the Galerkin rule: known points are no unknowns on any
grid, and walls that a coarse grid cannot show stay in its operator A. On the first grid as small as
the trained one the corrector stands in the place of all coarser grids:

    e ← sweeps(r),    e ← e + C(r − Ae),    e ← sweeps(r, e)

A Galerkin operator has nine points where the corrector was trained on five. What it reads of A is
therefore not the diagonal but

    Dᵢ = Σ_{j≠i} (−Aᵢⱼ) |xᵢ − xⱼ|²/h² + Σⱼ Aᵢⱼ

which is the diagonal for five points, and for any other operator the diagonal of the five points
that act on smooth fields as it does; the second sum is what couples a point to known ones.

All of it is linear in r, so this cycle is a preconditioner for SciPy's GMRES as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.solvers.geometric_multigrid import Answer, Array, Places, level
from neuralsolver.solvers.neural_solver import NeuralSolver, relative_coefficient


@dataclass(frozen=True, eq=False)
class NeuralCoarseSolver:
    """A corrector with the number of points along the side that it was trained on.

    A grid of an even number n of points is halved to n/2 + 1: one more is no other grid to it.
    """

    solver: NeuralSolver
    trained: int

    @property
    def points(self) -> int:
        """The most points along an axis."""
        return self.trained + 1

    @torch.no_grad()
    def __call__(self, matrix: Any, shape: tuple[int, ...], places: Places) -> Answer:
        """The sweeps and the correction on a grid; `matrix` is over its points at `places`."""
        network: Any = self.solver.corrector
        kind = next(network.parameters())
        diagonal = five_point_diagonal(matrix, shape, places)
        free = _spread(np.ones(len(places)), shape, places)
        size = _spread(diagonal, shape, places) + (1 - free)
        told = torch.cat([relative_coefficient(size, free), free], 1).to(kind)
        prepared, here = network.prepare(told), level(matrix)
        inverse = (1 / diagonal).astype(np.float32)[:, None]

        def correction(r: Array) -> Array:
            fields = _spread((inverse * r).T, shape, places).to(kind)
            answer = -self.solver.step_size * prepared(fields).flatten(1)
            return np.ascontiguousarray(answer.numpy()[:, places].T)

        @torch.no_grad()
        def answer(r: Array) -> Array:
            e = here.smooth(r)
            e = e + correction(r - here.matrix @ e)
            return here.smooth(r, e)

        return answer


def five_point_diagonal(matrix: Any, shape: tuple[int, ...], places: Places) -> Array:
    """The diagonal of the five-point operator that acts on smooth fields as `matrix` does."""
    entries = matrix.tocoo()
    coordinates = np.stack(np.unravel_index(places, shape))
    apart = coordinates[:, entries.row] - coordinates[:, entries.col]
    weights = 1.0 - np.square(apart).sum(0)
    # off the diagonal −A |x|² and A together, on it A alone
    found = np.bincount(entries.row, entries.data * weights, minlength=len(places))
    own = np.asarray(matrix.diagonal())
    # a row that hardly knows its neighbours is better served by what it has
    return np.where(np.abs(found) > 0.1 * np.abs(own), found, own)


def _spread(values: Array, shape: tuple[int, ...], places: Places) -> Tensor:
    """Values at places, one row per sample, as fields that are zero elsewhere."""
    rows = np.atleast_2d(values)
    fields = np.zeros((len(rows), int(np.prod(shape))))
    fields[:, places] = rows
    return torch.from_numpy(fields).view(len(rows), 1, *shape)
