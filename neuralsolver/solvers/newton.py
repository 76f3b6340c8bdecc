"""Newton on a Problem: `reference.newton` over the unknowns of each sample, as fields.

Used by the error estimate, by polishing, by the baselines, and by the fallback truth of data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.reference.newton import Vector, direct

Direction = Callable[[Any, Vector], Vector]
"""δ of one sample from its sparse J and its F."""


def newton_correction(
    problem: Problem, u: Tensor, residual: Tensor | None = None, direction: Direction = direct
) -> Tensor:
    """δ of every sample as a field, in float64 from sparse factors; NaN where J is singular."""
    residual = problem.residual(u) if residual is None else residual
    right = problem.grid.flatten(residual.detach()).double().cpu().numpy()
    found = [
        torch.from_numpy(direction(jacobian, values))
        for jacobian, values in zip(sparse_jacobian(problem, u), right, strict=True)
    ]
    return problem.grid.unflatten(torch.stack(found), u)
