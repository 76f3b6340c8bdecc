"""The one Newton: for F(x) = 0 over the unknowns of one problem, with its sparse Jacobian J.

    J δ = −F,    x ← x + α δ

    direct     sparse LU of J
    krylov     GMRES with an incomplete factorisation, to the accuracy that the step can use

α = 1, ½, ¼ … is the first by which the norm of F falls. A matrix that is singular to the last digit
gives a step that is not finite, and the iteration ends where it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, MatrixRankWarning, gmres, spilu, splu

from neuralsolver.cancellation import checkpoint

Vector = npt.NDArray[np.float64]
Solve = Callable[[Vector], Vector]

HALVINGS = 12
KRYLOV_RESTART, KRYLOV_CYCLES = 40, 10


@dataclass(frozen=True)
class Point:
    """An iterate, its F, the norm of that, and the inner iterations it took so far."""

    x: Vector
    residual: Vector
    norm: float
    inner: int


def factorised(matrix: Any) -> Solve:
    """A → A⁻¹ by sparse LU; not finite where A is singular or not finite."""
    if np.isfinite(matrix.data).all():
        try:
            return splu(matrix.tocsc()).solve
        except RuntimeError:  # how SuperLU says: singular
            pass
    return lambda right: np.full_like(right, np.nan)


def direct(jacobian: Any, residual: Vector) -> Vector:
    """δ with J δ = −F."""
    return factorised(jacobian)(-residual)


def krylov(jacobian: Any, residual: Vector, tolerance: float) -> tuple[Vector, int]:
    """δ with ‖J δ + F‖ ≤ tolerance ‖F‖ if GMRES gets there, and the number of its iterations."""
    count = 0

    def tick(_: object) -> None:
        nonlocal count
        checkpoint()
        count += 1

    matrix = jacobian.tocsc()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MatrixRankWarning)
            factor = spilu(matrix, drop_tol=1e-3, fill_factor=8)
        preconditioner = LinearOperator(matrix.shape, factor.solve)
    except RuntimeError:  # the incomplete factor is singular, the matrix itself need not be
        return direct(jacobian, residual), count
    solution, failed = gmres(
        matrix,
        -residual,
        rtol=tolerance,
        restart=KRYLOV_RESTART,
        maxiter=KRYLOV_CYCLES,
        M=preconditioner,
        callback=tick,
        callback_type="pr_norm",
    )
    return (direct(jacobian, residual) if failed else solution), count


def newton(
    function: Callable[[Vector], Vector],
    step: Callable[[Point], tuple[Vector, int]],
    x: Vector,
    *,
    target: float,
    steps: int,
) -> Iterator[Point]:
    """The iterates from `x` on, each with a smaller F, until its norm is at most `target`.

    `step` answers with δ and the inner iterations it took. The last iterate that is yielded is the
    best one; there is no further one where no multiple of a step makes F smaller.
    """
    residual = function(x)
    point = Point(x, residual, _norm(residual), 0)
    yield point
    for _ in range(steps):
        if not point.norm > target:
            return
        # numbers that overflow make a direction that is not finite, which is looked at below
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            direction, inner = step(point)
        after = _backtracked(function, point, direction, inner)
        if after is None:
            return
        point = after
        yield point


def _backtracked(
    function: Callable[[Vector], Vector], point: Point, direction: Vector, inner: int
) -> Point | None:
    if not np.isfinite(direction).all():
        return None
    for halvings in range(HALVINGS):
        x = point.x + 0.5**halvings * direction
        residual = function(x)
        norm = _norm(residual)
        if norm < point.norm:
            return Point(x, residual, norm, point.inner + inner)
    return None


def _norm(residual: Vector) -> float:
    """Root mean square."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean(np.square(residual))))
