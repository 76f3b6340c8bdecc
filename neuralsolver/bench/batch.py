"""What a sample costs in a batch: beside one solve after the other on one thread.

Shipped models on their own grid to the default tolerance. A pair is some samples solved one by one
on one thread and, right after it, the whole batch: by `solve_batch` on one thread and on two. The
ratio of the two is what a pair says; its median, least and largest over the pairs are printed, in
seconds of the day and in processor seconds. On two threads the first need a second core that is
free: on a busy machine they show who else is there. Processor seconds do not, and show whether
the threads get in each other's way.

`network` is the share of a batch's processor seconds inside of the network, whose products are the
same whatever else is done: it bounds what any further saving around it could bring.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver.equations import Problem
from neuralsolver.experiments.rows import machine
from neuralsolver.solvers import Solution, TrainedSolver
from neuralsolver.solvers.batches import solve_batch
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training import load

Row = dict[str, Any]

EQUATIONS = ("helmholtz", "poisson", "darcy")
SIZES = (1, 8, 32, 200)
THREADS = (1, 2)
REPEATS = 3
ALONE = 8
"""Samples that are solved one by one in a pair."""
SEED = 20_266


@dataclass(frozen=True)
class Timed:
    """What a call took, for each sample."""

    wall: float
    processor: float


def measure(
    samples: Sequence[int] = SIZES,
    repeats: int = REPEATS,
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per equation, size of the batch and number of threads."""
    torch.set_num_threads(1)
    cases = [(name, size) for name in EQUATIONS for size in samples]
    cost = [size for _, size in cases]
    rows = []
    for position, (name, size) in enumerate(cases):
        if tell is not None:
            tell(sum(cost[:position]) / sum(cost), f"{name}, {size} samples")
        rows += _compare(name, size, repeats)
    return rows


def _compare(name: str, size: int, repeats: int) -> list[Row]:
    solver = load(name)
    problem = Problem.random(solver.equation, solver.resolution, count=size, seed=SEED)
    solver.solve(problem.select([0]))  # tables and pages are there from now on
    few = range(min(size, ALONE))
    single = [solver.solve(problem.select([i])) for i in few]
    pairs: dict[int, list[tuple[Timed, Timed]]] = {threads: [] for threads in THREADS}
    difference = 0.0
    for _ in range(repeats):
        for threads in THREADS:
            alone, _ = _timed(lambda: [solver.solve(problem.select([i])) for i in few], len(few))
            batched, solution = _timed(
                lambda threads=threads: solve_batch(solver, problem, threads=threads),  # type: ignore[misc]
                size,
            )
            pairs[threads].append((alone, batched))
            difference = max(difference, _difference(single, solution))
    share = _network_share(solver, problem)
    found = {"equation": name, "samples": size, "network_share": share, "difference": difference}
    return [found | _row(threads, pairs[threads]) for threads in THREADS]


def _timed(call: Callable[[], Any], samples: int) -> tuple[Timed, Any]:
    wall, processor = time.perf_counter(), time.process_time()
    answer = call()
    return Timed(
        (time.perf_counter() - wall) / samples, (time.process_time() - processor) / samples
    ), answer


def _difference(single: list[Solution], batch: Solution) -> float:
    """The largest relative difference between samples alone and in the batch."""
    return max(
        float((one.tensor[0] - batch.tensor[i]).norm() / one.tensor.norm())
        for i, one in enumerate(single)
    )


def _row(threads: int, pairs: list[tuple[Timed, Timed]]) -> Row:
    wall = [alone.wall / batched.wall for alone, batched in pairs]
    processor = [alone.processor / batched.processor for alone, batched in pairs]
    return {
        "threads": threads,
        "alone_seconds": statistics.median(alone.processor for alone, _ in pairs),
        "batch_seconds": statistics.median(batched.processor for _, batched in pairs),
        "alone_wall": statistics.median(alone.wall for alone, _ in pairs),
        "batch_wall": statistics.median(batched.wall for _, batched in pairs),
        "processor_ratio": [statistics.median(processor), min(processor), max(processor)],
        "wall_ratio": [statistics.median(wall), min(wall), max(wall)],
        "pairs": len(pairs),
        "seed": SEED,
        "machine": machine(),
    }


class _Clocked(nn.Module):
    """A network that adds up the processor seconds spent in it."""

    def __init__(self, network: nn.Module, spent: list[float]) -> None:
        super().__init__()
        self.network, self.spent = network, spent

    def forward(self, x: Tensor) -> Tensor:
        begin = time.process_time()
        answer: Tensor = self.network(x)
        self.spent[0] += time.process_time() - begin
        return answer


def _network_share(solver: TrainedSolver, problem: Problem) -> float:
    """The part of a batch's processor seconds that its networks take."""
    spent, network = [0.0], solver.network
    assert network.predictor is not None
    assert network.corrector is not None
    clocked = NeuralSolver(
        _Clocked(network.predictor, spent),
        _Clocked(network.corrector, spent),
        step_size=network.step_size,
        error=network.error,
        predictor_reads=network.predictor_reads,
        corrector_reads=network.corrector_reads,
        smoothing=network.smoothing,
    )
    part = problem.select(slice(0, 32))
    taken, _ = _timed(lambda: solve_batch(replace(solver, network=clocked), part, threads=1), 1)
    return spent[0] / taken.processor


def table(rows: list[Row]) -> str:
    """The rows as aligned text; milliseconds of a sample, then how many times less than alone."""
    lines = [
        f"{'equation':9} {'samples':>7} {'threads':>7} {'alone ms':>9} {'batch ms':>9} "
        f"{'processor':>18} {'time of day':>18} {'network':>8} {'difference':>10}"
    ]
    for row in rows:
        processor, wall = (
            "{:.2f} ({:.2f}-{:.2f})".format(*row[key]) for key in ("processor_ratio", "wall_ratio")
        )
        lines.append(
            f"{row['equation']:9} {row['samples']:7d} {row['threads']:7d} "
            f"{1e3 * row['alone_seconds']:9.1f} {1e3 * row['batch_seconds']:9.1f} "
            f"{processor:>18} {wall:>18} {row['network_share']:8.0%} {row['difference']:10.0e}"
        )
    return "\n".join(lines)
