"""The recipes side by side: a plain operator, the paper's ENS, the contractive ENS, classical.

Each model is applied as its recipe means it: FNO predicts; the paper's ENS iterates until its
residual no longer falls, on a finer grid with a smaller step size found on other instances; the
contractive ENS makes 20 corrections, on a finer grid as V-cycles.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from neuralsolver.bench.targets import instances, relative_error
from neuralsolver.data.truth import truth
from neuralsolver.equations import Darcy, Equation, Helmholtz, Poisson, Problem
from neuralsolver.solvers import ResidualPlateau, Solution, TrainedSolver
from neuralsolver.solvers.step_size import search_step_size, with_step_size
from neuralsolver.training import load, shipped

SAMPLES = 100
SEED = 20_262
STEPS = 20
HELD_OUT = 4
"""Instances on which the paper's step size for a finer grid is searched."""

REGIMES: list[tuple[str, str, Equation, int]] = [
    ("poisson", "trained", Poisson(), 64),
    ("poisson", "a 2 -> 1", Poisson(scale=1.0), 64),
    ("poisson", "grid 64 -> 128", Poisson(), 128),
    ("helmholtz", "trained", Helmholtz(), 64),
    ("helmholtz", "kappa 1 -> 3", Helmholtz(wavenumber=3.0), 64),
    ("helmholtz", "to Poisson", Poisson(), 64),
    ("helmholtz", "grid 64 -> 128", Helmholtz(), 128),
    ("nonlinear-helmholtz", "trained", Helmholtz(wavenumber=2.0, nonlinearity=1.0), 64),
    ("nonlinear-helmholtz", "kappa 3, lambda 4", Helmholtz(wavenumber=3.0, nonlinearity=4.0), 64),
    ("darcy", "trained", Darcy(), 64),
    ("darcy", "f 100 -> 200", Darcy(source=200.0), 64),
    ("darcy", "grid 64 -> 128", Darcy(), 128),
]


def measure(samples: int = SAMPLES, seed: int = SEED) -> list[dict[str, Any]]:
    """One row per regime and shipped recipe."""
    torch.set_num_threads(1)
    rows = []
    for name, regime, equation, resolution in REGIMES:
        count = samples if resolution == 64 else max(1, samples // 5)
        problem, exact = instances(equation, resolution, count, seed)
        for recipe in ("fno", "paper", "contractive"):
            if f"{name}-{recipe}" not in shipped():
                continue
            begin = time.perf_counter()
            solution = _solve(load(f"{name}-{recipe}"), recipe, problem, seed)
            seconds = (time.perf_counter() - begin) / len(exact)
            error = relative_error(solution.tensor, exact)
            rows.append(
                _row(name, regime, recipe, problem, seed)
                | {
                    "error": float(error.mean()),
                    "worst": float(error.max()),
                    "residual": float(solution.relative_residual.mean()),
                    "steps": int(solution.steps.max()),
                    "seconds": seconds,
                }
            )
        begin = time.perf_counter()
        truth(equation, problem.inputs.numpy())
        seconds = (time.perf_counter() - begin) / len(exact)
        rows.append(_row(name, regime, "classical", problem, seed) | {"seconds": seconds})
    return rows


def _row(name: str, regime: str, recipe: str, problem: Problem, seed: int) -> dict[str, Any]:
    return {
        "equation": name,
        "regime": regime,
        "recipe": recipe,
        "resolution": problem.resolution,
        "samples": problem.batch,
        "seed": seed,
    }


def _solve(solver: TrainedSolver, recipe: str, problem: Problem, seed: int) -> Solution:
    if recipe == "fno":
        return solver.network.solve(problem)
    if recipe == "contractive":
        return solver.solve(problem, steps=STEPS)
    network = solver.network
    if problem.resolution != solver.resolution:
        held_out = Problem.random(problem.equation, problem.resolution, HELD_OUT, seed, key=8)
        network = with_step_size(network, search_step_size(network, held_out))
    return network.solve(problem, stop=ResidualPlateau())


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':20} {'regime':18} {'recipe':12} {'grid':>4} {'samples':>7} "
        f"{'relative L2':>11} {'worst':>8} {'residual':>8} {'steps':>5} {'s/sample':>9}"
    ]
    for row in rows:
        values = f"{'':11} {'':8} {'':8} {'':5}"
        if "error" in row:
            values = (
                f"{row['error']:11.1e} {row['worst']:8.1e} {row['residual']:8.1e} {row['steps']:5d}"
            )
        lines.append(
            f"{row['equation']:20} {row['regime']:18} {row['recipe']:12} {row['resolution']:4d} "
            f"{row['samples']:7d} {values} {row['seconds']:9.4f}"
        )
    return "\n".join(lines)
