"""The demonstration: fresh instances of the static equations, every shipped way to solve them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neuralsolver.data.truth import truth
from neuralsolver.equations import Equation, Problem
from neuralsolver.solvers import Observation, Solution, TrainedSolver
from neuralsolver.training import load, shipped
from neuralsolver.training.objectives import squared_norm

STATIC = ("poisson", "helmholtz", "nonlinear-helmholtz", "darcy")
TOLERANCE = 1e-10
STEPS = 40
MAX_ATTEMPTS = 20

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One method on one instance."""

    equation: str
    method: str
    error: float
    residual: float
    steps: int
    seconds: float
    status: str


@dataclass(frozen=True)
class Scene:
    """What is drawn of one equation: fields, and error and residual after every step."""

    equation: Equation
    source: Array
    solution: Array
    error_before: Array
    error_after: Array
    errors: list[float]
    residuals: list[float]


def demonstrate(seed: int) -> tuple[list[Row], list[Scene]]:
    """Rows of the table and scenes of the picture, for the equations with a shipped model."""
    rows: list[Row] = []
    scenes: list[Scene] = []
    models = shipped()
    for position, name in enumerate(STATIC):
        if f"{name}-contractive" not in models:
            continue
        solver = load(f"{name}-contractive")
        problem, exact, seconds = _instance(solver, seed + position)
        measured = _Measure(problem, exact)
        for recipe, label in (("fno", "FNO"), ("paper", "ENS paper")):
            if f"{name}-{recipe}" in models:
                # each by its own rule: a prediction, corrections until the residual stops falling
                rows.append(measured.row(label, load(f"{name}-{recipe}").network.solve(problem)))
        rows.append(measured.row("ENS prediction", solver.solve(problem, steps=0)))
        scene: list[Observation] = []
        plain = solver.solve(problem, steps=STEPS, observe=scene.append)
        rows.append(measured.row(f"ENS {STEPS} steps", plain))
        rows.append(measured.row("ENS accelerated", solver.solve(problem, tolerance=TOLERANCE)))
        residual = measured.relative_residual(exact)
        rows.append(Row(name, "classical", 0.0, residual, 0, seconds, "reference"))
        scenes.append(measured.scene(scene))
    return rows, scenes


def _instance(solver: TrainedSolver, seed: int) -> tuple[Problem, torch.Tensor, float]:
    """A fresh problem that has a solution, the solution, and the seconds a warm solver takes."""
    for attempt in range(MAX_ATTEMPTS):
        problem = Problem.random(solver.equation, solver.resolution, seed=seed, key=2 + attempt)
        found = truth(solver.equation, problem.inputs.numpy())
        if found.solved.all():
            break
    start = time.perf_counter()
    truth(solver.equation, problem.inputs.numpy())
    return problem, torch.from_numpy(found.solution), time.perf_counter() - start


class _Measure:
    """Errors of solutions of one problem against its exact solution."""

    def __init__(self, problem: Problem, exact: torch.Tensor) -> None:
        self.problem, self.exact = problem, exact
        self.scale = squared_norm(problem.residual(problem.zeros())).sqrt()

    def relative_error(self, u: torch.Tensor) -> float:
        return float((squared_norm(u - self.exact) / squared_norm(self.exact)).sqrt())

    def relative_residual(self, u: torch.Tensor) -> float:
        return float(squared_norm(self.problem.residual(u)).sqrt() / self.scale)

    def row(self, method: str, solution: Solution) -> Row:
        return Row(
            equation=self.problem.equation.name,
            method=method,
            error=self.relative_error(solution.tensor),
            residual=self.relative_residual(solution.tensor),
            steps=int(solution.steps.max()),
            seconds=solution.seconds,
            status=solution.status[0].name,
        )

    def scene(self, seen: list[Observation]) -> Scene:
        def field(u: Any) -> Array:
            return np.asarray(u[0, 0], dtype=np.float64)

        return Scene(
            equation=self.problem.equation,
            source=field(self.problem.inputs),
            solution=field(self.exact),
            error_before=field(seen[0].u - self.exact),
            error_after=field(seen[-1].u - self.exact),
            errors=[self.relative_error(s.u) for s in seen],
            residuals=[self.relative_residual(s.u) for s in seen],
        )
