"""Moving fields between grids of the unit square, nested or not.

P, prolongation: bilinear interpolation from m to n points in each direction, walls on walls.
R, restriction:  (H⁻¹h)² Pᵀ, its adjoint weighted so that constants away from the walls stay (full
                 weighting when the grids are nested).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from neuralsolver.equations import Problem
from neuralsolver.equations.base import zero_ring


def prolong(u: Tensor, resolution: int) -> Tensor:
    """u on a finer grid."""
    return interpolate(u, size=(resolution, resolution), mode="bilinear", align_corners=True)


def restrict(r: Tensor, resolution: int) -> Tensor:
    """A residual on a coarser grid; like every residual it is zero on the walls."""
    return zero_ring(weighted_adjoint(r, resolution))


def weighted_adjoint(r: Tensor, resolution: int) -> Tensor:
    """(H⁻¹h)² Pᵀ r, one direction after the other."""
    weight = ((resolution - 1) / (r.shape[-1] - 1)) ** 2
    rows = _gather_rows(r, resolution)
    return (weight * _gather_rows(rows.mT.contiguous(), resolution)).mT.contiguous()


def _gather_rows(r: Tensor, resolution: int) -> Tensor:
    """Pᵀ across the rows: each is shared between the two coarse rows it was interpolated from."""
    n = r.shape[-2]
    position = torch.arange(n, dtype=torch.float64, device=r.device) * (resolution - 1) / (n - 1)
    lower = position.floor().clamp_max(resolution - 2).long()
    upper_share = (position - lower).to(r.dtype)[:, None]
    coarse = r.new_zeros(*r.shape[:-2], resolution, r.shape[-1])
    coarse.index_add_(-2, lower, (1 - upper_share) * r)
    return coarse.index_add_(-2, lower + 1, upper_share * r)


def coarsen(field: Tensor, resolution: int) -> Tensor:
    """A coefficient or source on a coarser grid: a local mean, up to the walls."""
    weight = weighted_adjoint(torch.ones_like(field[:1, :1]), resolution)
    return weighted_adjoint(field, resolution) / weight


def coarse_problem(problem: Problem, resolution: int) -> Problem:
    """The same problem with its inputs averaged to a coarser grid."""
    return Problem(problem.equation, coarsen(problem.inputs, resolution))


def ladder(resolution: int, coarsest: int) -> list[int]:
    """The grids of a hierarchy, finest first, each about half of the one before."""
    sizes = [resolution]
    while sizes[-1] > coarsest:
        sizes.append(max(coarsest, (sizes[-1] + 1) // 2))
    return sizes
