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

J is never formed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, cg, eigsh, lsmr, minres
from torch import Tensor

from neuralsolver.equations import Helmholtz, NavierStokes, Problem
from neuralsolver.equations.jacobian import jacobian_diagonal, linearisation
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.evaluation.trajectories import Vector, trajectory_triplet

MISMATCH_LIMIT = 1e-5
"""Largest accepted ‖Jᵀw − σv‖/σ; a singular value lies within this fraction of σ."""
SINGULAR = 1e-11
"""A direction in which J is this small, relative to σ_max, is one in which it is zero."""
INNER_ITERATIONS = 20_000


@dataclass(frozen=True, eq=False)
class Extremes:
    """The extreme singular values of J(u) per sample, with the triplet (σ_min, v, w) of the first.

    `weakest` is v, the unit field that the residual sees least, and `response` is w = Jv/σ_min,
    both of the shape of u. `mismatch` is ‖Jᵀw − σ_min v‖/σ_min, or ‖Jv − σ_min w‖/σ_min where
    J = Jᵀ and w = ±v: some singular value lies within that fraction of σ_min. That it is the
    smallest one rests on the iteration, which starts from a random vector. Where J has a null
    space, σ_min = 0, χ = ∞, w = 0, and v is one of its vectors. Of a flow σ_min is an upper bound
    and `mismatch` the fraction by which the last iterations lowered it (`trajectories.py`).
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
    """The extreme singular values of J(u) over the free points, from products Jd and Jᵀv only.

    A flow's J maps the frames after the first to the residuals of all frames, the first included.
    Fields constant in space are no null space of it: transport does not see them, ∂ₜ does, and the
    imposed first frame fixes their level. PINO's wide Darcy stencil does have a null space.
    `settled` is the change of a flow's σ_min at which its iteration ends.
    """
    problem = problem.in_precision(torch.float64)
    u = u.detach().double().cpu()
    triplets = []
    for i in range(problem.batch):
        one, field, rng = problem.select([i]), u[i : i + 1], np.random.default_rng(seed)
        if isinstance(problem.equation, NavierStokes):
            triplets.append(trajectory_triplet(one, field, rng, settled))
        else:
            triplets.append(_extremes(_Jacobian(one, field), rng))
    smallest, largest, mismatch = (
        torch.tensor([triplet[k] for triplet in triplets], dtype=torch.float64) for k in range(3)
    )
    weakest, response = (
        torch.from_numpy(np.stack([triplet[k] for triplet in triplets])).view_as(u) for k in (3, 4)
    )
    return Extremes(smallest, largest, largest / smallest, weakest, response, mismatch)


class _Jacobian:
    """J(u) of one sample, from vectors over the free points to residuals at all points."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        changed = problem.impose(torch.ones_like(u)) != problem.impose(torch.zeros_like(u))
        self.free = changed.numpy().reshape(-1)
        self.shape, self.size = u.shape, int(self.free.sum())
        self._forward = linearisation(problem, u)
        self._point = u.clone().requires_grad_(True)
        with torch.enable_grad():
            self._residual = problem.residual(self._point)
        # between walls the diagonal is cheap to probe and undoes a contrast of coefficients
        walls = problem.equation.boundary == "walls" and not problem.equation.frames
        diagonal = jacobian_diagonal(problem, u) if walls else torch.ones_like(u)
        self.diagonal = diagonal.abs().numpy().reshape(-1)[self.free]

    def field(self, direction: Vector) -> Vector:
        """The direction at all points, zero where u is known."""
        whole = np.zeros(self.free.size)
        whole[self.free] = direction
        return whole

    def forward(self, direction: Vector) -> Vector:
        """Jd at all points."""
        field = torch.from_numpy(self.field(direction.reshape(-1))).view(self.shape)
        return self._forward(field).detach().numpy().reshape(-1)

    def backward(self, values: Vector) -> Vector:
        """Jᵀv over the free points."""
        field = torch.from_numpy(np.ascontiguousarray(values)).view(self.shape)
        (product,) = torch.autograd.grad(self._residual, self._point, field, retain_graph=True)
        return np.asarray(product.numpy().reshape(-1)[self.free])

    def square(self, direction: Vector) -> Vector:
        """Jd over the free points, all of it if J is symmetric."""
        return np.asarray(self.forward(direction)[self.free])

    def normal(self, direction: Vector) -> Vector:
        """JᵀJd."""
        return self.backward(self.forward(direction))

    def is_symmetric(self, rng: np.random.Generator) -> bool:
        """Whether ⟨Jx, y⟩ = ⟨x, Jy⟩ for random x, y; for another J that has probability zero."""
        x, y = rng.standard_normal((2, self.size))
        image_x, image_y = self.forward(x), self.forward(y)
        if np.any(image_x[~self.free]):
            return False
        scale = np.linalg.norm(image_x) * np.linalg.norm(y)
        return bool(abs(image_x[self.free] @ y - image_y[self.free] @ x) <= 1e-12 * scale)


def _extremes(
    jacobian: _Jacobian, rng: np.random.Generator
) -> tuple[float, float, float, Vector, Vector]:
    """(σ_min, σ_max, mismatch, v, w) of one sample."""
    start = rng.standard_normal(jacobian.size)
    symmetric = jacobian.is_symmetric(rng)
    top = _dominant(jacobian.square if symmetric else jacobian.normal, start, subspace=40)
    largest = float(np.linalg.norm(jacobian.forward(top)))
    v = None if symmetric else _null_vector(jacobian, start, largest)
    if v is None:
        invert = _inverse(jacobian, symmetric)
        # the last solve removes what Lanczos left in the strong directions
        v = invert(_dominant(invert, start, subspace=12 if symmetric else 30))
        v /= np.linalg.norm(v)
    smallest, response, mismatch = _response(jacobian, v, symmetric)
    if smallest <= SINGULAR * largest:
        return 0.0, largest, 0.0, jacobian.field(v), np.zeros_like(response)
    if not mismatch <= MISMATCH_LIMIT:
        raise ReferenceFailure(
            f"smallest singular value near {smallest:.3g} (largest {largest:.3g}): the singular "
            f"vectors mismatch by {mismatch:.1e}, more than {MISMATCH_LIMIT:.0e}"
        )
    return smallest, largest, mismatch, jacobian.field(v), response


def _response(jacobian: _Jacobian, v: Vector, symmetric: bool) -> tuple[float, Vector, float]:
    """(σ, w, mismatch) that belong to a unit vector v."""
    image = jacobian.forward(v)
    if symmetric:
        # w = ±v is exact, whereas Jᵀ(Jv/σ) would amplify the rounding of Jv by another factor χ
        eigenvalue = float(v @ image[jacobian.free])
        response = jacobian.field(math.copysign(1.0, eigenvalue) * v)
        defect = image - abs(eigenvalue) * response
        return abs(eigenvalue), response, _ratio(defect, abs(eigenvalue))
    smallest = float(np.linalg.norm(image))
    response = image / max(smallest, np.finfo(np.float64).tiny)
    return smallest, response, _ratio(jacobian.backward(response) - smallest * v, smallest)


def _ratio(defect: Vector, smallest: float) -> float:
    return float(np.linalg.norm(defect)) / max(smallest, np.finfo(np.float64).tiny)


def _dominant(apply: Callable[[Vector], Vector], start: Vector, subspace: int) -> Vector:
    """The unit eigenvector of a symmetric operator whose eigenvalue is largest in magnitude."""
    operator: Any = LinearOperator((start.size, start.size), matvec=apply, dtype=np.float64)
    try:
        _, vectors = eigsh(operator, k=1, v0=start, ncv=subspace, tol=1e-7, maxiter=200)
    except ArpackError as error:
        raise ReferenceFailure(f"Lanczos iteration for a singular value: {error}") from None
    return np.asarray(vectors[:, 0])


def _inverse(jacobian: _Jacobian, symmetric: bool) -> Callable[[Vector], Vector]:
    """J⁻¹ by MINRES if J is symmetric (definite or not), else (JᵀJ)⁻¹ by conjugate gradients."""
    shape = (jacobian.size, jacobian.size)
    square: Any = LinearOperator(shape, matvec=jacobian.square, dtype=np.float64)
    normal: Any = LinearOperator(shape, matvec=jacobian.normal, dtype=np.float64)
    scaling: Any = LinearOperator(
        shape, matvec=lambda x: x.reshape(-1) / jacobian.diagonal, dtype=np.float64
    )

    def invert(right: Vector) -> Vector:
        if symmetric:
            # MINRES measures ‖r‖ by ‖J‖‖x‖, so that the error of x is χ times the tolerance
            x, _ = minres(square, right, rtol=1e-14, maxiter=INNER_ITERATIONS, M=scaling)
        else:
            x, _ = cg(normal, right, rtol=1e-9, maxiter=INNER_ITERATIONS)
        return np.asarray(x)

    return invert


def _null_vector(jacobian: _Jacobian, start: Vector, largest: float) -> Vector | None:
    """A unit vector with Jv = 0: what is left of a random one without its part in the row space."""
    operator: Any = LinearOperator(
        (jacobian.free.size, jacobian.size),
        matvec=jacobian.forward,
        rmatvec=jacobian.backward,
        dtype=np.float64,
    )
    v = start / np.linalg.norm(start)
    for _ in range(2):  # the second pass works on a residual that is small already
        right = jacobian.forward(v)
        v = v - lsmr(operator, right, atol=1e-10, btol=1e-10, maxiter=INNER_ITERATIONS)[0]
        if not np.linalg.norm(v) > 1e-6:
            return None
    v /= np.linalg.norm(v)
    return v if np.linalg.norm(jacobian.forward(v)) <= SINGULAR * largest else None


@dataclass(frozen=True, eq=False)
class Gap:
    """A field ũ with a small residual and a large error, per sample, in Euclidean norms.

    `residual` = ‖F(ũ)‖ ≤ ε, of a flow ‖F(ũ) − F(u*)‖, and `error` = ‖ũ − u*‖ = `bound`, which is
    ε/σ_min for a linear equation and ε/2σ_min for a nonlinear one. `admissible` is the ε below
    which that is proven.
    """

    field: Tensor
    residual: Tensor
    error: Tensor
    bound: Tensor
    admissible: Tensor
    extremes: Extremes


def gap_field(
    problem: Problem, u_star: Tensor, epsilon: float, extremes: Extremes | None = None
) -> Gap:
    """Proposition 1 as a construction: the solution u* moved along the weakest direction.

    The proposition says "for any ε" and ε/σ_min. Its proof gives that for linear equations; for
    nonlinear ones it gives half of it, and only for ε < 4σ_min²/M. Larger ε are refused here.
    It is a statement on the worst of all fields with that residual, not on the field that a given
    method ends in: for a linear equation ε/σ_min is also the largest error such a field can have,
    and ε/σ_max the smallest. `extremes` are those of J(u*), where they are known already.
    """
    problem = problem.in_precision(torch.float64)
    u_star = u_star.detach().double().cpu()
    if not (problem.equation.linear or isinstance(problem.equation, (Helmholtz, NavierStokes))):
        expected = "linear, Helmholtz or a flow, whose D²F is known"
        raise InvalidInput("equation", expected, problem.equation.name)
    extremes = extremes or singular_values(problem, u_star)
    sigma = extremes.smallest
    if not bool((sigma > 0).all()):
        raise InvalidInput("equation", "a Jacobian without null space", problem.equation.name)
    admissible = _admissible(problem, u_star, extremes)
    if not 0 < epsilon < float(admissible.min()):
        raise InvalidInput("epsilon", f"between 0 and {float(admissible.min()):.3g}", epsilon)
    bound = epsilon / ((1.0 if problem.equation.linear else 2.0) * sigma)
    field = u_star + bound.view(-1, *[1] * (u_star.dim() - 1)) * extremes.weakest
    added = problem.residual(field)
    if problem.equation.has_floor:
        added = added - problem.residual(u_star)
    residual, error = (x.flatten(1).norm(dim=1) for x in (added, field - u_star))
    return Gap(field, residual, error, bound, admissible, extremes)


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
