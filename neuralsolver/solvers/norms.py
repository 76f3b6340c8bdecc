"""The size of a residual, and how wrong an answer can be by it, without knowing the solution.

A residual is measured by its root mean square over all points, in units of that of the first guess.

    bound       ‖u − u*‖ ≤ (‖F(u)‖ + δ)/σ        linear F, σ ≤ σ_min(J) proven, δ for rounding
    estimate    ‖d‖ / ‖u + d‖,  J(u) d = −F(u)   exact for linear F, right to first order otherwise
    flows       ‖u − w‖ / ‖w‖                    w the same flow, stepped through time

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
from neuralsolver.fields.jacobian import has_sparse_jacobian, jacobian_row_sums, sparse_jacobian
from neuralsolver.fields.units import scaled
from neuralsolver.solvers.direct import lu_inverse, newton_correction

TINY = torch.finfo(torch.float64).tiny
JUMPS = 1e-4
"""The part of the residual of jumps at the walls that still is a unit: above all rounding of it."""
ROUNDINGS = 64
"""Half-units of rounding that are allowed for: four times the operations of the longest stencil."""

TYPICAL_ROUNDINGS = 4
"""Units of rounding that a residual at its smallest has: a few, since their signs differ."""


def residual_norm(residual: Tensor) -> Tensor:
    """Root mean square over all but the batch axis, in float64, whatever the size of the values."""
    values = (residual.abs() if residual.is_complex() else residual).flatten(1).double()
    # a square underflows at 1e-162 and overflows at 1e154
    largest = values.abs().amax(1).clamp_min(TINY)
    return (values / largest[:, None]).square().mean(1).sqrt() * largest


def field_norms(residual: Tensor) -> Tensor:
    """The same of every field by itself, (batch, field)."""
    return torch.stack([residual_norm(field) for field in residual.unbind(1)], 1)


def guess_norm(problem: Problem) -> Tensor:
    """The unit of all residuals of a problem: the measured one of its first guess.

    Where values are known, the guess blends those of the walls into the box and may happen to be
    the solution: the unit is then that of the source, or what the jumps at a wall would leave.
    """
    guess = measured_norm(problem, problem.first_guess())
    if problem.fixed is not None:
        source = measured_norm(problem, torch.zeros_like(problem.fixed.values))
        jumps = JUMPS * measured_norm(problem, problem.zeros())
        guess = torch.maximum(guess, torch.maximum(source, jumps))
    return guess.cpu().clamp_min(TINY)


def measured_norm(problem: Problem, u: Tensor) -> Tensor:
    """The norm of the residual of u as the problem measures it (`preconditioned_residual`)."""
    return residual_norm(problem.preconditioned_residual(problem.residual(u)))


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


def relative_residual(problem: Problem, u: Tensor) -> Tensor:
    """The measured residual of each sample over that of the first guess.

    Taken in natural units, which are powers of two: it is what it would be in the user's, were
    there no largest and smallest number. NaN where even so a term such as λu³ overflows in that of
    the guess: nothing can be measured in it.
    """
    problem, u = _natural(problem, u)
    unit = guess_norm(problem)
    return torch.where(unit.isfinite(), measured_norm(problem, u).cpu() / unit, torch.nan)


def relative_rounding_level(problem: Problem, u: Tensor) -> Tensor:
    """The relative residual of each sample that rounding alone may leave, roughly: no bound."""
    level = torch.full((problem.batch,), TYPICAL_ROUNDINGS * torch.finfo(u.dtype).eps).double()
    if not has_sparse_jacobian(problem):
        return level
    problem, u = _natural(problem, u)
    rows = jacobian_row_sums(problem, u).flatten(1).amax(1).cpu().double()
    return level * (1 + rows * residual_norm(u).cpu() / guess_norm(problem))


def error_estimate(problem: Problem, u: Tensor) -> Tensor | None:
    """An estimate of ‖u − u*‖ / ‖u*‖ per sample; None where nothing is known."""
    problem, u = _natural(problem.in_precision(torch.float64), u.detach().double())
    equation = problem.equation
    stepped = equation.integrate(problem.inputs)
    if stepped is not None:
        relative = residual_norm(u - stepped) / residual_norm(stepped)
        return relative.nan_to_num(torch.inf, posinf=torch.inf).cpu()
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
    if (
        not (problem.equation.unique_where_definite and problem.on_native_grid)
        or problem.fixed is not None
    ):
        return None
    ones = np.ones(problem.grid.size)
    positive = [lu_inverse(-j, problem.space)(ones) for j in sparse_jacobian(problem, u)]
    return [bool((x > 0).all()) for x in positive]


def _natural(problem: Problem, u: Tensor) -> tuple[Problem, Tensor]:
    """The problem and the field in natural units."""
    found = problem.natural()
    return (problem, u) if found is None else (found[0], scaled(u, -found[1].solution))


def relative_error(u: Tensor, exact: Tensor) -> Tensor:
    """‖u − u*‖ / ‖u*‖ of each sample, in float64."""
    difference = (u.double() - exact.double()).flatten(1)
    relative: Tensor = difference.norm(dim=1) / exact.double().flatten(1).norm(dim=1)
    return relative
