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

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.fields.jacobian import sparse_jacobian
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
    which instances the method is run, `searches` whether it looks for its tolerance first.
    """

    name: str
    prepare: Callable[[Any], Any]
    solve: Callable[[Any, Any, float], tuple[Any, int]]
    fits: Callable[[Any], bool] = lambda instance: True
    searches: bool = True


@dataclass
class Turns:
    """What one method did on one instance: its last answer, and the seconds of every turn."""

    tolerance: float
    iterations: int = 0
    miss: float = math.inf
    u: Any = None
    setup: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def take_turns(
    instance: Any, methods: Sequence[Method], target: float, repeats: int
) -> dict[str, Turns]:
    """What every method did on one instance, by its name.

    Args:
        instance: An `Instance`, or what has its `judged_by` and `miss`.
        methods: Who solves.
        target: The error or residual to reach.
        repeats: How many timed turns each method has.
    """
    found = {method.name: _search(method, instance, target) for method in methods}
    for _ in range(repeats):
        for method in methods:
            turns = found[method.name]
            wall, begin = time.perf_counter(), time.process_time()
            state = method.prepare(instance)
            turns.setup.append(time.process_time() - begin)
            turns.u, turns.iterations = method.solve(instance, state, turns.tolerance)
            turns.seconds.append(time.process_time() - begin)
            turns.wall.append(time.perf_counter() - wall)
    for turns in found.values():
        turns.miss = instance.miss(turns.u)
    return found


def _search(method: Method, instance: Any, target: float) -> Turns:
    """The largest tolerance that meets the target."""
    if not method.searches:
        return Turns(target)
    state = method.prepare(instance)
    # an error is seldom a hundred times smaller than its residual
    tolerance = target if instance.judged_by == "residual" else min(0.1, 100 * target)
    while True:
        u, iterations = method.solve(instance, state, tolerance)
        if instance.miss(u) <= target or iterations == 0 or tolerance < 10 * LEAST:
            return Turns(tolerance)
        tolerance /= 10**0.5


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
    found = [take_turns(instance, methods, target, repeats) for instance in instances]
    rows = []
    for method in methods:
        turns = [one[method.name] for one in found]
        pairs = [(one[methods[0].name].seconds, one[method.name].seconds) for one in found]
        ratios = [b / a for first, own in pairs for a, b in zip(first, own, strict=True)]
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
                "over_first": statistics.median(ratios),
                "instances": len(instances),
                "machine": machine(),
            }
        )
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text; the fastest that reached its target has a star."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    reached = frame["seconds"].where(frame["reached"])
    fastest = reached.groupby([frame["case"], frame["size"], frame["target"]]).transform("min")
    frame["best"] = ["*" if best else "" for best in reached == fastest]
    frame["note"] = ["" if reached else "MISSED" for reached in frame["reached"]]
    shown = ["case", "size", "target", "method", "best", "seconds", "wall_seconds"]
    shown += ["setup_seconds", "iterations", "over_first", "instances", "note"]
    forms = {"target": "{:.0e}".format, "over_first": "{:.2f}".format}
    text: str = frame[shown].to_string(index=False, float_format="{:.4f}".format, formatters=forms)
    return text
