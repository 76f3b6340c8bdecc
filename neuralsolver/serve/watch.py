"""A solve as it is watched: the iterates of the solver's own loop, measured one by one.

The first iterate is shown at once; then the reference solver computes the truth, and the first
iterate is shown again with its error. Seconds are those spent inside the solver: what showing costs
is not counted. A solve is left when its client is gone or its time is up; the second gives the best
iterate so far and the verdict that time was short.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.evaluation.metrics import relative_error
from neuralsolver.experiments.reference_solver import ReferenceSolver
from neuralsolver.serve.fields import shown
from neuralsolver.serve.methods import Method
from neuralsolver.solvers import Observation, Solution

REMEMBERED = 16
"""Reference solutions that are kept: a slider comes back, and every method wants the same one."""


class Cancelled(Exception):
    """Nobody waits for this solve any more."""


@dataclass(frozen=True)
class Iterate:
    """One iterate with its numbers; the residual is relative to that of the first guess."""

    index: int
    stage: str
    step: int
    seconds: float
    residual: float | None
    error: float | None
    correction: float | None
    fields: dict[str, npt.NDArray[np.float32]]


@dataclass
class Outcome:
    """How a watched solve ended; the curves have one entry per iterate, whoever saw it."""

    solution: Solution
    seconds: float
    out_of_time: bool
    compared: bool
    """Whether a reference solution was asked for; there may be none."""
    error: float | None
    curves: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The word for programs."""
        return "TIME_LIMIT" if self.out_of_time else self.solution.status[0].name


class Truths:
    """The reference solutions of the last problems; None where there is none."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, Tensor | None] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, problem: Problem) -> Tensor | None:
        values = problem.inputs.double().numpy().tobytes()
        key = hashlib.sha256(repr(problem.equation).encode() + values).hexdigest()
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        truth = _truth(problem)
        with self.lock:
            self.kept[key] = truth
            while len(self.kept) > REMEMBERED:
                self.kept.popitem(last=False)
        return truth


def _truth(problem: Problem) -> Tensor | None:
    try:
        with np.errstate(all="ignore"):
            solution = ReferenceSolver().solve(problem)
    except (ReferenceFailure, InvalidInput, ArithmeticError, np.linalg.LinAlgError):
        return None
    return solution.tensor if solution.good and bool(solution.tensor.isfinite().all()) else None


def watch(
    method: Method,
    problem: Problem,
    truths: Truths | None,
    limit: float,
    cancelled: Callable[[], bool],
    *,
    with_fields: bool = True,
) -> Generator[Iterate, None, Outcome]:
    """Iterate after iterate of one method on one problem."""
    clock = _Clock(method.solver.iterations(problem, **method.options), limit, cancelled)
    measure = _Measure(problem, with_fields)
    last: Observation | None = None
    for index, observation in enumerate(clock):
        last = observation
        if index == 0:
            if with_fields and truths is not None:
                yield measure.iterate(index, observation, clock.seconds)
            measure.truth = None if truths is None else truths(problem)
        yield measure.booked(index, observation, clock.seconds)
    solution = clock.solution
    if solution is None:  # time is up
        assert last is not None
        on_grid = last.u.shape == problem.first_guess().shape
        found = last.u if on_grid else problem.first_guess()
        solution = Solution.of(problem, found.to(problem.inputs))
    error = measure.error(solution.tensor)
    return Outcome(
        solution,
        seconds=clock.seconds,
        out_of_time=clock.solution is None,
        compared=truths is not None,
        error=error,
        curves=measure.curves,
    )


class _Clock:
    """Runs a solve, counts the seconds inside it, and leaves it when it must."""

    def __init__(
        self,
        solve: Generator[Observation, None, Solution],
        limit: float,
        cancelled: Callable[[], bool],
    ) -> None:
        self.solve, self.limit, self.cancelled = solve, limit, cancelled
        self.seconds = 0.0
        self.solution: Solution | None = None

    def __iter__(self) -> Iterator[Observation]:
        try:
            while True:
                begin = time.perf_counter()
                try:
                    observation = next(self.solve)
                except StopIteration as end:
                    self.solution = end.value
                    return
                finally:
                    self.seconds += time.perf_counter() - begin
                if self.cancelled():
                    raise Cancelled
                yield observation
                if self.seconds > self.limit:
                    return
        finally:
            self.solve.close()


class _Measure:
    """The numbers and fields of iterates of one problem."""

    def __init__(self, problem: Problem, with_fields: bool) -> None:
        self.problem = problem
        self.with_fields = with_fields
        self.truth: Tensor | None = None
        self.curves: dict[str, list[Any]] = {
            name: [] for name in ("stage", "step", "seconds", "residual", "error", "correction")
        }

    def booked(self, index: int, observation: Observation, seconds: float) -> Iterate:
        """An iterate that also enters the curves."""
        found = self.iterate(index, observation, seconds)
        for name, values in self.curves.items():
            values.append(getattr(found, name))
        return found

    def iterate(self, index: int, observation: Observation, seconds: float) -> Iterate:
        u, change = observation.u, observation.correction
        return Iterate(
            index,
            observation.stage,
            observation.step,
            seconds,
            finite(float(observation.norms[0] / observation.scale[0])),
            self.error(u),
            None if change is None else finite(float(change.double().square().mean().sqrt())),
            self._fields(observation) if self.with_fields else {},
        )

    def error(self, u: Tensor) -> float | None:
        """The relative error against the reference solution, on its grid."""
        if self.truth is None or u.shape != self.truth.shape:
            return None
        return finite(float(relative_error(u.double(), self.truth)))

    def _fields(self, observation: Observation) -> dict[str, npt.NDArray[np.float32]]:
        u = observation.u
        fields = {"solution": u, "residual": observation.residual}
        if observation.correction is not None and u.dim() == 4:
            fields["correction"] = observation.correction
        if self.truth is not None and u.shape == self.truth.shape:
            fields["error"] = u.double() - self.truth
        return {name: shown(_plain(values)) for name, values in fields.items()}


def _plain(field: Tensor) -> npt.NDArray[Any]:
    """The first sample as an array without what is not finite."""
    plain: npt.NDArray[Any] = np.nan_to_num(field[0, 0].cpu().numpy(), posinf=3e38, neginf=-3e38)
    return plain


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return value if np.isfinite(value) else None
