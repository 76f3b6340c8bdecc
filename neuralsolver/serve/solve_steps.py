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
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from neuralsolver.cancellation import checkpoint
from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.serve.frames import shown
from neuralsolver.serve.solver_choices import Method
from neuralsolver.solvers import Observation, Solution
from neuralsolver.solvers.norms import relative_error

REMEMBERED = 16
"""Reference solutions that are kept: a slider comes back, and every method wants the same one."""

Show = Callable[[dict[str, Any], dict[str, npt.NDArray[np.float32]]], None]
"""Called with the numbers and the fields of a step."""


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
        show: What is done with the steps; without it their fields are not made.
    """

    def __init__(
        self,
        method: Method,
        problem: Problem,
        references: ReferenceSolutions | None,
        show: Show | None = None,
    ) -> None:
        self.method, self.problem = method, problem
        self.references, self.show = references, show
        self.reference: Tensor | None = None
        self.solution: Solution | None = None
        self.last: Observation | None = None
        self.seconds = 0.0
        self.begun = self.out_of_time = False
        names = ("stage", "step", "seconds", "residual", "error", "correction")
        self.curves: dict[str, list[Any]] = {name: [] for name in names}
        """One entry per step, whoever saw it."""

    def run(self) -> None:
        """Solve to the end."""
        self.begun = True
        steps = self.method.solver.iterations(self.problem, **self.method.options)
        while True:
            checkpoint()
            begin = time.perf_counter()
            try:
                self.last = next(steps)
            except StopIteration as end:
                self.solution = end.value
                return
            finally:
                self.seconds += time.perf_counter() - begin
            if not self.curves["step"] and self.references is not None:
                self._show(self.last)
                self.reference = self.references(self.problem)
            numbers = self._show(self.last)
            for name, values in self.curves.items():
                values.append(numbers[name])

    def end_out_of_time(self) -> None:
        """Make do with what there is."""
        guess = self.problem.first_guess()
        found = guess if self.last is None or self.last.u.shape != guess.shape else self.last.u
        self.solution = Solution.of(self.problem, found.to(self.problem.inputs))
        self.out_of_time = True

    def error(self, u: Tensor) -> float | None:
        """The relative error against the reference solution, on its grid."""
        if self.reference is None or u.shape != self.reference.shape:
            return None
        return finite(float(relative_error(u.double(), self.reference)))

    def _show(self, seen: Observation) -> dict[str, Any]:
        """The numbers of a step, which is shown with its fields."""
        change = seen.correction
        numbers: dict[str, Any] = {
            "stage": seen.stage,
            "step": seen.step,
            "seconds": self.seconds,
            "residual": finite(float(seen.norms[0] / seen.scale[0])),
            "error": self.error(seen.u),
            "correction": None,
        }
        if change is not None:
            numbers["correction"] = finite(float(change.double().square().mean().sqrt()))
        if self.show is not None:
            self.show({"index": len(self.curves["step"]), **numbers}, self._fields(seen))
        return numbers

    def _fields(self, seen: Observation) -> dict[str, npt.NDArray[np.float32]]:
        fields = {"solution": seen.u, "residual": seen.residual}
        if seen.correction is not None and seen.u.dim() == 4:
            fields["correction"] = seen.correction
        if self.reference is not None and seen.u.shape == self.reference.shape:
            fields["error"] = seen.u.double() - self.reference
        first = {name: values[0, 0].cpu().numpy() for name, values in fields.items()}
        return {
            name: shown(np.nan_to_num(values, posinf=3e38, neginf=-3e38))
            for name, values in first.items()
        }


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return value if np.isfinite(value) else None
