"""The two numbers of every table, per sample.

relative L2 error    ‖u − u*‖ / ‖u*‖
residual MSE         mean F(u)²          over all grid points, walls included (there F = 0)
"""

from __future__ import annotations

import math

from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers.history import relative_error

__all__ = ["digits", "four_digits", "relative_error", "residual_mse"]


def residual_mse(problem: Problem, u: Tensor) -> Tensor:
    """Mean squared residual of each sample."""
    return problem.residual(u.to(problem.inputs)).flatten(1).double().square().mean(1)


def digits(value: float | Tensor, count: int) -> float | None:
    """A number with so many digits, None for what is not finite."""
    number = float(value)
    return float(f"{number:.{count}g}") if math.isfinite(number) else None


def four_digits(value: float | Tensor) -> float | None:
    """A number as it is stored in results."""
    return digits(value, 4)
