"""MINRES: the smallest residual over a Krylov space of a symmetric operator, definite or not.

    x_k = argmin ‖b − Ax‖₂  over  span{b, Ab, …, A^(k−1) b}

by the Lanczos recurrence and plane rotations (Paige and Saunders, 1975).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neuralsolver.cancellation import checkpoint
from neuralsolver.reference.products import Real, dot, norm


def minres(
    apply: Callable[[Real], Real], right: Real, tolerance: float, max_iterations: int
) -> tuple[Real, bool]:
    """x with ‖right − Ax‖ ≤ tolerance·‖right‖, and whether that was reached."""
    size = norm(right)
    solution = np.zeros_like(right)
    if size == 0.0:
        return solution, True
    older, newer = right, right
    previous_beta, beta = 0.0, size
    cosine, sine = -1.0, 0.0
    residual, diagonal, corner = size, 0.0, 0.0
    direction, last_direction = np.zeros_like(right), np.zeros_like(right)
    for iteration in range(max_iterations):
        checkpoint()
        vector = newer / beta
        product = apply(vector)
        if iteration:
            product -= (beta / previous_beta) * older
        alpha = dot(vector, product)
        product -= (alpha / beta) * newer
        older, newer = newer, product
        previous_beta, beta = beta, norm(product)

        # The next column of the tridiagonal Lanczos matrix, rotated to upper triangular form.
        last_corner, delta = corner, cosine * diagonal + sine * alpha
        pivot = sine * diagonal - cosine * alpha
        corner, diagonal = sine * beta, -cosine * beta
        gamma = max(float(np.hypot(pivot, beta)), np.finfo(np.float64).tiny)
        cosine, sine = pivot / gamma, beta / gamma

        vector -= last_corner * last_direction
        vector -= delta * direction
        vector /= gamma
        last_direction, direction = direction, vector
        solution += (cosine * residual) * vector
        residual *= sine
        if not np.isfinite(residual):
            return solution, False
        if residual <= tolerance * size or beta == 0.0:
            return solution, True
    return solution, False
