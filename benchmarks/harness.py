"""One race: some instances, some methods, one target; who needs how many seconds?

    error     ‖u − u*‖ / ‖u*‖ ≤ target      u* from a sparse LU, refined once
    residual  ‖F(u)‖ / ‖F(0)‖ ≤ target      where a factorisation would not fit

A method stops by its own residual. How small that has to be for a given error differs from method
to method, so every method first looks for the largest tolerance 10^(−k/2) that meets the target,
and that solve is timed: nobody pays for accuracy that was not asked for. On each instance all
methods then take turns,

    a₁ b₁ c₁  a₂ b₂ c₂ …       seconds: the median of the turns, the mean over the instances

so that a neighbour on the machine slows all of them alike. `over_first` is the median of the
ratios to the first method within the same turn. Seconds are processor seconds and include the
assembly of a matrix, the set-up of a hierarchy and the factorisation; loading weights they do not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.training.card import machine

Row = dict[str, Any]
LEAST = 1e-13
"""No smaller tolerance is tried."""


@dataclass(frozen=True)
class System:
    """A u = b over the free points, with A positive definite where the equation is definite."""

    matrix: Any
    right: Any
    free: Any
    sign: float

    def factor(self) -> Any:
        """A sparse LU in the order of least fill for a symmetric pattern."""
        options = {"SymmetricMode": True}
        by_columns = self.matrix.tocsc()
        return splu(by_columns, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


def assemble(problem: Problem) -> System:
    """The linear system of one sample, fixed points struck out."""
    grid = problem.grid
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    free = np.arange(grid.size)
    if problem.fixed is not None:
        free = np.flatnonzero(~grid.flatten(problem.fixed.mask)[0].numpy())
    right = -grid.flatten(problem.residual(problem.first_guess()))[0].numpy()[free]
    sign = 1.0 if matrix.diagonal()[free[0]] > 0 else -1.0
    return System((sign * matrix)[free][:, free].tocsr(), sign * right, free, sign)


@dataclass(frozen=True)
class Instance:
    """One problem and how its answers are judged."""

    case: str
    size: int
    problem: Problem
    judged_by: str = "error"

    @cached_property
    def exact(self) -> Tensor:
        """u* on the grid."""
        system = assemble(self.problem)
        factor = system.factor()
        u = factor.solve(system.right)
        u += factor.solve(system.right - system.matrix @ u)
        return self.on_grid(system, u)

    def on_grid(self, system: System, values: Any) -> Tensor:
        """Values over the free points as a field, the others as the problem fixes them."""
        vector = torch.zeros(1, self.problem.grid.size, dtype=torch.float64)
        vector[0, system.free] = torch.from_numpy(np.asarray(values))
        start = self.problem.first_guess().double()
        return start + self.problem.grid.unflatten(vector, torch.zeros_like(start))

    def miss(self, u: Tensor) -> float:
        """The error or the residual of an answer, the largest of the samples."""
        if self.judged_by == "error":
            return float((u - self.exact).norm() / self.exact.norm())
        answer, nothing = (
            self.problem.residual(field).flatten(1).norm(dim=1)
            for field in (u, self.problem.zeros().double())
        )
        return float((answer / nothing).max())


@dataclass(frozen=True)
class Method:
    """A way to solve: `prepare` what does not depend on the tolerance, then `solve` with it.

    `solve` returns the field and the number of iterations, 0 for a direct solver. `fits` tells on
    which instances the method is run.
    """

    name: str
    prepare: Callable[[Instance], Any]
    solve: Callable[[Instance, Any, float], tuple[Tensor, int]]
    fits: Callable[[Instance], bool] = lambda instance: True


@dataclass
class Turns:
    """What one method did on one instance."""

    tolerance: float
    iterations: int
    miss: float
    setup: list[float]
    seconds: list[float]
    wall: list[float]


def race(
    instances: Sequence[Instance], methods: Sequence[Method], target: float, repeats: int = 3
) -> list[Row]:
    """One row per method; the instances are of one case and one size.

    Args:
        instances: What is solved.
        methods: Who solves; those that do not fit the first instance are left out.
        target: The error or residual to reach.
        repeats: How many timed turns each method has on each instance.

    Returns:
        Rows with case, size, target, method, seconds, wall_seconds, setup_seconds, iterations,
        miss, reached, over_first, instances and machine.
    """
    methods = [method for method in methods if method.fits(instances[0])]
    found: dict[str, list[Turns]] = {method.name: [] for method in methods}
    for instance in instances:
        for method in methods:
            found[method.name].append(_search(method, instance, target))
        for _ in range(repeats):
            for method in methods:
                _take_turn(method, instance, found[method.name][-1])
    first = [seconds for turns in found[methods[0].name] for seconds in turns.seconds]
    rows = []
    for method in methods:
        turns = found[method.name]
        every = [seconds for one in turns for seconds in one.seconds]
        rows.append(
            {
                "case": instances[0].case,
                "size": instances[0].size,
                "target": target,
                "judged_by": instances[0].judged_by,
                "method": method.name,
                "seconds": statistics.mean(statistics.median(one.seconds) for one in turns),
                "wall_seconds": statistics.mean(statistics.median(one.wall) for one in turns),
                "setup_seconds": statistics.mean(statistics.median(one.setup) for one in turns),
                "iterations": max(one.iterations for one in turns),
                "miss": max(one.miss for one in turns),
                "reached": all(one.miss <= 1.01 * target for one in turns),
                "over_first": statistics.median(b / a for a, b in zip(first, every, strict=True)),
                "instances": len(instances),
                "machine": machine(),
            }
        )
    return rows


def _search(method: Method, instance: Instance, target: float) -> Turns:
    """The largest tolerance that meets the target."""
    state = method.prepare(instance)
    # an error is seldom a hundred times smaller than its residual
    tolerance = target if instance.judged_by == "residual" else min(0.1, 100 * target)
    while True:
        u, iterations = method.solve(instance, state, tolerance)
        miss = instance.miss(u)
        if miss <= target or iterations == 0 or tolerance < 10 * LEAST:
            return Turns(tolerance, iterations, miss, [], [], [])
        tolerance /= 10**0.5


def _take_turn(method: Method, instance: Instance, turns: Turns) -> None:
    wall, begin = time.perf_counter(), time.process_time()
    state = method.prepare(instance)
    turns.setup.append(time.process_time() - begin)
    method.solve(instance, state, turns.tolerance)
    turns.seconds.append(time.process_time() - begin)
    turns.wall.append(time.perf_counter() - wall)


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text; the fastest that reached its target has a star."""
    widths = [max(len(row[name]) for row in rows) for name in ("case", "method")]
    lines = [
        f"{'case':{widths[0]}} {'size':>5} {'target':>7} {'method':{widths[1]}}   {'seconds':>8} "
        f"{'wall':>8} {'set-up':>8} {'iterations':>10} {'over first':>10} {'instances':>9}"
    ]
    for row in rows:
        same = [r["seconds"] for r in rows if _race_of(r) == _race_of(row) and r["reached"]]
        star = "*" if row["reached"] and row["seconds"] == min(same) else " "
        lines.append(
            f"{row['case']:{widths[0]}} {row['size']:5d} {row['target']:7.0e} "
            f"{row['method']:{widths[1]}} {star} {row['seconds']:8.4f} {row['wall_seconds']:8.4f} "
            f"{row['setup_seconds']:8.4f} {row['iterations']:10d} {row['over_first']:10.2f} "
            f"{row['instances']:9d}{'' if row['reached'] else '  MISSED'}"
        )
    return "\n".join(lines)


def _race_of(row: Row) -> tuple[Any, ...]:
    return row["case"], row["size"], row["target"]
