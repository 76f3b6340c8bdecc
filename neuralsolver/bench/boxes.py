"""Poisson and Darcy in the unit cube to a residual of 1e-8, beside the strongest classical solvers.

    −∇·(a∇u) = f,   a ∈ {3, 12} (Darcy) or uniform (Poisson),   f random,   u = 0 on the walls

All methods solve the same discrete equation until ‖f − Au‖ ≤ 10⁻⁸ ‖f‖, each with its own iteration:

    V-cycles, corrector   `ns.load("darcy-box")`: V-cycles down to 32³ points, the network there
    V-cycles, LU on 32³   the same cycles, a sparse factorisation in the place of the network
    V-cycles, no network  the same cycles, down to 8³ points
    Galerkin multigrid    what the library uses in boxes without a corrector (`solvers.multigrid`)
    PyAMG                 smoothed aggregation and Ruge-Stüben under conjugate gradients
    sine transform        conjugate gradients preconditioned with it; for Poisson the solve itself

Processor seconds of one thread, set-up included: of the hierarchy, the factors, the assembled
matrix where one is needed (for the corrector what is set up once is its weights; its hierarchy is
in the seconds). Every case runs in a process of its own, so that `memory` is its largest resident
set, the interpreter with torch and SciPy included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import cg

from neuralsolver.equations import DarcyBox, ForcedDarcy, Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.experiments.rows import machine
from neuralsolver.reference.boxes import BoxFlux, conjugate_gradients, sine_transform_of_box
from neuralsolver.solvers import Krylov, ResidualBelow, VCycle, iterate
from neuralsolver.solvers.multigrid import COARSEST_POINTS, Factors, MultigridStep
from neuralsolver.training import load

Array = npt.NDArray[np.float64]
Row = dict[str, Any]
Answer = tuple[Array, int, float]
"""u, the iterations, and the seconds of the set-up."""

RESOLUTIONS = (32, 64, 128)
SEED = 20_265
TOLERANCE = 1e-8
MAX_STEPS = 100
MODEL = "darcy-box"


def problem_of(equation: str, resolution: int, seed: int) -> Problem:
    """A random problem; for Poisson its medium is uniform."""
    draw = 0
    while True:  # a quarter of the media are uniform
        fields = Problem.random(DarcyBox(), resolution, seed=seed, key=draw).inputs
        if float(fields[0, 0].std()) > 0:
            break
        draw += 1
    if equation == "poisson":
        fields[:, 0] = 1.0
    return Problem(ForcedDarcy(), fields, lengths=(1, 1, 1))


def _stepping(problem: Problem, make: Callable[[], Any]) -> Answer:
    begin = time.process_time()
    step = make()
    if isinstance(step, VCycle):  # stencils and factors are made when they are first needed
        step.correction(step.levels, problem.zeros(), problem.residual(problem.zeros()))
    setup = time.process_time() - begin
    rule = ResidualBelow(TOLERANCE, MAX_STEPS)
    solution = iterate(Krylov(step), problem, problem.first_guess(), rule)
    return solution.tensor[0, 0].numpy(), int(solution.steps[0]), setup


def _corrector(problem: Problem) -> Answer:
    begin = time.process_time()
    solver = load(MODEL)
    setup = time.process_time() - begin
    solution = solver.solve(problem, tolerance=TOLERANCE)
    return solution.tensor[0, 0].numpy(), int(solution.steps[0]), setup


def _sine(problem: Problem) -> Answer:
    begin = time.process_time()
    a, f = problem.inputs[0].numpy()
    inside = (slice(1, -1),) * 3
    uniform = float(a.min()) == float(a.max())
    transform = sine_transform_of_box(len(a), single=not uniform)
    operator = None if uniform else BoxFlux(a)
    setup = time.process_time() - begin
    u, count = np.zeros_like(f), 0
    if operator is None:
        u[inside] = transform.inverse_laplacian(np.ascontiguousarray(f[inside])) / a[0, 0, 0]
    else:
        u[inside], count = conjugate_gradients(operator, f[inside], TOLERANCE)
    return u, count, setup


def _algebraic(kind: str, problem: Problem) -> Answer:
    import pyamg

    begin = time.process_time()
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    inverse = getattr(pyamg, kind)(matrix).aspreconditioner()
    setup = time.process_time() - begin
    right = -problem.grid.flatten(problem.residual(problem.zeros()))[0].numpy()
    count: list[Any] = []
    found, _ = cg(
        matrix, right, rtol=TOLERANCE, M=inverse, maxiter=MAX_STEPS, callback=count.append
    )
    field = problem.grid.unflatten(torch.from_numpy(found)[None], problem.zeros())
    return field[0, 0].numpy(), len(count), setup


METHODS: dict[str, Callable[[Problem], Answer]] = {
    "V-cycles, corrector": _corrector,
    "V-cycles, LU on 32³": lambda p: _stepping(p, lambda: VCycle(Factors(), p, 32)),
    "V-cycles, no network": lambda p: _stepping(p, lambda: VCycle(Factors(), p, COARSEST_POINTS)),
    "Galerkin multigrid": lambda p: _stepping(p, lambda: MultigridStep(p)),
    "PyAMG smoothed aggregation": lambda p: _algebraic("smoothed_aggregation_solver", p),
    "PyAMG Ruge-Stuben": lambda p: _algebraic("ruge_stuben_solver", p),
    "sine transform": _sine,
}


def one(equation: str, resolution: int, method: str, seed: int) -> Row:
    """One case, in this process."""
    torch.set_num_threads(1)
    problem = problem_of(equation, resolution, seed)
    begin = time.process_time()
    u, count, setup = METHODS[method](problem)
    seconds = time.process_time() - begin
    residual = problem.residual(torch.from_numpy(u)[None, None])
    source = problem.residual(problem.zeros())
    return {
        "equation": equation,
        "resolution": resolution,
        "method": method,
        "iterations": count,
        "setup_seconds": setup,
        "seconds": seconds,
        "residual": float(residual.norm() / source.norm()),
        "memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seed": seed,
    }


def measure(
    resolutions: Sequence[int] = RESOLUTIONS,
    seed: int = SEED,
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per equation, resolution and method."""
    cases = [
        (equation, n, method)
        for n in resolutions
        for equation in ("poisson", "darcy")
        for method in METHODS
    ]
    rows = []
    for position, (equation, n, method) in enumerate(cases):
        if tell is not None:
            tell(position / len(cases), f"{equation}, {n}³, {method}")
        rows.append(_apart(equation, n, method, seed) | {"machine": machine()})
    return rows


def _apart(equation: str, resolution: int, method: str, seed: int) -> Row:
    """One case in a process of its own; what fails is a row that says so."""
    command = [sys.executable, "-m", __name__, equation, str(resolution), method, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        row: Row = json.loads(done.stdout.splitlines()[-1])
        return row
    why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"equation": equation, "resolution": resolution, "method": method, "failed": why[:200]}


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':8} {'grid':>5} {'method':27} {'iterations':>10} {'set-up s':>9} "
        f"{'all s':>8} {'MB':>6} {'residual':>9}"
    ]
    for row in rows:
        start = f"{row['equation']:8} {row['resolution']:4d}³ {row['method']:27} "
        if "failed" in row:
            lines.append(f"{start}failed: {row['failed']}")
            continue
        missed = "" if row["residual"] <= 1.01 * TOLERANCE else "  MISSED"
        lines.append(
            f"{start}{row['iterations']:10d} {row['setup_seconds']:9.2f} {row['seconds']:8.2f} "
            f"{row['memory_megabytes']:6.0f} {row['residual']:9.1e}{missed}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
