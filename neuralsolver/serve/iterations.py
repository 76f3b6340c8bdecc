"""The solver's loop as a generator, made of callbacks until solvers have one of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers import Solution, iterate
from neuralsolver.solvers.iterate import FixedSteps
from neuralsolver.solvers.solution import residual_norm


@dataclass(frozen=True)
class Observation:
    """As in the contract of the new core."""

    stage: str
    step: int
    u: Tensor
    residual: Tensor
    norms: Tensor
    correction: Tensor | None


class _Left(Exception):
    pass


def iterations(
    solver: Any, problem: Problem, **options: Any
) -> Generator[Observation, None, Solution]:
    """Observations of `solver.solve`, one at a time."""
    seen: queue.Queue[Any] = queue.Queue(1)
    go_on = threading.Semaphore(0)
    left = threading.Event()

    def observe(now: Any) -> None:
        norms = residual_norm(problem.weigh(now.residual))
        seen.put(
            Observation("solve", now.step, now.u.clone(), now.residual, norms, now.correction)
        )
        go_on.acquire()
        if left.is_set():
            raise _Left

    def work() -> None:
        try:
            seen.put(solver.solve(problem, observe=observe, **options))
        except _Left:
            pass
        except BaseException as error:
            seen.put(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item = seen.get()
            if isinstance(item, Observation):
                yield item
                go_on.release()
            elif isinstance(item, BaseException):
                raise item
            else:
                return item
    finally:
        left.set()
        go_on.release()
        thread.join()


def judged(problem: Problem, u: Tensor) -> Solution:
    """A field as a solution without steps."""
    return iterate(lambda p, u, r: u, problem, u.to(problem.inputs), FixedSteps(0))
