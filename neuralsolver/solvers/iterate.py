"""The only loop in the package: u ← step(u), until a rule says stop, for each sample by itself.

A step is any callable (problem, u, residual) → u. A sample that has stopped is no longer computed:
the step then sees the remaining sub-batch. A step with memory (Anderson mixing) is told which
samples remain through its method `keep`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.solution import Solution, Status, residual_norm

DIVERGENCE_FACTOR = 1e4
"""A residual this many times larger than the smallest one so far is not coming back."""

Step = Callable[[Problem, Tensor, Tensor], Tensor]


class Solver(Protocol):
    """Anything that turns a Problem into a Solution."""

    def solve(
        self, problem: Problem, u0: Tensor | None = None, observe: Observer | None = None
    ) -> Solution: ...


@dataclass(frozen=True)
class Observation:
    """What happened in one step to the samples still running (`samples` indexes the batch)."""

    step: int
    samples: Tensor
    u: Tensor
    residual: Tensor
    correction: Tensor | None


Observer = Callable[[Observation], None]


class StoppingRule(Protocol):
    """Looks at the residual history (k+1, B) and answers for each sample; None: go on."""

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]: ...


@dataclass(frozen=True)
class FixedSteps:
    """Stop after a number of steps."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InvalidInput("steps", "zero or more", self.steps)

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        done = len(norms) - 1 >= self.steps
        return [Status.FINISHED if done else None] * norms.shape[1]


@dataclass(frozen=True)
class ResidualPlateau:
    """The paper's rule: stop when `window` steps improved the residual by less than `rtol`."""

    max_steps: int = 120
    window: int = 10
    rtol: float = 1e-2

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        if len(norms) - 1 >= self.max_steps:
            return [Status.FINISHED] * norms.shape[1]
        if len(norms) <= self.window:
            return [None] * norms.shape[1]
        before = norms[: -self.window].amin(0)
        recent = norms[-self.window :].amin(0)
        return [Status.PLATEAU if flat else None for flat in recent > (1 - self.rtol) * before]


@dataclass(frozen=True)
class ResidualBelow:
    """Stop when the residual is below `tolerance` times that of the zero field."""

    tolerance: float
    max_steps: int = 150

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise InvalidInput("tolerance", "a positive number", self.tolerance)

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        verdict: Status | None = Status.STEP_LIMIT if len(norms) > self.max_steps else None
        below = norms[-1] <= self.tolerance * scale
        return [Status.TOLERANCE if reached else verdict for reached in below]


def iterate(
    step: Step,
    problem: Problem,
    u: Tensor,
    stop: StoppingRule,
    observe: Observer | None = None,
) -> Solution:
    """Apply `step` to `u` until `stop` is content with every sample."""
    start = time.perf_counter()
    scale = residual_norm(problem.residual(problem.zeros())).clamp_min(torch.finfo(u.dtype).tiny)
    running = torch.arange(problem.batch)
    status: list[Status] = [Status.FINISHED] * problem.batch
    answer, best = u.clone(), torch.full((problem.batch,), torch.inf, dtype=torch.float64)
    steps = torch.zeros(problem.batch, dtype=torch.long)
    history: list[Tensor] = []
    active, correction = problem, None
    while True:
        residual = active.residual(u)
        norm = residual_norm(residual)
        row = torch.full((problem.batch,), torch.nan, dtype=torch.float64)
        row[running] = norm
        history.append(row)
        norms = torch.stack(history)[:, running]
        diverged = (
            ~(norm <= DIVERGENCE_FACTOR * norms[:-1].amin(0))
            if len(history) > 1
            else ~(norm < torch.inf)
        )
        verdicts = stop(norms, scale[running])
        # a fixed number of steps returns its last iterate, everything else its best one
        better = (norm < best[running]) | torch.tensor([v is Status.FINISHED for v in verdicts])
        better &= ~diverged
        answer[running[better]] = u[better]
        best[running[better]] = norm[better]
        steps[running] = len(history) - 1
        if observe is not None:
            observe(Observation(len(history) - 1, running, u, residual, correction))
        for i, sample in enumerate(running.tolist()):
            verdict = Status.DIVERGED if diverged[i] else verdicts[i]
            if verdict is not None:
                status[sample] = verdict
        go_on = torch.tensor([v is None for v in verdicts]) & ~diverged
        if not bool(go_on.any()):
            break
        if not bool(go_on.all()):
            running, u, residual = running[go_on], u[go_on], residual[go_on]
            active = problem.select(running)
            if hasattr(step, "keep"):
                step.keep(go_on)
        previous = u
        u = step(active, u, residual)
        correction = u - previous
    seconds = time.perf_counter() - start
    return Solution(problem, answer, tuple(status), torch.stack(history), scale, steps, seconds)
