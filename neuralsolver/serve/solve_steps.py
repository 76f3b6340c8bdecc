"""A solve measured step by step: the steps of the solver's own loop, with residual and error.

The first step is shown at once; then the reference solver is asked, and the first step is shown
again with its error. Seconds are those spent inside the solver: what showing costs is not counted.
A solve whose time is up gives its last step.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from neuralsolver.cancellation import checkpoint
from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.serve.frames import encode_frame, shown
from neuralsolver.serve.mailbox import Mailbox
from neuralsolver.serve.solver_choices import Method
from neuralsolver.solvers import Observation, Solution
from neuralsolver.solvers.norms import relative_error

REMEMBERED = 16
"""Reference solutions that are kept: a slider comes back, and every method wants the same one."""


@dataclass
class Outcome:
    """How a measured solve ended; the curves have one entry per step, whoever saw it."""

    solution: Solution
    seconds: float
    out_of_time: bool
    compared: bool
    """Whether a reference solution was asked for; there may be none."""
    error: float | None
    curves: dict[str, list[Any]]

    @property
    def status(self) -> str:
        """The word for programs."""
        return "TIME_LIMIT" if self.out_of_time else self.solution.status[0].name


class ReferenceSolutions:
    """The reference solutions of the last problems; None where there is none."""

    def __init__(self) -> None:
        self.kept: OrderedDict[bytes, Tensor | None] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, problem: Problem) -> Tensor | None:
        values = problem.inputs.double().numpy().tobytes()
        key = hashlib.sha256(repr(problem.equation).encode() + values).digest()
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        reference = _reference(problem)
        with self.lock:
            self.kept[key] = reference
            while len(self.kept) > REMEMBERED:
                self.kept.popitem(last=False)
        return reference


def _reference(problem: Problem) -> Tensor | None:
    try:
        with np.errstate(all="ignore"):
            solution = ReferenceSolver().solve(problem)
    except (ReferenceFailure, InvalidInput, ArithmeticError, np.linalg.LinAlgError):
        return None
    return solution.tensor if solution.good and bool(solution.tensor.isfinite().all()) else None


class MeasuredSolve:
    """One method on one problem, measured step by step.

    Args:
        method: The solver with its options.
        problem: What is solved.
        references: Where the reference solution comes from; none is computed without it.
        mailbox: Where the steps are shown; without it their fields are not made.
        number: The number of the request that the steps belong to.
    """

    def __init__(
        self,
        method: Method,
        problem: Problem,
        references: ReferenceSolutions | None,
        mailbox: Mailbox | None = None,
        number: int = 0,
    ) -> None:
        self.method, self.problem, self.references = method, problem, references
        self.mailbox, self.number = mailbox, number
        self.reference: Tensor | None = None
        self.last: Observation | None = None
        self.seconds = 0.0
        self.begun = False
        names = ("stage", "step", "seconds", "residual", "error", "correction")
        self.curves: dict[str, list[Any]] = {name: [] for name in names}

    def run(self) -> Outcome:
        """Solve to the end."""
        self.begun = True
        steps = self.method.solver.iterations(self.problem, **self.method.options)
        while True:
            checkpoint()
            begin = time.perf_counter()
            try:
                self.last = next(steps)
            except StopIteration as end:
                return self._outcome(end.value, out_of_time=False)
            finally:
                self.seconds += time.perf_counter() - begin
            if not self.curves["step"] and self.references is not None:
                self._show(self.last)
                self.reference = self.references(self.problem)
            numbers = self._show(self.last)
            for name, values in self.curves.items():
                values.append(numbers[name])

    def out_of_time(self) -> Outcome:
        """What there is when the time is up."""
        guess = self.problem.first_guess()
        found = guess if self.last is None or self.last.u.shape != guess.shape else self.last.u
        return self._outcome(Solution.of(self.problem, found.to(self.problem.inputs)), True)

    def _outcome(self, solution: Solution, out_of_time: bool) -> Outcome:
        error, compared = self._error(solution.tensor), self.references is not None
        return Outcome(solution, self.seconds, out_of_time, compared, error, self.curves)

    def _show(self, seen: Observation) -> dict[str, Any]:
        """The numbers of a step, which the mailbox gets with its fields."""
        change = seen.correction
        numbers: dict[str, Any] = {
            "stage": seen.stage,
            "step": seen.step,
            "seconds": self.seconds,
            "residual": finite(float(seen.norms[0] / seen.scale[0])),
            "error": self._error(seen.u),
            "correction": None,
        }
        if change is not None:
            numbers["correction"] = finite(float(change.double().square().mean().sqrt()))
        if self.mailbox is not None:
            header = {"id": self.number, "index": len(self.curves["step"]), **numbers}
            self.mailbox.show(encode_frame(header, self._fields(seen)))
        return numbers

    def _error(self, u: Tensor) -> float | None:
        """The relative error against the reference solution, on its grid."""
        if self.reference is None or u.shape != self.reference.shape:
            return None
        return finite(float(relative_error(u.double(), self.reference)))

    def _fields(self, seen: Observation) -> dict[str, npt.NDArray[np.float32]]:
        fields = {"solution": seen.u, "residual": seen.residual}
        if seen.correction is not None and seen.u.dim() == 4:
            fields["correction"] = seen.correction
        if self.reference is not None and seen.u.shape == self.reference.shape:
            fields["error"] = seen.u.double() - self.reference
        return {name: shown(_plain(values)) for name, values in fields.items()}


def _plain(field: Tensor) -> npt.NDArray[Any]:
    """The first sample as an array without what is not finite."""
    plain: npt.NDArray[Any] = np.nan_to_num(field[0, 0].cpu().numpy(), posinf=3e38, neginf=-3e38)
    return plain


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return value if np.isfinite(value) else None
