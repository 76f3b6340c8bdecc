"""Newton's method and Anderson's for waves that change their own medium.

    F(u) = 0,        F'(u) δ = −F(u),        u ← u + τδ,   0 < τ ≤ 1

F' is linear over the real numbers only (`wave_operator`), so inner products are
Re⟨v, w⟩ and a complex vector counts as twice as many real unknowns.

    damped_newton    factorises the real Jacobian at every step; τ by the natural monotonicity test
                     of Deuflhard (NLEQ-ERR): the simplified correction must shrink
    newton_krylov    solves for δ by GMRES with a factor M kept from an earlier iterate as left
                     preconditioner; the inner tolerance follows Eisenstat and Walker; τ by
                     backtracking on ‖M⁻¹F‖; M is renewed when the inner solve takes long
    anderson         mixes the last updates g = −P(0)⁻¹F(u) on the factors of the linear equation

Every method returns its best iterate, whether it reached the tolerance, and what it took.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from neuralsolver.solvers.sparse_lu import SparseLU
from neuralsolver.solvers.wave_operator import Complex, Real, WaveOperator, norm, real_solve

Apply = Callable[[Complex], Complex]


@dataclass
class WaveAnswer:
    """An interior vector with what it took.

    Args:
        u: The best iterate.
        residual: ‖F(u)‖ / ‖F(0)‖.
        converged: Whether that is below the tolerance.
        factorisations: Complex and real ones together.
        solves: Triangular solves.
    """

    u: Complex
    residual: float
    converged: bool
    factorisations: int = 0
    solves: int = 0


def damped_newton(
    problem: WaveOperator, start: Complex, tolerance: float = 1e-9, *, steps: int = 40
) -> WaveAnswer:
    """Affine-covariant damped Newton (Deuflhard's NLEQ-ERR) with a new factor at every step.

    Args:
        problem: The equation.
        start: First iterate.
        tolerance: Of the relative residual.
        steps: At most so many factorisations.

    Returns:
        The answer. It is not converged where τ falls below 1e-3.
    """
    answer = WaveAnswer(start, problem.relative_residual(start), False)
    u, damping, previous = start, 1.0, None
    for _ in range(steps):
        if answer.residual <= tolerance or not math.isfinite(answer.residual):
            break
        factor = problem.real_factor(u)
        correction = -real_solve(factor, problem.residual(u))
        answer.factorisations += 1
        size = norm(correction)
        if previous is not None:
            last_size, simplified, last_damping = previous
            change = norm(simplified - correction)
            ratio = last_size * norm(simplified) / max(change * size, 1e-300)
            damping = min(1.0, ratio * last_damping)
        trial, damping, simplified = _natural_step(
            problem, factor, u, correction, damping=damping, answer=answer
        )
        if trial is None:
            break
        previous = (size, simplified, damping)
        u = trial
        answer.u, answer.residual = u, problem.relative_residual(u)
    answer.converged = answer.residual <= tolerance
    return answer


def _natural_step(
    problem: WaveOperator,
    factor: SparseLU,
    u: Complex,
    correction: Complex,
    *,
    damping: float,
    answer: WaveAnswer,
) -> tuple[Complex | None, float, Complex]:
    """Reduce τ until the simplified correction is smaller than the correction."""
    size = norm(correction)
    damping = max(damping, 1e-3)
    while damping >= 1e-3:
        trial = u + damping * correction
        simplified = -real_solve(factor, problem.residual(trial))
        answer.solves += 1
        if norm(simplified) <= (1 - damping / 4) * size:
            return trial, damping, simplified
        curvature = 2 * norm(simplified - (1 - damping) * correction) / (damping**2 * size)
        damping = min(1 / max(curvature, 1e-300), damping / 2)
    return None, damping, correction


def newton_krylov(
    problem: WaveOperator,
    start: Complex,
    tolerance: float = 1e-9,
    *,
    preconditioner: str = "complex",
    factor: SparseLU | None = None,
    steps: int = 30,
    directions: int = 80,
    renew_after: int = 60,
) -> WaveAnswer:
    """Inexact Newton with GMRES on the factors of an earlier iterate.

    Args:
        problem: The equation.
        start: First iterate.
        tolerance: Of the relative residual.
        preconditioner: "complex", the complex-linear part P(u); "real", the whole Jacobian; or
            "frozen", `factor` for every iterate.
        factor: Of the linear equation, for "frozen".
        steps: At most so many Newton steps.
        directions: At most so many GMRES directions a step.
        renew_after: Factorise again after a step that took more directions, or a damped one.

    Returns:
        The answer. It is not converged where τ falls below 1/64 right after a factorisation.
    """
    answer = WaveAnswer(start, problem.relative_residual(start), False)
    u = start
    apply: Apply | None = None if factor is None else factor.solve
    fresh, inner_tolerance, last = apply is not None, 0.1, math.inf
    for _ in range(steps):
        if answer.residual <= tolerance or not math.isfinite(answer.residual):
            break
        if apply is None:
            apply = _factorise(problem, u, preconditioner)
            answer.factorisations += 1
            fresh, last = True, math.inf
        right = -apply(problem.residual(u))
        size = norm(right)
        if math.isfinite(last):
            inner_tolerance = min(0.1, max(0.9 * (size / last) ** 2, 1e-4))
        enough = 0.3 * tolerance / max(answer.residual, 1e-300)
        correction, used = _gmres(
            problem, u, apply, right, tolerance=max(inner_tolerance, enough), directions=directions
        )
        answer.solves += used + 1
        trial, damping = _backtrack(problem, apply, u, correction, size=size, answer=answer)
        if trial is None:
            if fresh:
                break
            apply = None
            continue
        u, last = trial, size
        answer.u, answer.residual = u, problem.relative_residual(u)
        fresh = False
        if preconditioner != "frozen" and (used > renew_after or damping < 1.0):
            apply = None
    answer.converged = answer.residual <= tolerance
    return answer


def _gmres(
    problem: WaveOperator,
    u: Complex,
    apply: Apply,
    right: Complex,
    *,
    tolerance: float,
    directions: int,
) -> tuple[Complex, int]:
    """δ with M⁻¹F'(u) δ = right over the real numbers, and the number of directions."""
    norms: list[float] = []

    def product(v: Real) -> Real:
        return _reals(apply(problem.tangent(u, v.view(np.complex128))))

    operator = LinearOperator((2 * u.size, 2 * u.size), product, dtype=np.float64)
    found, _ = gmres(
        operator,
        _reals(right),
        rtol=tolerance,
        restart=directions,
        maxiter=1,
        callback=norms.append,
        callback_type="pr_norm",
    )
    return found.view(np.complex128), len(norms)


def _factorise(problem: WaveOperator, u: Complex, preconditioner: str) -> Apply:
    if preconditioner == "real":
        factor = problem.real_factor(u)
        return lambda v: real_solve(factor, v)
    return problem.complex_factor(u).solve


def _backtrack(
    problem: WaveOperator,
    apply: Apply,
    u: Complex,
    correction: Complex,
    *,
    size: float,
    answer: WaveAnswer,
) -> tuple[Complex | None, float]:
    damping = 1.0
    while damping > 1 / 64:
        trial = u + damping * correction
        answer.solves += 1
        if norm(apply(problem.residual(trial))) <= (1 - 0.1 * damping) * size:
            return trial, damping
        damping /= 2
    return None, damping


def anderson(
    problem: WaveOperator,
    factor: SparseLU,
    start: Complex,
    tolerance: float = 1e-9,
    *,
    memory: int = 10,
    steps: int = 120,
    patience: int = 8,
) -> WaveAnswer:
    """Anderson acceleration of u ← u − P(0)⁻¹F(u), on the factors of the linear equation.

    Args:
        problem: The equation.
        factor: Of its linear part.
        start: First iterate.
        tolerance: Of the relative residual.
        memory: Earlier updates that are mixed.
        steps: At most so many.
        patience: Give up where an update is not half of that so many steps ago.

    Returns:
        The answer.
    """
    answer = WaveAnswer(start, problem.relative_residual(start), False)
    u = start
    iterates: list[Real] = []
    updates: list[Real] = []
    sizes: list[float] = []
    for _ in range(steps):
        residual = problem.residual(u)
        relative = norm(residual) / norm(problem.right_hand_side)
        if relative < answer.residual:
            answer.u, answer.residual = u, relative
        update = -factor.solve(residual)
        answer.solves += 1
        sizes.append(norm(update))
        stalled = len(sizes) > patience and not sizes[-1] <= 0.5 * sizes[-1 - patience]
        if relative <= tolerance or stalled or not math.isfinite(relative):
            break
        iterates, updates = [*iterates[-memory:], _reals(u)], [*updates[-memory:], _reals(update)]
        mixed = iterates[-1] + updates[-1]
        if len(updates) > 1:
            steps_u, steps_g = np.diff(iterates, axis=0), np.diff(updates, axis=0)
            gram = steps_g @ steps_g.T
            gram += 1e-13 * np.trace(gram) * np.eye(len(gram))
            mixed = mixed - np.linalg.solve(gram, steps_g @ updates[-1]) @ (steps_u + steps_g)
        u = mixed.view(np.complex128)
    answer.converged = answer.residual <= tolerance
    return answer


def _reals(v: Complex) -> Real:
    return np.ascontiguousarray(v).view(np.float64)
