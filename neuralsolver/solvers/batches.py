"""Many samples at once: a batch in parts, each part on a thread of its own.

In a batch the products of a network are larger and the interpreter is asked less often, so that a
sample takes about two thirds of what it takes alone; more than that a single core cannot give: nine
tenths of its time are then convolutions and products. What a second core can do is other samples.
Threads inside of a product meet after each of them, thousands of times a solve, and on a busy
machine wait there for whoever holds the core; parts of a batch never wait for one another. A part
is also small enough to stay in the cache, and what `flexible GMRES` remembers of it in memory.

A sample's answer is that of the whole batch up to rounding: which part it is in decides where BLAS
cuts its sums, and nothing else.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.solution import Solution

PART = 16
"""Samples of a part: the products do not get faster beyond eight, and a solve ends with its slowest
sample."""

Report = Callable[[int, int], None]
"""Called with (samples finished, samples in all)."""


def solve_batch(
    solver: Solver,
    problem: Problem,
    *,
    threads: int | None = None,
    part: int = PART,
    report: Report | None = None,
    **options: Any,
) -> Solution:
    """`solver.solve` of every part of a batch, on as many threads as there are cores unless given.

    `options` are those of `solve`; `report(done, total)` is called whenever a part is finished.

    >>> import neuralsolver as ns
    >>> from neuralsolver.solvers import solve_batch
    >>> problem = ns.Problem.random(ns.Poisson(), 64, count=5)
    >>> solution = solve_batch(ns.load("poisson"), problem, threads=2, part=2)
    >>> solution.good, tuple(solution.u.shape)
    (True, (5, 1, 64, 64))
    """
    if part < 1 or (threads is not None and threads < 1):
        raise InvalidInput("threads and part", "at least 1", f"{threads} and {part}")
    threads = threads or _cores()
    begin, done, lock = time.perf_counter(), 0, threading.Lock()
    size = min(part, -(-problem.batch // threads))
    pieces = [
        torch.arange(first, min(first + size, problem.batch))
        for first in range(0, problem.batch, size)
    ]

    def solved(samples: Tensor) -> Solution:
        nonlocal done
        solution = solver.solve(problem.select(samples), **options)
        with lock:
            done += len(samples)
            if report is not None:
                report(done, problem.batch)
        return solution

    if report is not None:
        report(0, problem.batch)
    with _one_thread_each(), ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(solved, pieces))
    return joined(problem, parts, time.perf_counter() - begin)


def joined(problem: Problem, parts: list[Solution], seconds: float) -> Solution:
    """The solutions of consecutive parts of a problem as one."""
    tensor = torch.cat([part.tensor for part in parts])
    length = max(len(part.residual_norms) for part in parts)
    norms = torch.full((length, problem.batch), torch.nan, dtype=torch.float64)
    notes: dict[str, Any] = {}
    first = 0
    for part in parts:
        last = first + part.problem.batch
        norms[: len(part.residual_norms), first:last] = part.residual_norms
        for name, note in part.notes.items():
            if name == "classical_iterations":  # by the number of the sample
                notes.setdefault(name, {}).update({first + i: n for i, n in note.items()})
            else:
                notes[name] = note
        first = last
    return replace(
        parts[0],
        problem=problem.in_precision(tensor.dtype),
        tensor=tensor,
        status=tuple(status for part in parts for status in part.status),
        residual_norms=norms,
        residual_scale=torch.cat([part.residual_scale for part in parts]),
        steps=torch.cat([part.steps for part in parts]),
        seconds=seconds,
        notes=notes,
    )


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """As long as it lasts, a thread that is started computes by itself."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
