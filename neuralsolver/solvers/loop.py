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
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from typing import Any, TypeVar

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import diagonal_of, jacobian_blocks
from neuralsolver.fields.units import Units, scaled
from neuralsolver.solvers.norms import guess_norm, residual_norm
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.stopping import StoppingRule

DIVERGENCE_FACTOR = 1e4
"""A residual this many times larger than the smallest one so far is not coming back."""


@dataclass(frozen=True, eq=False)
class State:
    """What a step has to know: the problem, a field, and its residual."""

    problem: Problem
    u: Tensor
    residual: Tensor

    @classmethod
    def of(cls, problem: Problem, u: Tensor) -> State:
        """A field with its residual."""
        return cls(problem, u, problem.residual(u))

    @cached_property
    def preconditioned_residual(self) -> Tensor:
        """The residual as it is measured (`Problem.preconditioned_residual`), computed once."""
        return self.problem.preconditioned_residual(self.residual)

    @cached_property
    def blocks(self) -> Tensor:
        """The block of ∂F/∂u at each point, identity where nothing is solved for; once."""
        return jacobian_blocks(self.problem, self.u)

    @property
    def diagonal(self) -> Tensor:
        """diag ∂F/∂u of every field, one where nothing is solved for."""
        return diagonal_of(self.blocks)

    def select(self, mask: Tensor, problem: Problem) -> State:
        """Some of the samples, which `problem` consists of."""
        chosen = State(problem, self.u[mask], self.residual[mask])
        if self.preconditioned_residual is not self.residual:
            chosen.__dict__["preconditioned_residual"] = self.preconditioned_residual[mask]
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


Stepper = Callable[[State], Tensor]
Observer = Callable[[Observation], None]
Inverse = Callable[[Tensor], Tensor]
Iterations = Generator[Observation, None, Solution]
Start = Generator[Observation, None, Tensor]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Solve:
    """One solve, composed: the problem in its working precision and what is done to it.

    `start` is a field, or a generator that observes how it is found. `finishes` continue from what
    the loop has reached, one after another. `stage` is what observations call the loop.
    """

    problem: Problem
    start: Tensor | Start
    stepper: Stepper
    stop: StoppingRule
    finishes: Sequence[Callable[[Solution], Iterations]] = ()
    stage: str = "solve"

    def run(self) -> Iterations:
        """Find the start, iterate, finish."""
        start = self.start if isinstance(self.start, Tensor) else (yield from self.start)
        solution = yield from iterations(self.stepper, self.problem, start, self.stop, self.stage)
        for finish in self.finishes:
            solution = yield from finish(solution)
        return solution


class Solver(ABC):
    """Anything that turns a Problem into a Solution. A subclass says how a solve is composed.

    >>> import neuralsolver as ns
    >>> solver = ns.load("poisson")
    >>> problem = ns.Problem.random(solver.equation, 64)
    >>> stages = [seen.stage for seen in solver.iterations(problem, steps=2)]
    >>> stages
    ['solve', 'solve', 'solve']
    """

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

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
        if observe is not None and not callable(observe):
            raise InvalidInput("observe", "a function of an observation", observe)
        if not isinstance(problem, Problem):
            raise InvalidInput("problem", "a Problem", type(problem).__name__)
        if not (problem.varies or problem.equation.varying):
            return drained(self.iterations(problem, u0, **options), observe)
        from neuralsolver.solvers.adjoint import with_gradient

        solution = drained(self.iterations(problem.detached(), u0, **options), observe)
        return with_gradient(self, problem, solution) if problem.varies else solution

    def prepare(self, problem: Problem) -> Solver:
        """A direct solver that solves many sources of one operator with one factorisation.

        >>> import neuralsolver as ns
        >>> first, second = (ns.Problem.random(ns.Poisson(), 64, seed=i) for i in range(2))
        >>> prepared = ns.load("poisson").prepare(first)
        >>> prepared.solve(first).good, prepared.solve(second, tolerance=1e-10).good
        (True, True)

        Args:
            problem: A linear problem with the grid, fixed points and coefficients of the operator.

        Returns:
            A solver of problems that differ from this one in their sources and fixed values only.

        Raises:
            InvalidInput: The problem is not linear, or has several operators.
        """
        from neuralsolver.solvers.solve import prepare

        return prepare(problem)

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
        return (yield from self.compose(problem, u0, **options).run())


def mapped(
    change: Callable[[Observation], Observation], running: Generator[Observation, None, Result]
) -> Generator[Observation, None, Result]:
    """A generator whose observations are changed on their way; it returns what that returns."""
    while True:
        try:
            seen = next(running)
        except StopIteration as end:
            result: Result = end.value
            return result
        yield change(seen)


def in_natural_units(
    compose: Callable[[Problem, Tensor | None], Solve], problem: Problem, u0: Tensor | None
) -> Iterations:
    """The solve of a problem, done in its natural units where it has others."""
    found = problem.natural()
    if found is None:
        return (yield from compose(problem, u0).run())
    inner, units = found
    running = compose(inner, None if u0 is None else scaled(u0, -units.solution)).run()
    solution = yield from mapped(partial(_seen, units=units), running)
    return _returned(solution, problem, units)


def _seen(seen: Observation, units: Units) -> Observation:
    solution, residual = (f[seen.samples] for f in (units.solution, units.residual))
    return replace(
        seen,
        u=scaled(seen.u, solution),
        residual=scaled(seen.residual, residual),
        norms=scaled(seen.norms, residual),
        scale=scaled(seen.scale, residual),
        correction=None if seen.correction is None else scaled(seen.correction, solution),
    )


def _returned(solution: Solution, problem: Problem, units: Units) -> Solution:
    problem = problem.in_precision(solution.problem.inputs.dtype)
    return replace(
        solution,
        problem=problem,
        tensor=problem.impose(scaled(solution.tensor, units.solution)),
        residual_norms=scaled(solution.residual_norms.T, units.residual).T,
        residual_scale=scaled(solution.residual_scale, units.residual),
    )


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
    >>> from neuralsolver.solvers import ResidualBelow, iterate
    >>> problem = ns.Problem.random(ns.Poisson(), 16)
    >>> jacobi = lambda now: now.u + now.residual / (4 * 15**2)
    >>> iterate(jacobi, problem, problem.zeros(), ResidualBelow(1e-3, 2000)).good
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
    >>> from neuralsolver.solvers import FixedSteps, iterations
    >>> problem = ns.Problem.random(ns.Poisson(), 16)
    >>> jacobi = lambda now: now.u + now.residual / (4 * 15**2)
    >>> for seen in iterations(jacobi, problem, problem.zeros(), FixedSteps(100)):
    ...     if seen.step == 3:
    ...         break  # it may be left at any time
    >>> tuple(seen.u.shape)
    (1, 1, 16, 16)
    """
    ledger = _Ledger(problem, u)
    active, correction = problem, None
    while True:
        now = State(active, u, active.residual(u))
        norms = residual_norm(now.preconditioned_residual).cpu()
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
        """The answers; the first guess where nothing finite was ever seen."""
        lost = ~torch.isfinite(self.answer).flatten(1).all(1)
        if bool(lost.any()):
            self.answer[lost] = self.problem.first_guess()[lost]
        return Solution(
            problem=self.problem,
            tensor=self.answer,
            status=tuple(self.status),
            residual_norms=torch.stack(self.history),
            residual_scale=self.scale,
            steps=self.steps,
            seconds=0.0,
        )
