"""Numbers of the tables, per sample, and how they are written down.

relative L2 error    ‖u − u*‖ / ‖u*‖     (`neuralsolver.solvers.norms.relative_error`)
residual MSE         mean F(u)²          over all grid points, walls included (there F = 0)
"""

from __future__ import annotations

import math

from torch import Tensor

from neuralsolver.equations import Problem


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
