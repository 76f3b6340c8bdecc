"""Seconds to a given accuracy on domains of any shape: ours, PyAMG, sparse LU and UGrid.

    Δu = 2f (Poisson) or −∇·(a∇u) = 100 (Darcy) in a shape inside the unit square, u = 0 outside

Six shapes of families that no network was trained on (`bench.families`); at 1,024 points a side two
of them, to keep the run bearable. Every iterative method is run with ever smaller tolerances until
its error against a sparse LU refined once meets the target; the seconds are processor seconds on
one thread of that run, of the assembly of the matrix and of the set-up.

    multigrid       what the library uses on shapes by default (`solvers.multigrid`), under
                    conjugate gradients; it has no network
    with network    the same cycles with the corrector that reads shapes (`ns.load("shapes")`) below
                    65 points a side, under flexible GMRES
    UGrid           with its published weights, where ENS_UGRID names them (`bench.ugrid`); its
                    grids have one point more a side; Poisson only
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg, splu

from neuralsolver.bench.families import SEED, problem_on, shapes
from neuralsolver.bench.ugrid import iterations_to, weights_file
from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.experiments.rows import machine
from neuralsolver.solvers.multigrid import MultigridStep
from neuralsolver.solvers.preconditioner import as_operator, flexible_gmres
from neuralsolver.training import load

Row = dict[str, Any]
Found = dict[tuple[str, float], tuple[float, int, float]]
Build = Callable[[], Any]
"""A preconditioner, from nothing."""
Iteration = Callable[[Any, float], tuple[Any, int]]
"""A preconditioner and a tolerance → the solution and its iterations."""

RESOLUTIONS = (128, 256, 512, 1024)
LARGE, FEW = 1024, ("gear", "maze")
TARGETS = (1e-4, 1e-8)
TOLERANCES = [10 ** (-k / 2) for k in range(2, 27)]
MOST = 200


def measure(
    resolutions: Sequence[int] = RESOLUTIONS,
    equations: Sequence[str] = ("poisson", "darcy"),
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per equation, resolution, target and method: means over the shapes."""
    torch.set_num_threads(1)
    rows = []
    cases = [(equation, n) for equation in equations for n in resolutions]
    for number, (equation, n) in enumerate(cases):
        if tell is not None:
            tell(number / len(cases), f"{equation} {n}")
        found: dict[tuple[str, float], list[tuple[float, int, float]]] = {}
        chosen = [name for name in shapes(16) if n < LARGE or name in FEW]
        for name in chosen:
            one = _one(problem_on(equation, shapes(n)[name]))
            if equation == "poisson" and weights_file() is not None:
                one |= _ugrid(problem_on(equation, shapes(n + 1)[name]))
            for key, value in one.items():
                found.setdefault(key, []).append(value)
        for (method, target), values in found.items():
            seconds, iterations, errors = zip(*values, strict=True)
            missed = sum(error > 1.01 * target for error in errors)
            rows.append(
                {
                    "equation": equation,
                    "resolution": n,
                    "target": target,
                    "method": method,
                    "seconds": float(np.mean(seconds)),
                    "iterations": max(iterations),
                    "error": max(errors),
                    "missed": missed,
                    "shapes": len(values),
                    "seed": SEED,
                    "machine": machine(),
                }
            )
    return rows


def _one(problem: Problem) -> Found:
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
    del factor

    def within(whole: LinearOperator) -> LinearOperator:
        """An operator over all points, over those that are solved for."""

        def product(r: Any) -> Any:
            spread = np.zeros(grid.size)
            spread[free] = r
            return sign * whole.matvec(spread)[free]

        return LinearOperator(small.shape, product, dtype=np.float64)

    def multigrid() -> Any:
        return within(as_operator(problem, MultigridStep(problem).of(problem)))

    def conjugate(preconditioner: Any, tolerance: float) -> tuple[Any, int]:
        count: list[Any] = []
        u, _ = cg(
            small, right, rtol=tolerance, M=preconditioner, maxiter=500, callback=count.append
        )
        return u, len(count)

    def flexible(preconditioner: Any, tolerance: float) -> tuple[Any, int]:
        count: list[float] = []
        u, _ = flexible_gmres(
            small, right, preconditioner=preconditioner, rtol=tolerance, callback=count.append
        )
        return u, len(count)

    # ours assemble the matrix by themselves
    methods: list[tuple[str, Build, Iteration, float]] = [
        ("multigrid (ours, no network)", multigrid, conjugate, 0.0)
    ]
    if problem.resolution >= (solver := load("shapes")).resolution:
        network = ("multigrid (ours, with network)", lambda: within(solver.preconditioner(problem)))
        methods.append((*network, flexible, 0.0))
    methods += [(name, build, conjugate, assembly) for name, build in _algebraic(small).items()]
    found: Found = {("sparse LU", target): (assembly + direct, 0, 0.0) for target in TARGETS}
    for name, build, iteration, before in methods:
        begin = time.process_time()
        preconditioner = build()
        setup = time.process_time() - begin
        for target in TARGETS:
            seconds, count, error = _timed(partial(iteration, preconditioner), exact, target)
            found[name, target] = (before + setup + seconds, count, error)
    return found


def _ugrid(problem: Problem) -> Found:
    exact = load("poisson").solve(problem, tolerance=1e-12).tensor
    answers = iterations_to(problem, exact, TARGETS, MOST)
    return {("UGrid (its weights)", target): answer for target, answer in answers.items()}


def _algebraic(matrix: Any) -> dict[str, Build]:
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


def _timed(
    run: Callable[[float], tuple[Any, int]], exact: Any, target: float
) -> tuple[float, int, float]:
    """Seconds, iterations and error of the first tolerance that meets the target."""
    size = np.linalg.norm(exact)
    for tolerance in TOLERANCES:
        # an error is seldom a hundred times smaller than its residual
        if tolerance > 100 * target:
            continue
        begin = time.process_time()
        u, count = run(tolerance)
        seconds = time.process_time() - begin
        error = float(np.linalg.norm(u - exact) / size)
        if error <= target:
            break
    return seconds, count, error


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':8} {'grid':>5} {'target':>7} {'method':30} {'seconds':>8} {'iterations':>10} "
        f"{'error':>8} {'shapes':>6}"
    ]
    for row in rows:
        missed = f"  MISSED on {row['missed']}" if row["missed"] else ""
        lines.append(
            f"{row['equation']:8} {row['resolution']:5d} {row['target']:7.0e} {row['method']:30} "
            f"{row['seconds']:8.3f} {row['iterations']:10d} {row['error']:8.1e} "
            f"{row['shapes']:6d}{missed}"
        )
    return "\n".join(lines)
