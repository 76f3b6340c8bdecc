"""Seconds to a given accuracy on Darcy flow: the neural solver beside the classical ones.

    −∇·(a∇u) = 100,   a ∈ {3, 12},   u = 0 on the walls;    error = ‖u − u*‖ / ‖u*‖ ≤ 1e-4, 1e-8

Every method stops by its own residual, and how small that must be for a given error differs from
method to method and from field to field. So each is run with the tolerances 10^(−k/2), k = 1, 2, …
against a known u*, and the first one that meets the target is the one that is timed: nobody pays
for accuracy that was not asked for. u* is right to round-off: it is refined with residuals in
extended precision.

One thread, processor seconds, the median of three runs between which all methods take turns.
`seconds` has everything from the permeability or, for methods that need it, from the assembled
matrix to the answer; of these `setup_seconds` are spent on a factorisation or a hierarchy. The
assembly itself is a column of its own. The networks are loaded and warm. Several variants of a
family are measured, and the fastest is marked.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator, cg, splu, spsolve

from neuralsolver.bench.reference import flux_matrix
from neuralsolver.equations import Darcy, Problem
from neuralsolver.experiments.rows import machine
from neuralsolver.experiments.targets import KEY
from neuralsolver.reference import solve_darcy
from neuralsolver.reference.multigrid import Axis, Multigrid
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.network_free import FEW_POINTS, without_network
from neuralsolver.training import load

Array = npt.NDArray[np.float64]
Row = dict[str, Any]

RESOLUTIONS = (64, 128, 256, 512)
TARGETS = (1e-4, 1e-8)
SAMPLES = 4
SEED = 20_263
SOURCE = 100.0
REPEATS = 3
TOLERANCES = [10 ** (-k / 2) for k in range(1, 26)]


@dataclass(frozen=True)
class Instance:
    """One field with its matrix over the interior points, by columns for SciPy and by rows for
    PyAMG, and the solution there."""

    problem: Problem
    matrix: Any
    matrix_by_rows: Any
    exact: Array
    assembly_seconds: float

    @property
    def permeability(self) -> Array:
        """a, (n, n)."""
        field: Array = self.problem.inputs[0, 0].numpy()
        return field

    @property
    def right(self) -> Array:
        """f over the interior points."""
        return np.full(len(self.exact), SOURCE)

    def error(self, u: Array) -> float:
        """Relative L2 error."""
        return float(np.linalg.norm(u - self.exact) / np.linalg.norm(self.exact))


@dataclass(frozen=True)
class Method:
    """A way to solve: `prepare` what does not depend on the tolerance, then `solve` with it.

    `solve` returns u over the interior points and the number of iterations, 0 if it is direct.
    """

    family: str
    name: str
    prepare: Callable[[Instance], Any]
    solve: Callable[[Instance, Any, float], tuple[Array, int]]
    assembles: bool = True


def measure(
    resolutions: Sequence[int] = RESOLUTIONS,
    samples: int = SAMPLES,
    seed: int = SEED,
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per resolution, target and method."""
    torch.set_num_threads(1)
    methods = [*_neural(), *_direct(), *_algebraic(), _geometric(), _sine_preconditioned()]
    rows = []
    for position, resolution in enumerate(resolutions):
        if tell is not None:
            tell(position / len(resolutions), f"{resolution} points")
        count = max(1, min(samples, 1024 // resolution))
        drawn = [instance(resolution, seed, index) for index in range(count)]
        for target in TARGETS:
            shared = {"samples": count, "seed": seed, "machine": machine()}
            new = [row | shared for row in _compare(methods, drawn, target)]
            fastest: dict[str, float] = {}
            for row in new:
                if row["reached"]:
                    best = fastest.get(row["family"], np.inf)
                    fastest[row["family"]] = min(best, row["seconds"])
            rows += [row | {"best": row["seconds"] == fastest.get(row["family"])} for row in new]
    return rows


def instance(resolution: int, seed: int, index: int) -> Instance:
    """The field (seed, index) with its matrix and its solution."""
    equation = Darcy(source=SOURCE)
    problem = Problem.random(equation, resolution, index + 1, seed, KEY).select([index])
    permeability = problem.inputs[0, 0].numpy()
    begin = time.process_time()
    matrix = flux_matrix(permeability)
    seconds = time.process_time() - begin
    return Instance(problem, matrix, matrix.tocsr(), exact_solution(permeability), seconds)


def exact_solution(permeability: Array) -> Array:
    """u over the interior points, refined with residuals in extended precision."""
    a = permeability.astype(np.longdouble)
    scale = np.longdouble(len(a) - 1) ** 2 / 2
    across, along = a[1:, 1:-1] + a[:-1, 1:-1], a[1:-1, 1:] + a[1:-1, :-1]
    u = np.zeros_like(a)
    for _ in range(3):
        down = np.diff(across * np.diff(u[:, 1:-1], axis=0), axis=0)
        right = np.diff(along * np.diff(u[1:-1], axis=1), axis=1)
        residual = np.pad(SOURCE + scale * (down + right), 1).astype(np.float64)
        u += solve_darcy(permeability[None], residual[None], tolerance=1e-8).u[0]
    return u[1:-1, 1:-1].ravel().astype(np.float64)


def _compare(methods: list[Method], drawn: list[Instance], target: float) -> list[Row]:
    """One row per method; they take turns on every sample."""
    seconds: dict[str, list[list[float]]] = {method.name: [] for method in methods}
    setups: dict[str, list[list[float]]] = {method.name: [] for method in methods}
    found: dict[str, list[tuple[float, int, float]]] = {method.name: [] for method in methods}
    for one in drawn:
        for method in methods:
            found[method.name].append(_walk(method, one, target))
            seconds[method.name].append([])
            setups[method.name].append([])
        for _ in range(REPEATS):
            for method in methods:
                setup, total = _clock(method, one, found[method.name][-1][0])
                setups[method.name][-1].append(setup)
                seconds[method.name][-1].append(total)
    return [
        {
            "family": method.family,
            "method": method.name,
            "resolution": drawn[0].problem.resolution,
            "target": target,
            "seconds": statistics.mean(map(statistics.median, seconds[method.name])),
            "setup_seconds": statistics.mean(map(statistics.median, setups[method.name])),
            "assembly_seconds": statistics.mean(one.assembly_seconds for one in drawn)
            if method.assembles
            else 0.0,
            "iterations": max(iterations for _, iterations, _ in found[method.name]),
            "error": max(error for _, _, error in found[method.name]),
            "reached": all(error <= target for _, _, error in found[method.name]),
        }
        for method in methods
    ]


def _walk(method: Method, one: Instance, target: float) -> tuple[float, int, float]:
    """The largest tolerance that meets the target, with the iterations and the error it gives."""
    state = method.prepare(one)
    for tolerance in TOLERANCES:
        u, iterations = method.solve(one, state, tolerance)
        error = one.error(u)
        if error <= target or method.family == "direct":
            break
    return tolerance, iterations, error


def _clock(method: Method, one: Instance, tolerance: float) -> tuple[float, float]:
    """Processor seconds of the preparation alone, and with the solve."""
    begin = time.process_time()
    state = method.prepare(one)
    prepared = time.process_time()
    method.solve(one, state, tolerance)
    return prepared - begin, time.process_time() - begin


def _neural() -> list[Method]:
    """The contractive ENS and the same without its network, with and without acceleration."""
    ens = load("darcy-contractive")
    siblings: dict[str, tuple[str, TrainedSolver]] = {
        "ENS, V-cycles": ("ENS", ens),
        "no network, V-cycles, coarsest LU": ("no network", without_network(ens, ens.resolution)),
        "no network, multigrid": ("no network", without_network(ens, FEW_POINTS)),
    }

    def solving(solver: TrainedSolver) -> Callable[[Instance, bool, float], tuple[Array, int]]:
        def solve(one: Instance, accelerate: bool, tolerance: float) -> tuple[Array, int]:
            solution = solver.solve(one.problem, tolerance=tolerance, accelerate=accelerate)
            return solution.tensor[0, 0, 1:-1, 1:-1].numpy().ravel(), int(solution.steps.max())

        return solve

    methods = []
    for name, (family, solver) in siblings.items():
        solver.solve(Problem.random(Darcy(), 2 * solver.resolution), steps=1)
        solve = solving(solver)
        methods.append(Method(family, name, lambda one: False, solve, assembles=False))
        methods.append(Method(family, f"{name} + Krylov", lambda one: True, solve, assembles=False))
    return methods


def _direct() -> list[Method]:
    """Sparse LU with the default ordering, and with the best one for a symmetric matrix."""

    def factor(one: Instance) -> Any:
        options = {"SymmetricMode": True}
        return splu(one.matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    return [
        Method(
            "direct",
            "SciPy spsolve",
            lambda one: None,
            lambda one, state, tolerance: (spsolve(one.matrix, one.right), 0),
        ),
        Method(
            "direct",
            "SciPy splu, MMD(A+A')",
            factor,
            lambda one, state, tolerance: (state.solve(one.right), 0),
        ),
    ]


def _algebraic() -> list[Method]:
    """PyAMG's hierarchies in conjugate gradients; none of them where it is not installed."""
    if importlib.util.find_spec("pyamg") is None:
        return []
    import pyamg

    # a forward sweep down and a backward one up keep the cycle symmetric at half the price
    cheap = {
        "presmoother": ("gauss_seidel", {"sweep": "forward"}),
        "postsmoother": ("gauss_seidel", {"sweep": "backward"}),
    }
    kinds = {
        "smoothed aggregation": (pyamg.smoothed_aggregation_solver, {"improve_candidates": None}),
        "Ruge-Stuben": (pyamg.ruge_stuben_solver, {}),
        "rootnode": (pyamg.rootnode_solver, {"improve_candidates": None}),
    }

    def preparing(build: Callable[..., Any], options: dict[str, Any]) -> Callable[[Instance], Any]:
        return lambda one: build(one.matrix_by_rows, **options)

    def solve(one: Instance, state: Any, tolerance: float) -> tuple[Array, int]:
        norms: list[float] = []
        u = state.solve(one.right, tol=tolerance, accel="cg", maxiter=200, residuals=norms)
        return u, len(norms) - 1

    methods = []
    for kind, (build, options) in kinds.items():
        methods.append(Method("PyAMG", f"PyAMG {kind}", preparing(build, {}), solve))
        name = f"PyAMG {kind}, half sweeps"
        methods.append(Method("PyAMG", name, preparing(build, {**options, **cheap}), solve))
    return methods


def _geometric() -> Method:
    """Our geometric multigrid in conjugate gradients: the strongest of the hierarchies."""

    def prepare(one: Instance) -> Any:
        points = np.linspace(0.0, 1.0, one.problem.resolution)
        cycle = Multigrid(one.matrix_by_rows, [Axis(points)] * 2, np.ones(len(one.exact), bool))
        return LinearOperator(one.matrix.shape, cycle.solve, dtype=np.float64)

    def solve(one: Instance, cycle: Any, tolerance: float) -> tuple[Array, int]:
        count = 0

        def tick(_: object) -> None:
            nonlocal count
            count += 1

        options = {"M": cycle, "rtol": tolerance, "maxiter": 200, "callback": tick}
        return cg(one.matrix_by_rows, one.right, **options)[0], count

    return Method("multigrid", "geometric multigrid + CG", prepare, solve)


def _sine_preconditioned() -> Method:
    """Our reference solver."""

    def solve(one: Instance, state: None, tolerance: float) -> tuple[Array, int]:
        found = solve_darcy(one.permeability[None], SOURCE, tolerance=tolerance)
        return found.u[0, 1:-1, 1:-1].ravel(), int(found.iterations[0])

    return Method("reference", "sine-preconditioned CG", lambda one: None, solve, assembles=False)


def table(rows: list[Row]) -> str:
    """The rows as aligned text; the fastest of a family has a star."""
    lines = [
        f"{'method':40} {'grid':>4} {'target':>7} {'seconds':>8} {'setup':>8} {'assembly':>8} "
        f"{'iterations':>10} {'error':>8} {'samples':>7}"
    ]
    for row in rows:
        lines.append(
            f"{row['method'] + ' *' * row['best']:40} {row['resolution']:4d} {row['target']:7.0e} "
            f"{row['seconds']:8.4f} {row['setup_seconds']:8.4f} {row['assembly_seconds']:8.4f} "
            f"{row['iterations']:10d} {row['error']:8.1e} {row['samples']:7d}"
            f"{'' if row['reached'] else '  MISSED'}"
        )
    return "\n".join(lines)
