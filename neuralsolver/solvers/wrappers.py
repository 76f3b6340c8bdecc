"""Solvers made of others: an answer without steps, and a solver with settings of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers.loop import Iterations, Observation, Solve, Solver
from neuralsolver.solvers.solution import Solution


class Answer(Solver):
    """A solver without steps: a function from the problem to its answer, or to a Solution.

    `seconds` are those of the answer; what is done only to judge it is left out.
    """

    def __init__(self, answer: Callable[[Problem], Tensor | Solution]) -> None:
        self.answer = answer

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Nothing is composed: see `run`."""
        raise TypeError("an answer has no steps")

    def run(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The answer; it needs no start."""
        begin = time.perf_counter()
        found = self.answer(problem)
        seconds = time.perf_counter() - begin
        solution = (
            found if isinstance(found, Solution) else Solution.of(problem, found, seconds=seconds)
        )
        residual = solution.problem.residual(solution.tensor)
        at = (torch.arange(problem.batch), solution.tensor, residual)
        yield Observation("solve", 0, *at, solution.residual_norms[-1], solution.residual_scale)
        return solution


@dataclass(frozen=True)
class Configured(Solver):
    """A solver with a start, and options, of its own."""

    solver: Solver
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Callable[[Problem], Tensor] | None = None

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """The solve of the solver."""
        return self.solver.compose(problem, self._start(problem, u0), **self.options, **options)

    def run(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The run of the solver."""
        return self.solver.run(problem, self._start(problem, u0), **self.options, **options)

    def _start(self, problem: Problem, u0: Tensor | None) -> Tensor | None:
        return self.start(problem) if u0 is None and self.start is not None else u0
