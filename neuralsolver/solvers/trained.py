"""A trained neural solver, as a user meets it: a problem in, a solution out, on any grid.

What it does depends on what is asked for:

    steps = k           the plain iteration, k corrections (V-cycles on a finer grid)
    tolerance = ε       until the residual is ε times that of the zero field, accelerated: flexible
                        GMRES for linear equations, Anderson mixing for nonlinear ones
    neither             tolerance 1e-6

A flow is different: a true one has a residual, below which no tolerance leads, so that with neither
the iteration goes on for as long as the residual improves, in float32. See `torus` for its grids.

With a tolerance, iterate and residual are kept in float64 (iterative refinement; the networks stay
in float32): how small a residual float32 can show depends on the grid, 1e-5 on 64 × 64 points.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Equation, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.acceleration import Anderson, Krylov
from neuralsolver.solvers.classical import polish as finish
from neuralsolver.solvers.iterate import (
    FixedSteps,
    Observer,
    ResidualBelow,
    Step,
    StoppingRule,
    iterate,
)
from neuralsolver.solvers.multilevel import VCycle, nested_iteration
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.solution import Solution
from neuralsolver.solvers.torus import Flow

DEFAULT_TOLERANCE = 1e-6
MAX_STEPS = 200


@dataclass(frozen=True)
class TrainedSolver:
    """Networks with the equation and the grid they were trained for, and the record of it."""

    network: NeuralSolver
    equation: Equation
    resolution: int
    record: Mapping[str, Any]

    def check(self, problem: Problem) -> None:
        """Raise InvalidInput for a problem these networks cannot be applied to."""
        expected = self.equation
        if problem.equation.input_names != expected.input_names:
            names = " and ".join(expected.input_names)
            raise InvalidInput(
                "problem", f"an equation with {names} as input", problem.equation.name
            )
        if expected.periodic:
            self._check_flow(problem)
            return
        if problem.resolution < self.resolution:
            least = f"at least {self.resolution}, on which the networks were trained"
            raise InvalidInput("resolution", least, problem.resolution)
        if self.network.corrector is None and problem.resolution != self.resolution:
            raise InvalidInput("resolution", f"{self.resolution}", problem.resolution)

    def _check_flow(self, problem: Problem) -> None:
        """The frames are the channels of the networks; the grid is of no concern."""
        trained, got = (e.solution_shape(8)[1] - 1 for e in (self.equation, problem.equation))
        if got != trained:
            raise InvalidInput("frames", f"{trained}, as trained", got)

    @torch.no_grad()
    def solve(
        self,
        problem: Problem,
        u0: Tensor | None = None,
        observe: Observer | None = None,
        *,
        steps: int | None = None,
        tolerance: float | None = None,
        accelerate: bool | None = None,
        polish: bool = False,
    ) -> Solution:
        """Solve `problem`; see the module for what `steps` and `tolerance` choose."""
        begin = time.perf_counter()
        self.check(problem)
        stop = self._rule(steps, tolerance)
        accelerate = steps is None if accelerate is None else accelerate
        if problem.equation.periodic:
            flow = Flow(self.network, self.resolution, accelerate)
            solution = flow.solve(problem.in_precision(torch.float32), u0, observe, stop=stop)
            return replace(solution, seconds=time.perf_counter() - begin)
        if steps is None:
            problem = problem.in_precision(torch.float64)
        if u0 is None:
            start = nested_iteration(self.network, self.resolution, problem)
        else:
            start = problem.impose(torch.as_tensor(u0).to(problem.inputs))
        step: Step = self.network.step
        if problem.resolution > self.resolution:
            step = VCycle(self.network, self.resolution)
        if accelerate:
            step = Krylov(step) if problem.equation.linear else Anderson(step)
        solution = iterate(step, problem, start, stop, observe)
        solution = replace(solution, seconds=time.perf_counter() - begin)
        if polish and tolerance is not None and not solution.good:
            solution = finish(solution, tolerance, compare=True)
        return solution

    def _rule(self, steps: int | None, tolerance: float | None) -> StoppingRule:
        if steps is not None and tolerance is not None:
            got = f"{steps} steps and a tolerance of {tolerance}"
            raise InvalidInput("steps", "either steps or a tolerance", got)
        if self.network.corrector is None:
            if steps:
                raise InvalidInput("steps", "0, because this model has no corrector", steps)
            return FixedSteps(0) if tolerance is None else ResidualBelow(tolerance, 0)
        if steps is not None:
            return FixedSteps(steps)
        if tolerance is None and self.equation.periodic:
            return self.network.stop
        return ResidualBelow(tolerance or DEFAULT_TOLERANCE, MAX_STEPS)
