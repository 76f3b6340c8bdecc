"""The two numbers of every table, per sample.

relative L2 error    ‖u − u*‖ / ‖u*‖
residual MSE         mean F(u)²          over all grid points, walls included (there F = 0)
"""

from __future__ import annotations

import math

from torch import Tensor

from neuralsolver.equations import Problem


def relative_error(u: Tensor, exact: Tensor) -> Tensor:
    """Relative L2 error of each sample, in float64."""
    difference = (u.double() - exact.double()).flatten(1)
    relative: Tensor = difference.norm(dim=1) / exact.double().flatten(1).norm(dim=1)
    return relative


def residual_mse(problem: Problem, u: Tensor) -> Tensor:
    """Mean squared residual of each sample."""
    return problem.residual(u.to(problem.inputs)).flatten(1).double().square().mean(1)


def four_digits(value: float | Tensor) -> float | None:
    """A number as it is stored in results, None for what is not finite."""
    number = float(value)
    return float(f"{number:.4g}") if math.isfinite(number) else None
