"""Steps to a residual of 1e-8 on fresh shapes of families that no network was trained on.

    with network     the corrector that reads shapes, accelerated: at 64 points a side sweeps and a
                     correction, on finer grids V-cycles with the corrector below
    without          the same with the corrector answering nothing
    multigrid        the V-cycles without a network that the library uses by default

`within` is the share of the shapes that needs at most 60 steps; `polished` the share that is solved
when Newton's method may finish; `never_worse` whether no shape takes more steps with the network
than without.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from neuralsolver.bench.families import FAMILIES, SEED, fresh_problem
from neuralsolver.experiments.rows import machine
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.network_free import without_network
from neuralsolver.training import load

Row = dict[str, Any]

RESOLUTIONS = (64, 128, 512)
COUNTS = {64: 50, 128: 50, 512: 12}
TOLERANCE, MOST_STEPS = 1e-8, 60


def measure(
    resolutions: Sequence[int] = RESOLUTIONS,
    samples: int | None = None,
    seed: int = SEED,
    equations: Sequence[str] = ("poisson", "darcy"),
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per equation, resolution and method."""
    torch.set_num_threads(1)
    rows: list[Row] = []
    cases = [(equation, n) for equation in equations for n in resolutions]
    for number, (equation, n) in enumerate(cases):
        if tell is not None:
            tell(number / len(cases), f"{equation} {n}")
        count = samples or COUNTS.get(n, 12)
        solvers = {"with network": load("shapes"), "multigrid": load(equation)}
        if n == solvers["with network"].resolution:
            solvers["without"] = without_network(load("shapes"))
        drawn = [fresh_problem(equation, n, i, seed) for i in range(count)]
        taken = {name: [_solve(s, p) for _, p in drawn] for name, s in solvers.items()}
        for method, answers in taken.items():
            steps = np.array([answer[0] for answer in answers])
            worst = int(steps.argmax())
            rows.append(
                {
                    "equation": equation,
                    "resolution": n,
                    "method": method,
                    "median": float(np.median(steps)),
                    "most": int(steps.max()),
                    "worst": drawn[worst][0],
                    "within": float(np.mean((steps <= MOST_STEPS) & [a[1] for a in answers])),
                    "polished": float(np.mean([answer[2] for answer in answers])),
                    "seconds": float(np.mean([answer[3] for answer in answers])),
                    "shapes": count,
                    "families": len(FAMILIES),
                    "tolerance": TOLERANCE,
                    "seed": seed,
                    "machine": machine(),
                }
            )
            if method == "without":
                corrected = np.array([answer[0] for answer in taken["with network"]])
                rows[-1]["never_worse"] = bool((corrected <= steps).all())
    return rows


def _solve(solver: TrainedSolver, problem: Any) -> tuple[int, bool, bool, float]:
    """Steps, whether they reached the tolerance, whether a polish does, and processor seconds."""
    begin = time.process_time()
    solution = solver.solve(problem, tolerance=TOLERANCE)
    seconds, done = time.process_time() - begin, solution.good
    polished = done or solver.solve(problem, tolerance=TOLERANCE, polish=True).good
    return int(solution.steps[0]), done, polished, seconds


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':8} {'grid':>5} {'method':14} {'median':>6} {'most':>5} {'worst':8} "
        f"{'within 60':>9} {'polished':>8} {'seconds':>8} {'shapes':>6}"
    ]
    for row in rows:
        verdict = {True: "  never worse with it", False: "  SOMETIMES BETTER without"}
        note = verdict[row["never_worse"]] if "never_worse" in row else ""
        lines.append(
            f"{row['equation']:8} {row['resolution']:5d} {row['method']:14} {row['median']:6.0f} "
            f"{row['most']:5d} {row['worst']:8} {row['within']:9.0%} {row['polished']:8.0%} "
            f"{row['seconds']:8.3f} {row['shapes']:6d}{note}"
        )
    return "\n".join(lines)
