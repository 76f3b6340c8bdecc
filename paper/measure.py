"""Solver × instances → one row: accuracy, residual, steps, seconds, how it ended, and the history.

Accuracy is measured on all instances in batches of `BATCH`, and the error of each is kept: the
interval of a mean needs them. Seconds are CPU seconds of this process per sample, measured apart
from that and without looking at the iterates. Waiting does not count, but caches and memory are
shared: what else runs can double them. To race two methods there is `python -m benchmarks`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuralsolver.data import read
from neuralsolver.equations import Equation, Problem
from neuralsolver.solvers import Observation, Solution, Status, TrainedSolver
from neuralsolver.solvers.history import History
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.norms import relative_error
from neuralsolver.solvers.safeguard import CLASSICAL, NETWORK, NOTE
from paper.metrics import digits, four_digits, residual_mse

BATCH = 32
SLOW = 2.0
"""A solver that takes longer than this per sample is not called again only to be timed."""
WITHOUT = "WITHOUT_NETWORK"
ANSWERS = (Status.TOLERANCE, Status.PLATEAU)
"""How a sample ends well, and what is written in their place where a classical fallback did it."""
RECORDED = 200
"""Steps of a history that are kept, thinned out evenly when there are more."""


@dataclass(frozen=True)
class EvaluationSet:
    """Instances as the solver is given them, as they truly are, and their solutions.

    `rejected` counts the fields that had no solution and were replaced.
    """

    __test__ = False  # pytest collects classes whose names begin with Test

    problem: Problem
    true_problem: Problem
    exact: Tensor
    rejected: int = 0

    def select(self, index: slice) -> EvaluationSet:
        """Some of the instances."""
        return replace(
            self,
            problem=self.problem.select(index),
            true_problem=self.true_problem.select(index),
            exact=self.exact[index],
        )


def measure(solver: Solver, subject: EvaluationSet, *, batch: int = BATCH) -> dict[str, Any]:
    """The measured part of a row; numbers that do not exist are None."""
    errors, residuals, steps, histories = [], [], [], []
    status: Counter[str] = Counter()
    count, classical = subject.problem.batch, 0
    per_sample = 0.0
    for start in range(0, count, batch):
        part = subject.select(slice(start, start + batch))
        history = history_of(part)
        begin = time.process_time()
        solution = solver.solve(part.problem, observe=history)
        per_sample = (time.process_time() - begin) / part.problem.batch
        errors.append(relative_error(solution.tensor, part.exact))
        residuals.append(residual_mse(part.true_problem, solution.tensor))
        steps.append(solution.steps.double())
        status.update(endings(solution))
        classical += solution.notes.get(NOTE, []).count(CLASSICAL)
        histories.append(history)
    error, residual = torch.cat(errors), torch.cat(residuals)
    return {
        "samples": count,
        "error": four_digits(error.mean()),
        "error_spread": four_digits(error.std(correction=0)),
        "error_worst": four_digits(error.max()),
        "error_median": four_digits(error.median()),
        "errors": [digits(value, 3) for value in error],
        "residual": four_digits(residual.mean()),
        "steps": four_digits(torch.cat(steps).mean()),
        "status": dict(status),
        "network_answers": count - classical,
        **_timings(solver, subject, per_sample),
        "history": joined(histories),
    }


def endings(solution: Solution) -> list[str]:
    """How every sample ended; an answer that the safeguard gave is not put down to the network."""
    by = solution.notes.get(NOTE, [NETWORK] * len(solution.status))
    return [
        WITHOUT if who == CLASSICAL and ending in ANSWERS else ending.name
        for ending, who in zip(solution.status, by, strict=True)
    ]


def history_of(subject: EvaluationSet) -> History:
    """Error, residual and correction of every sample after every step, as an observer."""

    def residual(seen: Observation) -> Tensor:
        return residual_mse(subject.true_problem.select(seen.samples), seen.u)

    def correction(seen: Observation) -> Tensor | None:
        if seen.correction is None:
            return None
        return seen.correction.flatten(1).double().square().mean(1).sqrt()

    return History(
        subject.problem.batch,
        error=lambda seen: relative_error(seen.u, subject.exact[seen.samples]),
        residual=residual,
        correction=correction,
    )


def joined(histories: list[History]) -> dict[str, Any] | None:
    """The histories of several batches as means over all samples, or None without any steps."""
    steps = sorted(set().union(*(history.steps for history in histories)))
    if len(steps) < 2:
        return None
    means = torch.cat([history.table(steps) for history in histories], 2).mean(2)
    thinning = math.ceil(len(steps) / RECORDED)
    curves: dict[str, Any] = {"step": steps[::thinning]}
    for position, name in enumerate(("error", "residual", "correction")):
        curves[name] = [four_digits(value) for value in means[::thinning, position]]
    return curves


def _timings(solver: Solver, subject: EvaluationSet, per_sample: float) -> dict[str, float | None]:
    """CPU seconds per sample, one sample at a time and in batches."""
    count, many = subject.problem.batch, None
    if per_sample > SLOW:
        return {"seconds_batch_1": round(per_sample, 6), f"seconds_batch_{BATCH}": None}
    singles = [subject.problem.select(slice(i, i + 1)) for i in range(min(3, count))]
    repeats = sorted(_seconds(solver, problem) for problem in singles)
    if count >= BATCH:
        many = _seconds(solver, subject.problem.select(slice(0, BATCH))) / BATCH
    return {"seconds_batch_1": repeats[len(repeats) // 2], f"seconds_batch_{BATCH}": many}


def _seconds(solver: Solver, problem: Problem) -> float:
    begin = time.process_time()
    solution = solver.solve(problem)
    # a solver that knows its own seconds leaves out what was done only to fill in its Solution
    return round(min(time.process_time() - begin, solution.seconds), 6)


def failed(count: int, reason: str) -> dict[str, Any]:
    """The measured part of a row that could not be measured, and why."""
    empty = ("error", "error_spread", "error_worst", "error_median", "residual", "steps")
    return {
        "samples": count,
        **dict.fromkeys((*empty, "seconds_batch_1")),
        "errors": None,
        "status": {reason: count},
        "network_answers": 0,
        f"seconds_batch_{BATCH}": None,
        "history": None,
    }


def evaluate_on(
    file: str | Path,
    solver: TrainedSolver,
    samples: int | None = None,
    equation: Equation | None = None,
) -> dict[str, Any]:
    """The row of a trained solver on the samples of a dataset file: errors against its solutions,
    residual, steps, seconds."""
    dataset = read(file, equation)
    count = len(dataset) if samples is None else min(samples, len(dataset))
    inputs, exact = dataset.tensors(slice(0, count))
    problem = Problem(dataset.equation, inputs)
    solver.check(problem)
    measured = measure(solver, EvaluationSet(problem, problem, exact))
    return {
        "experiment": Path(file).name,
        "regime": dataset.equation.name,
        "method": str(solver.record.get("recipe", "own")),
        "resolution": problem.resolution,
        **measured,
    }
