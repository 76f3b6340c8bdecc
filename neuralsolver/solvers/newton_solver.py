"""Newton's method as a solver.

    u ← u + δ,      J δ = −F,      J = ∂F/∂u

It takes full steps, as in the paper, and full steps may lead anywhere from a bad start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.base import check_positive
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import Solve, Solver, State, Stepper
from neuralsolver.solvers.newton import newton_correction
from neuralsolver.solvers.sparse_newton import Vector, direct
from neuralsolver.solvers.stopping import ResidualBelow


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method by sparse LU, for static equations between walls; one sample at a time.

    A Jacobian that is singular to the last digit gives no step: the sample ends as DIVERGED. Works
    in float64; ends as TOLERANCE when the relative residual falls below `tolerance`.
    """

    steps: int = 50
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        check_limits(self.steps, self.tolerance)

    @staticmethod
    def direction(jacobian: Any, residual: Vector) -> Vector:
        """δ with J δ = −F."""
        return direct(jacobian, residual)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """State from `u0`, or from zero."""
        return solve_in_float64(self._step, problem, u0, ResidualBelow(self.tolerance, self.steps))

    def _step(self, now: State) -> Tensor:
        """u + δ for each sample."""
        return now.u + newton_correction(now.problem, now.u, now.residual, self.direction)


def check_limits(steps: int, tolerance: float) -> None:
    """Raise InvalidInput for a number of steps or a tolerance that stops nothing."""
    if steps < 0:
        raise InvalidInput("steps", "zero or more", steps)
    check_positive("tolerance", tolerance)


def solve_in_float64(
    step: Stepper, problem: Problem, u0: Tensor | None, stop: ResidualBelow
) -> Solve:
    """A solve in float64, in which a tolerance can be reached on every grid."""
    problem = problem.in_precision(torch.float64)
    start = problem.zeros() if u0 is None else problem.impose(u0.to(problem.inputs))
    return Solve(problem, start, step, stop)
