"""The only loop in the package: u ← step(u), until a rule says stop, for each sample by itself.

A stepper is made for one solve and owns everything that this solve remembers (directions, factors,
hierarchies); a solver is a description that any number of solves may share. A stepper is called
with the iterate and answers with the next u. A sample that has stopped is no longer
computed: the stepper then sees the remaining sub-batch, and is told which samples remain through
its method `keep`, if it has one.

The loop is a generator of observations. Whoever drives it may look at each of them, leave at any
time, or come back later; the seconds of a solution are those spent inside.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import jacobian_diagonal
from neuralsolver.solvers.norms import guess_norm, residual_norm
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.stopping import StoppingRule

DIVERGENCE_FACTOR = 1e4
"""A residual this many times larger than the smallest one so far is not coming back."""


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a step has to know: the problem, a field, and its residual."""

    problem: Problem
    u: Tensor
    residual: Tensor

    @classmethod
    def of(cls, problem: Problem, u: Tensor) -> Iterate:
        """A field with its residual."""
        return cls(problem, u, problem.residual(u))

    @cached_property
    def measured(self) -> Tensor:
        """The residual as it is measured (`Problem.measure`), computed once."""
        return self.problem.measure(self.residual)

    @cached_property
    def diagonal(self) -> Tensor:
        """diag ∂F/∂u as a field, one where nothing is solved for; computed once."""
        return jacobian_diagonal(self.problem, self.u)

    def select(self, mask: Tensor, problem: Problem) -> Iterate:
        """Some of the samples, which `problem` consists of."""
        chosen = Iterate(problem, self.u[mask], self.residual[mask])
        if self.measured is not self.residual:
            chosen.__dict__["measured"] = self.measured[mask]
        return chosen


@dataclass(frozen=True)
class Observation:
    """What happened in one step to the samples that run (`samples` indexes the batch).

    `stage` is "start" while a start is sought, on a coarser grid than that of the problem; "solve";
    or "polish". `norms` are the measured residuals, `scale` those of the first guess, their unit.

    >>> import neuralsolver as ns
    >>> solver, seen = ns.load("poisson"), []
    >>> _ = solver.solve(ns.Problem.random(solver.equation, 64), observe=seen.append, steps=1)
    >>> [(now.stage, now.step, tuple(now.u.shape)) for now in seen]
    [('solve', 0, (1, 1, 64, 64)), ('solve', 1, (1, 1, 64, 64))]
    """

    stage: str
    step: int
    samples: Tensor
    u: Tensor
    residual: Tensor
    norms: Tensor
    scale: Tensor
    correction: Tensor | None = None


Stepper = Callable[[Iterate], Tensor]
Observer = Callable[[Observation], None]
Inverse = Callable[[Tensor], Tensor]
Iterations = Generator[Observation, None, Solution]
Start = Generator[Observation, None, Tensor]


@dataclass(frozen=True, eq=False)
class Solve:
    """One solve, composed: the problem in its working precision and what is done to it.

    `start` is a field, or a generator that observes how it is found. `finish` goes on from what the
    loop has reached. `stage` is what the loop itself is called in its observations.
    """

    problem: Problem
    start: Tensor | Start
    stepper: Stepper
    stop: StoppingRule
    finish: Callable[[Solution], Iterations] | None = None
    stage: str = "solve"


class Solver(ABC):
    """Anything that turns a Problem into a Solution. A subclass says how a solve is composed.

    >>> import neuralsolver as ns
    >>> solver = ns.load("poisson")
    >>> problem = ns.Problem.random(solver.equation, 64)
    >>> stages = [seen.stage for seen in solver.iterations(problem, steps=2)]
    >>> stages
    ['solve', 'solve', 'solve']
    """

    @abstractmethod
    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """The solve of a problem, from `u0` where it is given."""

    def solve(
        self,
        problem: Problem,
        u0: Tensor | None = None,
        observe: Observer | None = None,
        **options: Any,
    ) -> Solution:
        """The solution; `observe` is called with every observation on the way.

        It is differentiable with respect to inputs, known values and constants that ask for it.
        """
        if not (problem.varies or problem.equation.varying):
            return drained(self.iterations(problem, u0, **options), observe)
        from neuralsolver.solvers.adjoint import with_gradient

        solution = drained(self.iterations(problem.detached(), u0, **options), observe)
        return with_gradient(self, problem, solution) if problem.varies else solution

    def inverse(self, problem: Problem, u: Tensor) -> Inverse:
        """An approximation of J(u)⁻¹ of a problem whose J is sparse; here V-cycles or factors."""
        from neuralsolver.solvers.multigrid import sparse_inverse

        return sparse_inverse(problem, u)

    @torch.no_grad()
    def iterations(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The observations of a solve one after another; the generator returns the solution."""
        start = None if u0 is None else problem.adopt(u0)
        running, spent = self.run(problem, start, **options), 0.0
        while True:
            begin = time.perf_counter()
            try:
                seen = next(running)
            except StopIteration as end:
                solution: Solution = end.value
                # who has no steps knows better what its answer took
                seconds = solution.seconds or spent + time.perf_counter() - begin
                return replace(solution, seconds=seconds)
            spent += time.perf_counter() - begin
            yield seen

    def run(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The solve that `compose` describes."""
        solve = self.compose(problem, u0, **options)
        start = solve.start if isinstance(solve.start, Tensor) else (yield from solve.start)
        loop = iterations(solve.stepper, solve.problem, start, solve.stop, solve.stage)
        solution = yield from loop
        return solution if solve.finish is None else (yield from solve.finish(solution))


def drained(iterations: Iterations, observe: Observer | None = None) -> Solution:
    """What a generator of observations returns in the end."""
    while True:
        try:
            seen = next(iterations)
        except StopIteration as end:
            solution: Solution = end.value
            return solution
        if observe is not None:
            observe(seen)


def iterate(
    stepper: Stepper,
    problem: Problem,
    u: Tensor,
    stop: StoppingRule,
    observe: Observer | None = None,
) -> Solution:
    """Apply `stepper` to `u` until `stop` is content with every sample.

    A stepper of your own takes the iterate (`problem`, `u`, `residual`) and returns the next u,
    here (B, 1, n, n):

    >>> import neuralsolver as ns
    >>> problem = ns.Problem.random(ns.Poisson(), 16)
    >>> jacobi = lambda now: now.u + now.residual / (4 * 15**2)
    >>> ns.iterate(jacobi, problem, problem.zeros(), ns.ResidualBelow(1e-3, 2000)).good
    True
    """
    begin = time.perf_counter()
    solution = drained(iterations(stepper, problem, u, stop), observe)
    return replace(solution, seconds=time.perf_counter() - begin)


def iterations(
    stepper: Stepper, problem: Problem, u: Tensor, stop: StoppingRule, stage: str = "solve"
) -> Iterations:
    """The loop as a generator: each iterate is observed before it is judged.

    >>> import neuralsolver as ns
    >>> problem = ns.Problem.random(ns.Poisson(), 16)
    >>> jacobi = lambda now: now.u + now.residual / (4 * 15**2)
    >>> for seen in ns.iterations(jacobi, problem, problem.zeros(), ns.FixedSteps(100)):
    ...     if seen.step == 3:
    ...         break  # it may be left at any time
    >>> tuple(seen.u.shape)
    (1, 1, 16, 16)
    """
    ledger = _Ledger(problem, u)
    active, correction = problem, None
    while True:
        now = Iterate.of(active, u)
        norms = residual_norm(now.measured).cpu()
        step, samples = len(ledger.history), ledger.running
        scale = ledger.scale[samples]
        yield Observation(stage, step, samples, u, now.residual, norms, scale, correction)
        go_on = ledger.enter(u, norms, stop)
        if not bool(go_on.any()):
            break
        if not bool(go_on.all()):
            active = problem.select(ledger.running)
            now = now.select(go_on, active)
            if hasattr(stepper, "keep"):
                stepper.keep(go_on)
        try:
            u = stepper(now)
        except (torch.OutOfMemoryError, MemoryError):
            ledger.close(Status.OUT_OF_MEMORY)
            break
        correction = u - now.u
    return ledger.solution()


class _Ledger:
    """What is known of every sample: whether it runs, its residuals, its best iterate."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        self.problem = problem
        self.scale = guess_norm(problem)
        self.running = torch.arange(problem.batch)
        self.status = [Status.FINISHED] * problem.batch
        self.steps = torch.zeros(problem.batch, dtype=torch.long)
        self.history: list[Tensor] = []
        self.answer = u.clone()
        self.best = torch.full((problem.batch,), torch.inf, dtype=torch.float64)

    def enter(self, u: Tensor, norm: Tensor, stop: StoppingRule) -> Tensor:
        """Book the iterates of the running samples; which of these go on?"""
        self.steps[self.running] = len(self.history)
        row = torch.full((self.problem.batch,), torch.nan, dtype=torch.float64)
        row[self.running] = norm
        self.history.append(row)
        norms = torch.stack(self.history)[:, self.running]
        verdicts = stop(norms, self.scale[self.running])
        first = len(norms) == 1
        before = torch.full_like(norms[-1], torch.inf) if first else norms[:-1].amin(0)
        # written so that NaN counts as divergence
        diverged = ~(norms[-1] <= DIVERGENCE_FACTOR * before) | ~(norms[-1] < torch.inf)
        for i in torch.nonzero(diverged).flatten().tolist():
            verdicts[i] = Status.DIVERGED
        # a fixed number of steps returns its last iterate, everything else its best one
        last = torch.tensor([verdict is Status.FINISHED for verdict in verdicts], dtype=torch.bool)
        better = last | ((norms[-1] < self.best[self.running]) & ~diverged)
        self.answer[self.running[better]] = u[better]
        self.best[self.running[better]] = norms[-1][better]
        for sample, verdict in zip(self.running.tolist(), verdicts, strict=True):
            if verdict is not None:
                self.status[sample] = verdict
        go_on = torch.tensor([verdict is None for verdict in verdicts], dtype=torch.bool)
        self.running = self.running[go_on]
        return go_on

    def close(self, status: Status) -> None:
        """End every running sample."""
        for sample in self.running.tolist():
            self.status[sample] = status

    def solution(self) -> Solution:
        return Solution(
            problem=self.problem,
            tensor=self._finite_answer(),
            status=tuple(self.status),
            residual_norms=torch.stack(self.history),
            residual_scale=self.scale,
            steps=self.steps,
            seconds=0.0,
        )

    def _finite_answer(self) -> Tensor:
        """The answers; the first guess where nothing finite was ever seen."""
        lost = ~torch.isfinite(self.answer).flatten(1).all(1)
        if bool(lost.any()):
            self.answer[lost] = self.problem.first_guess()[lost]
        return self.answer
