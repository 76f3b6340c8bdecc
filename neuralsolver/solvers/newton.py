"""Newton on a Problem, all samples at once: δ over the unknowns of each sample, as fields.

Used by the error estimate, by nonlinear solves and by the baselines. `newton_krylov` goes sample by
sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers.sparse_newton import HALVINGS, Vector, direct

if TYPE_CHECKING:
    from neuralsolver.solvers.loop import State

Direction = Callable[[Any, Vector], Vector]
"""δ of one sample from its sparse J and its F."""


def newton_correction(
    problem: Problem, u: Tensor, residual: Tensor | None = None, direction: Direction = direct
) -> Tensor:
    """δ of every sample as a field, in float64 from sparse factors; NaN where J is singular."""
    residual = problem.residual(u) if residual is None else residual
    right = problem.space.flatten(residual.detach()).double().cpu().numpy()
    found = [
        torch.from_numpy(direction(jacobian, values))
        for jacobian, values in zip(sparse_jacobian(problem, u), right, strict=True)
    ]
    return problem.space.unflatten(torch.stack(found), u)


def solve_samples(inverses: Sequence[Callable[[Vector], Vector]], right: Tensor) -> Tensor:
    """J⁻¹ of every right-hand side, in float64.

    Args:
        inverses: A map of vectors for every sample, or one for all, which then maps columns.
        right: The vectors, (batch, size).

    Returns:
        The solutions, (batch, size).
    """
    rows = right.double().cpu().numpy()
    if len(inverses) == 1:
        found = inverses[0](rows.T).T
    else:
        found = np.stack([inverse(row) for inverse, row in zip(inverses, rows, strict=True)])
    return torch.from_numpy(np.ascontiguousarray(found))


class NewtonStep:
    """u ← u + αδ with J(u)δ = −F(u) by sparse factors, and the first α = 1, ½ … that helps."""

    def __call__(self, now: State) -> Tensor:
        problem, delta = now.problem, newton_correction(now.problem, now.u, now.residual)
        before = _size(now.preconditioned_residual)
        alpha = torch.ones_like(before)
        u = problem.impose(now.u + delta)
        for _ in range(HALVINGS):
            measured = problem.preconditioned_residual(problem.residual(u))
            worse = ~(_size(measured) < before)
            if not bool(worse.any()):
                break
            alpha = torch.where(worse, alpha / 2, alpha)
            u = problem.impose(now.u + alpha.view(-1, *[1] * (u.dim() - 1)) * delta)
        return u


def _size(r: Tensor) -> Tensor:
    return r.flatten(1).square().sum(1)
