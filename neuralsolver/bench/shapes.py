"""Seconds to a given accuracy on domains of any shape: multigrid beside PyAMG and sparse LU.

    Δu = 2f (Poisson) or −∇·(a∇u) = 100 (Darcy) in a shape inside the unit square, u = 0 outside

Shapes of families that nothing here was tuned on: a gear, a maze, letters, an L, a slit, a comb
whose gaps are two points wide. Every iterative method is run with the tolerances 10^(−k/2) until
its error against a sparse LU refined once meets the target, and that run is timed in processor
seconds on one thread, assembly of the matrix and set-up included.

`multigrid` is what the library itself uses on shapes (`solvers.multigrid`): it has no network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator, cg, splu

from neuralsolver.equations import Darcy, Known, Poisson, Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.experiments.rows import machine
from neuralsolver.solvers.multigrid import MultigridStep
from neuralsolver.solvers.preconditioner import as_operator

Mask = npt.NDArray[np.bool_]
Row = dict[str, Any]

RESOLUTIONS = (128, 256, 512, 1024)
TARGETS = (1e-4, 1e-8)
SEED = 20_264
TOLERANCES = [10 ** (-k / 2) for k in range(2, 25)]


def shapes(n: int) -> dict[str, Mask]:
    """The points outside each shape."""
    line = np.linspace(-1, 1, n)
    y, x = np.meshgrid(-line, line, indexing="ij")
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    cell = max(6, n // 16)
    gates = np.random.default_rng(SEED).integers(0, n // cell + 1, n // cell + 1)
    bars = (i % cell == 0) & (j // cell != gates[i // cell])
    posts = (j % (3 * cell) == 0) & (i % (2 * cell) > cell // 2)
    return {
        "gear": radius > 0.7 + 0.15 * np.sign(np.cos(12 * angle)),
        "maze": bars | posts,
        "letters": ~_letters(x, y),
        "L": (x > 0.1) & (y > -0.2),
        "slit": (np.abs(y) < 2 / n) & (x > -0.8),
        "comb": (i % 3 == 0) & (np.abs(x) < 0.7),
    }


def _letters(x: Any, y: Any) -> Mask:
    """E, N and S in strokes, as one domain."""
    left = (np.abs(x + 0.85) < 0.06) & (np.abs(y) < 0.6)
    for height in (-0.54, 0.0, 0.54):
        left |= (np.abs(y - height) < 0.06) & (x > -0.91) & (x < -0.4)
    middle = ((np.abs(x + 0.2) < 0.06) | (np.abs(x - 0.2) < 0.06)) & (np.abs(y) < 0.6)
    middle |= (np.abs(y + 2.7 * x) < 0.16) & (np.abs(x) < 0.26) & (np.abs(y) < 0.6)
    ring = np.abs(np.hypot(x - 0.65, np.abs(y) - 0.3) - 0.24) < 0.06
    return np.asarray(left | middle | ring)


def problem_on(equation: str, outside: Mask) -> Problem:
    """A random problem with u = 0 outside a shape."""
    made = Poisson() if equation == "poisson" else Darcy()
    n = len(outside)
    held = Known(outside, np.zeros((n, n)))
    return Problem(made, Problem.random(made, n, seed=SEED).inputs, known=held)


def measure(
    resolutions: Sequence[int] = RESOLUTIONS, equations: Sequence[str] = ("poisson", "darcy")
) -> list[Row]:
    """One row per equation, resolution, target and method: means over the shapes."""
    torch.set_num_threads(1)
    rows = []
    for equation in equations:
        for n in resolutions:
            found: dict[tuple[str, float], list[tuple[float, int, float]]] = {}
            for outside in shapes(n).values():
                for key, value in _one(problem_on(equation, outside)).items():
                    found.setdefault(key, []).append(value)
            for (method, target), values in found.items():
                seconds, iterations, errors = zip(*values, strict=True)
                rows.append(
                    {
                        "equation": equation,
                        "resolution": n,
                        "target": target,
                        "method": method,
                        "seconds": float(np.mean(seconds)),
                        "iterations": max(iterations),
                        "error": max(errors),
                        "shapes": len(values),
                        "seed": SEED,
                        "machine": machine(),
                    }
                )
    return rows


def _one(problem: Problem) -> dict[tuple[str, float], tuple[float, int, float]]:
    """(seconds, iterations, error) by method and target, on one shape."""
    grid, known = problem.grid, problem.known
    assert known is not None
    begin = time.process_time()
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    assembly = time.process_time() - begin
    free = np.flatnonzero(~grid.flatten(known.mask)[0].numpy())
    right = -grid.flatten(problem.residual(problem.zeros()))[0].numpy()[free]
    sign = -1.0 if problem.equation.name == "poisson" else 1.0
    small = (sign * matrix)[free][:, free].tocsr()
    right = sign * right
    begin = time.process_time()
    factor = splu(
        small.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    exact = factor.solve(right)
    direct = time.process_time() - begin
    exact += factor.solve(right - small @ exact)

    def multigrid() -> Any:
        whole = as_operator(problem, MultigridStep(problem).of(problem))

        def product(r: Any) -> Any:
            spread = np.zeros(grid.size)
            spread[free] = r
            return sign * whole.matvec(spread)[free]

        return LinearOperator(small.shape, product, dtype=np.float64)

    methods: dict[str, Callable[[], Any]] = {"multigrid (ours, no network)": multigrid}
    methods.update(_algebraic(small))
    found = {}
    for target in TARGETS:
        found["sparse LU", target] = (assembly + direct, 0, 0.0)
        for name, build in methods.items():
            # ours assembles the matrix by itself
            extra = 0.0 if name.startswith("multigrid") else assembly
            seconds, count, error = _solve(build, small, right, exact, target)
            found[name, target] = (extra + seconds, count, error)
    return found


def _algebraic(matrix: Any) -> dict[str, Callable[[], Any]]:
    """PyAMG's hierarchies as preconditioners, where it is installed."""
    try:
        import pyamg
    except ImportError:
        return {}
    kinds = {
        "PyAMG smoothed aggregation": pyamg.smoothed_aggregation_solver,
        "PyAMG Ruge-Stuben": pyamg.ruge_stuben_solver,
    }
    return {
        name: lambda build=build: build(matrix).aspreconditioner()  # type: ignore[misc]
        for name, build in kinds.items()
    }


def _solve(
    build: Callable[[], Any], matrix: Any, right: Any, exact: Any, target: float
) -> tuple[float, int, float]:
    """Seconds, iterations and error of the first tolerance that meets the target."""
    preconditioner = build()
    for tolerance in TOLERANCES:
        u, _ = cg(matrix, right, rtol=tolerance, M=preconditioner, maxiter=500)
        if np.linalg.norm(u - exact) <= target * np.linalg.norm(exact):
            break
    count: list[Any] = []
    begin = time.process_time()
    u, _ = cg(matrix, right, rtol=tolerance, M=build(), maxiter=500, callback=count.append)
    seconds = time.process_time() - begin
    return seconds, len(count), float(np.linalg.norm(u - exact) / np.linalg.norm(exact))


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':8} {'grid':>5} {'target':>7} {'method':30} {'seconds':>8} {'iterations':>10} "
        f"{'error':>8} {'shapes':>6}"
    ]
    for row in rows:
        missed = "" if row["error"] <= row["target"] else "  MISSED"
        lines.append(
            f"{row['equation']:8} {row['resolution']:5d} {row['target']:7.0e} {row['method']:30} "
            f"{row['seconds']:8.3f} {row['iterations']:10d} {row['error']:8.1e} "
            f"{row['shapes']:6d}{missed}"
        )
    return "\n".join(lines)
