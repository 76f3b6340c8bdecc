"""How wrong an answer can be: from its residual, without knowing the solution.

    bound       ‖u − u*‖ ≤ (‖F(u)‖ + δ)/σ        linear F, σ ≤ σ_min(J) proven, δ for rounding
    estimate    ‖d‖ / ‖u + d‖,  J(u) d = −F(u)   exact for linear F, right to first order otherwise
    flows       ‖L⁻¹F(u)‖ / ‖u‖                  what the residual adds up to over time

Rounding: every value of F is a sum of products |J||u| and of f. Each of at most 16 operations
rounds by half a unit in the last place of a partial sum, and no partial sum is larger than
Σⱼ|Jᵢⱼ||uⱼ| + |fᵢ| with the terms of the stencil taken apart. The diagonal alone would not do: where
κ² cancels the 4/h² of the Laplacian it is zero, and what was cancelled had been rounded before.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import has_sparse_jacobian, jacobian_row_sums, sparse_jacobian
from neuralsolver.equations.units import per_sample
from neuralsolver.reference.newton import factorised
from neuralsolver.solvers.newton import newton_correction
from neuralsolver.solvers.norms import guess_norm, residual_norm

ROUNDINGS = 64
"""Half-units of rounding that are allowed for: four times the operations of the longest stencil."""


def error_bound(problem: Problem, u: Tensor) -> Tensor | None:
    """A guaranteed bound on ‖u − u*‖ / ‖u*‖ per sample, infinite where there is none."""
    problem, u = _natural(problem.in_precision(torch.float64), u.detach().double())
    sigma = problem.smallest_singular_value()
    if sigma is None:
        return None
    size, residual = residual_norm(u).cpu(), residual_norm(problem.residual(u)).cpu()
    rows = jacobian_row_sums(problem, u).flatten(1).amax(1).cpu().double()
    eps = torch.finfo(torch.float64).eps
    rounding = ROUNDINGS * eps * (2 * rows * size + guess_norm(problem))
    # σ itself is a difference of rounded numbers as large as the rows
    sigma = (sigma.cpu().double() - ROUNDINGS * eps * rows).clamp_min(0.0)
    distance = (residual + rounding) / sigma
    remaining = size - distance
    bound = torch.where(remaining > 0, distance / remaining, torch.inf)
    nothing = (size == 0) & (residual == 0) & (sigma > 0)
    return torch.where(nothing, 0.0, bound).nan_to_num(torch.inf, posinf=torch.inf)


def error_estimate(problem: Problem, u: Tensor) -> Tensor | None:
    """An estimate of ‖u − u*‖ / ‖u*‖ per sample; None where nothing is known."""
    problem, u = _natural(problem.in_precision(torch.float64), u.detach().double())
    equation = problem.equation
    added = equation.invert_linear_part(problem.residual(u))
    if added is not None:
        return (residual_norm(added) / residual_norm(u)).cpu()
    if not has_sparse_jacobian(problem):
        return None
    size, whole = residual_norm(d := newton_correction(problem, u)), residual_norm(u + d)
    return torch.where(size.isfinite() & (whole > 0), size / whole, torch.inf).cpu()


def on_main_branch(problem: Problem, u: Tensor) -> list[bool] | None:
    """Whether each u lies where the solution continued from f = 0 does, for equations that know.

    There −J is positive definite. It has no positive entry beside its diagonal, and so it is if and
    only if the x with −Jx = 1 is positive (an M-matrix).
    """
    problem, u = _natural(problem.in_precision(torch.float64), u.detach().double())
    if not (problem.equation.unique_where_definite and problem.square) or problem.known is not None:
        return None
    ones = np.ones(problem.grid.size)
    positive = [factorised(-j)(ones) for j in sparse_jacobian(problem, u)]
    return [bool((x > 0).all()) for x in positive]


def _natural(problem: Problem, u: Tensor) -> tuple[Problem, Tensor]:
    """The problem and the field in natural units."""
    found = problem.natural()
    return (problem, u) if found is None else (found[0], u / per_sample(found[1].solution, u))
