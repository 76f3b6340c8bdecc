"""How far a residual can be trusted: the extreme singular values of J = ∂F/∂u.

    σ_min = min ‖Jd‖ / ‖d‖,   σ_max = max ‖Jd‖ / ‖d‖,   χ = σ_max / σ_min,   J v = σ_min w

over the directions d that are free: walls and initial frames are known, so d vanishes there.

    ‖F(u)‖ / σ_max ≤ ‖u − u*‖ ≤ ‖F(u)‖ / σ_min                    linear F
    ũ = u* + (ε/σ_min) v       has ‖F(ũ)‖ = ε                     Proposition 1, linear F
    ũ = u* + (ε/2σ_min) v      has ‖F(ũ)‖ < ε, ε < 4σ_min²/M      Proposition 1, nonlinear F

with M ≥ ‖D²F‖ on the ball that holds ũ. A flow is quadratic, so along v its M = ‖D²F[v, v]‖ is
exact; its truth leaves a residual, and ε is what is added to it: ‖F(ũ) − F(u*)‖ < ε.

Norms are Euclidean, ‖x‖² = Σxᵢ². A root mean square divides both sides of a linear statement by √N
and changes nothing; M belongs to the Euclidean norm, and is √N times larger in root mean squares.

Between walls J is a sparse symmetric matrix, of which Lanczos iterations find both ends; of a
flow it is never formed (`trajectories.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, eigsh
from torch import Tensor

from neuralsolver.equations import Helmholtz, NavierStokes, Problem
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.fields.jacobian import sparse_jacobian
from paper.trajectories import Vector, trajectory_triplet

MISMATCH_LIMIT = 1e-5
"""Largest accepted ‖Jv − σw‖/σ; a singular value lies within this fraction of σ."""


@dataclass(frozen=True, eq=False)
class Extremes:
    """The extreme singular values of J(u) per sample, with the triplet (σ_min, v, w) of the first.

    `weakest` is v, the unit field that the residual sees least, and `response` is w = Jv/σ_min,
    both of the shape of u. `mismatch` is ‖Jv − σ_min w‖/σ_min with w = ±v: some singular value lies
    within that fraction of σ_min. Of a flow σ_min is an upper bound and `mismatch` the fraction by
    which the last iterations lowered it (`trajectories.py`).
    """

    smallest: Tensor
    largest: Tensor
    condition: Tensor
    weakest: Tensor
    response: Tensor
    mismatch: Tensor


def singular_values(
    problem: Problem, u: Tensor, seed: int = 0, *, settled: float = 1e-3
) -> Extremes:
    """The extreme singular values of J(u) over the free points.

    A flow's J maps the frames after the first to the residuals of all frames, the first included.

    Args:
        problem: An equation between walls with a symmetric Jacobian, or a flow.
        u: (batch, 1, …) where J is taken.
        seed: Of the first vectors of the iterations.
        settled: The change of a flow's σ_min at which its iteration ends.

    Raises:
        InvalidInput: The Jacobian is not symmetric.
        ReferenceFailure: The iteration did not find a singular value.
    """
    problem = problem.in_precision(torch.float64)
    u = u.detach().double().cpu()
    rng = np.random.default_rng(seed)
    if isinstance(problem.equation, NavierStokes):
        found = [
            trajectory_triplet(problem.select([i]), u[i : i + 1], rng, settled)
            for i in range(problem.batch)
        ]
    else:
        found = [_extremes(problem, matrix, rng) for matrix in sparse_jacobian(problem, u)]
    smallest, largest, mismatch = (
        torch.tensor([triplet[k] for triplet in found], dtype=torch.float64) for k in range(3)
    )
    weakest, response = (
        torch.from_numpy(np.stack([triplet[k] for triplet in found])).view_as(u) for k in (3, 4)
    )
    return Extremes(smallest, largest, largest / smallest, weakest, response, mismatch)


def _extremes(
    problem: Problem, matrix: Any, rng: np.random.Generator
) -> tuple[float, float, float, Vector, Vector]:
    """(σ_min, σ_max, mismatch, v, w) of a symmetric matrix; w = ±v."""
    if abs(matrix - matrix.T).max() > 1e-12 * abs(matrix).max():
        raise InvalidInput("equation", "a symmetric Jacobian", problem.equation.name)
    start = rng.standard_normal(matrix.shape[0])
    try:
        (top,), _ = eigsh(matrix, k=1, v0=start, ncv=40, tol=1e-10)
        _, vectors = eigsh(matrix.tocsc(), k=1, sigma=0.0, v0=start)
    except (ArpackError, RuntimeError) as error:
        raise ReferenceFailure(f"Lanczos iteration for a singular value: {error}") from None
    v = vectors[:, 0]
    image = matrix @ v
    eigenvalue = float(v @ image)
    mismatch = float(np.linalg.norm(image - eigenvalue * v)) / abs(eigenvalue)
    if not mismatch <= MISMATCH_LIMIT:
        raise ReferenceFailure(
            f"smallest singular value near {abs(eigenvalue):.3g}: the singular vectors mismatch by "
            f"{mismatch:.1e}, more than {MISMATCH_LIMIT:.0e}"
        )
    field = problem.grid.unflatten(torch.from_numpy(v)[None], problem.zeros()[:1]).numpy()
    return abs(eigenvalue), abs(float(top)), mismatch, field, math.copysign(1.0, eigenvalue) * field


@dataclass(frozen=True, eq=False)
class Gap:
    """A field ũ with a small residual and a large error, per sample, in Euclidean norms.

    `residual` = ‖F(ũ)‖ ≤ ε, of a flow ‖F(ũ) − F(u*)‖, and `error` = ‖ũ − u*‖, which is ε/σ_min for
    a linear equation and ε/2σ_min for a nonlinear one. `admissible` is the ε below which that is
    proven.
    """

    field: Tensor
    residual: Tensor
    error: Tensor
    admissible: Tensor


def gap_field(problem: Problem, u_star: Tensor, epsilon: float, extremes: Extremes) -> Gap:
    """Proposition 1 as a construction: the solution u* moved along the weakest direction.

    The proposition says "for any ε" and ε/σ_min. Its proof gives that for linear equations; for
    nonlinear ones it gives half of it, and only for ε < 4σ_min²/M. Larger ε are refused here.
    It is a statement on the worst of all fields with that residual, not on the field that a given
    method ends in: for a linear equation ε/σ_min is also the largest error such a field can have,
    and ε/σ_max the smallest.

    Args:
        problem: Linear, Helmholtz or a flow, whose D²F is known.
        u_star: (batch, 1, …) its solution.
        epsilon: The residual that is allowed.
        extremes: Those of J(u*).
    """
    problem = problem.in_precision(torch.float64)
    u_star, equation = u_star.detach().double().cpu(), problem.equation
    if not (equation.linear or isinstance(equation, (Helmholtz, NavierStokes))):
        expected = "linear, Helmholtz or a flow, whose D²F is known"
        raise InvalidInput("equation", expected, equation.name)
    admissible = _admissible(problem, u_star, extremes)
    if not 0 < epsilon < float(admissible.min()):
        raise InvalidInput("epsilon", f"between 0 and {float(admissible.min()):.3g}", epsilon)
    size = epsilon / ((1.0 if equation.linear else 2.0) * extremes.smallest)
    field = u_star + size.view(-1, *[1] * (u_star.dim() - 1)) * extremes.weakest
    added = problem.residual(field)
    if not equation.residual_vanishes:
        added = added - problem.residual(u_star)
    residual, error = (x.flatten(1).norm(dim=1) for x in (added, field - u_star))
    return Gap(field, residual, error, admissible)


def _admissible(problem: Problem, u_star: Tensor, extremes: Extremes) -> Tensor:
    """The ε at which ε = 4σ²/M(α), α = ε/2σ, M(α) = 6|λ|(‖u*‖∞ + α) on the ball of radius α.

    Of a flow M = ‖D²F[v, v]‖ everywhere, and D²F[v, v] = F(u* + v) + F(u* − v) − 2F(u*) exactly.
    """
    equation, sigma = problem.equation, extremes.smallest
    if isinstance(equation, NavierStokes):
        v = extremes.weakest * u_star.flatten(1).norm(dim=1).view(-1, *[1] * (u_star.dim() - 1))
        sides = problem.residual(u_star + v) + problem.residual(u_star - v)
        curvature = (sides - 2 * problem.residual(u_star)).flatten(1).norm(dim=1)
        curvature = curvature / u_star.flatten(1).norm(dim=1).square()
        largest: Tensor = 4 * sigma**2 / curvature.clamp_min(torch.finfo(torch.float64).tiny)
        return largest
    if not isinstance(equation, Helmholtz) or equation.linear:
        return torch.full_like(sigma, math.inf)
    # |eᵢ| ≤ ‖e‖ on the ball and ‖d²‖ ≤ ‖d‖² for its directions: ‖D²F(u* + e)[d, d]‖ ≤ M(α)‖d‖²
    peak = u_star.flatten(1).abs().amax(1)
    return sigma * ((peak**2 + 4 * sigma / (3 * abs(equation.nonlinearity))).sqrt() - peak)


def rounding_experiment(problem: Problem, u_star: Tensor, extremes: Extremes) -> dict[str, float]:
    """What single precision leaves of one correction of one sample at u* + v (App. A of the paper).

    The residual is J(u*)v, the paper's linearised regime. Newton solves Jp = −Jv, Gauss-Newton the
    normal equations JᵀJp = −JᵀJv, whose condition is the square: by the paper's estimates about
    ε χ and ε χ² of the error is left.

    Returns:
        ‖v + p‖ of both corrections, which would be zero without rounding.
    """
    matrix = sparse_jacobian(problem.in_precision(torch.float64), u_star.double())[0].toarray()
    v = problem.grid.flatten(extremes.weakest[:1])[0].numpy()
    single, right = matrix.astype(np.float32), (-(matrix @ v)).astype(np.float32)
    newton = np.linalg.solve(single, right)
    normal = np.linalg.solve(single.T @ single, single.T @ right)
    left = {"newton_single": newton, "gauss_newton_single": normal}
    return {name: float(np.linalg.norm(v + p)) for name, p in left.items()}
