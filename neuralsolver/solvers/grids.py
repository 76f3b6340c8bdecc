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
    """(H⁻¹h)² Pᵀ r."""
    n = r.shape[-1]
    coarse = torch.zeros(*r.shape[:-2], resolution, resolution, dtype=r.dtype, device=r.device)
    with torch.enable_grad():
        coarse.requires_grad_(True)
        fine = prolong(coarse, n)
    adjoint = torch.autograd.grad(fine, coarse, r)[0]
    return adjoint * ((resolution - 1) / (n - 1)) ** 2


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
