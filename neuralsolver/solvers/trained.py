"""A trained neural solver, as a user meets it: a problem in, a solution out, on any grid.

What it does depends on what is asked for:

    steps = k           the plain iteration, k corrections (V-cycles on a finer grid)
    tolerance = ε       until the residual is ε times that of the zero field, accelerated: flexible
                        GMRES for linear equations, Anderson mixing for nonlinear ones
    neither             tolerance 1e-6

A tolerance below 1e-6 is out of reach of float32, so iterate and residual are then kept in float64
(iterative refinement; the networks stay in float32).
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
from neuralsolver.solvers.multilevel import MultilevelSolver, VCycle
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.solution import Solution

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
        if problem.resolution < self.resolution:
            least = f"at least {self.resolution}, on which the networks were trained"
            raise InvalidInput("resolution", least, problem.resolution)
        if self.network.corrector is None and problem.resolution != self.resolution:
            raise InvalidInput("resolution", f"{self.resolution}", problem.resolution)

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
        if steps is not None and tolerance is not None:
            raise InvalidInput(
                "steps", "either steps or a tolerance", f"both, {steps} and {tolerance}"
            )
        if self.network.corrector is None:
            solution = self.network.solve(problem, u0, observe, stop=FixedSteps(0))
            return replace(solution, seconds=time.perf_counter() - begin)
        if accelerate is None:
            accelerate = steps is None
        stop: StoppingRule = (
            FixedSteps(steps)
            if steps is not None
            else ResidualBelow(tolerance or DEFAULT_TOLERANCE, MAX_STEPS)
        )
        if tolerance is not None and tolerance < DEFAULT_TOLERANCE:
            problem = problem.in_precision(torch.float64)
        levels = MultilevelSolver(self.network, self.resolution)
        start = levels.start(problem) if u0 is None else problem.impose(u0.to(problem.inputs))
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
