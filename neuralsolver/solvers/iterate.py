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
    """Stop when the residual is below `tolerance` times that of the first guess."""

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
    begin = time.perf_counter()
    ledger = _Ledger(problem, u)
    active, correction = problem, None
    while True:
        residual = active.residual(u)
        if observe is not None:
            observe(Observation(ledger.step, ledger.running, u, residual, correction))
        go_on = ledger.enter(u, residual_norm(active.weigh(residual)), stop)
        if not bool(go_on.any()):
            break
        if not bool(go_on.all()):
            u, residual = u[go_on], residual[go_on]
            active = problem.select(ledger.running)
            if hasattr(step, "keep"):
                step.keep(go_on)
        try:
            proposal = step(active, u, residual)
        except (torch.OutOfMemoryError, MemoryError):
            ledger.close(Status.OUT_OF_MEMORY)
            break
        u, correction = proposal, proposal - u
    return ledger.solution(time.perf_counter() - begin)


class _Ledger:
    """What is known of every sample: whether it runs, its residuals, its best iterate."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        self.problem = problem
        guess = residual_norm(problem.weigh(problem.residual(problem.first_guess())))
        self.scale = guess.cpu().clamp_min(torch.finfo(torch.float64).tiny)
        self.running = torch.arange(problem.batch)
        self.status = [Status.FINISHED] * problem.batch
        self.steps = torch.zeros(problem.batch, dtype=torch.long)
        self.history: list[Tensor] = []
        self.answer = u.clone()
        self.best = torch.full((problem.batch,), torch.inf, dtype=torch.float64)

    @property
    def step(self) -> int:
        """The number of steps made."""
        return len(self.history)

    def enter(self, u: Tensor, norm: Tensor, stop: StoppingRule) -> Tensor:
        """Book the iterates of the running samples; which of these go on?"""
        self.steps[self.running] = self.step
        row = torch.full((self.problem.batch,), torch.nan, dtype=torch.float64)
        row[self.running] = norm.cpu()
        self.history.append(row)
        norms = torch.stack(self.history)[:, self.running]
        verdicts = stop(norms, self.scale[self.running])
        before = norms[:-1].amin(0) if self.step > 1 else torch.full_like(norms[-1], torch.inf)
        # written so that NaN counts as divergence
        diverged = ~(norms[-1] <= DIVERGENCE_FACTOR * before) | ~(norms[-1] < torch.inf)
        for i in torch.nonzero(diverged).flatten().tolist():
            verdicts[i] = Status.DIVERGED
        # a fixed number of steps returns its last iterate, everything else its best one
        last = torch.tensor([verdict is Status.FINISHED for verdict in verdicts])
        better = last | ((norms[-1] < self.best[self.running]) & ~diverged)
        self.answer[self.running[better]] = u[better]
        self.best[self.running[better]] = norms[-1][better]
        for sample, verdict in zip(self.running.tolist(), verdicts, strict=True):
            if verdict is not None:
                self.status[sample] = verdict
        go_on = torch.tensor([verdict is None for verdict in verdicts])
        self.running = self.running[go_on]
        return go_on

    def close(self, status: Status) -> None:
        """End every running sample."""
        for sample in self.running.tolist():
            self.status[sample] = status

    def solution(self, seconds: float) -> Solution:
        return Solution(
            problem=self.problem,
            tensor=self.answer,
            status=tuple(self.status),
            residual_norms=torch.stack(self.history),
            residual_scale=self.scale,
            steps=self.steps,
            seconds=seconds,
        )
