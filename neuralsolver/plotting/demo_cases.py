"""The demonstration: a fresh instance of every equation, every shipped way to solve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.data.reference_solver import CoarseIntegrator, ReferenceSolver
from neuralsolver.equations import EQUATIONS, Equation, Problem
from neuralsolver.solvers import Observation, Solution, TrainedSolver
from neuralsolver.solvers.metrics import relative_error
from neuralsolver.solvers.network_free import without_network
from neuralsolver.training import load, shipped
from neuralsolver.training.presets import moving

OTHERS = {"fno": "FNO", "paper": "ENS paper", "operator": "transformer"}
"""Shipped recipes beside the contractive one, and what their rows are called."""
WITHOUT = "without network"
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
    """What is drawn of one equation: fields, and error and residual after every step.

    The fields of a flow have an axis of frames.
    """

    equation: Equation
    source: Array
    solution: Array
    error_before: Array
    error_after: Array
    errors: list[float]
    residuals: list[float]


def demonstrate(
    seed: int, tell: Callable[[str], None] | None = None
) -> tuple[list[Row], list[Scene]]:
    """Rows of the table and scenes of the picture, for the equations with a shipped model.

    `tell` is called with the name of each equation before it is solved.
    """
    rows: list[Row] = []
    scenes: list[Scene] = []
    models = shipped()
    for position, name in enumerate(EQUATIONS):
        if f"{name}-contractive" not in models:
            continue
        if tell is not None:
            tell(name)
        solver = load(f"{name}-contractive")
        problem, exact = _instance(solver, seed + position)
        measured = _Measure(problem, exact)
        for recipe, label in OTHERS.items():
            if f"{name}-{recipe}" in models:
                # each by its own rule: a prediction, corrections until the residual stops falling
                rows.append(measured.row(label, load(f"{name}-{recipe}").network.solve(problem)))
        correct = _correct_flow if moving(solver.equation) else _correct_static
        corrected, seen = correct(solver, problem, measured)
        rows += corrected
        scenes.append(measured.scene(seen))
    return rows, scenes


def _correct_static(
    solver: TrainedSolver, problem: Problem, measured: _Measure
) -> tuple[list[Row], list[Observation]]:
    """The contractive solver with and without acceleration, and without its network, and the exact
    classical one."""
    seen: list[Observation] = []
    prediction = solver.solve(problem, steps=0)
    plain = solver.solve(problem, steps=STEPS, observe=seen.append)
    accelerated = solver.solve(problem, tolerance=TOLERANCE)
    return [
        measured.row("ENS prediction", prediction),
        measured.row(f"ENS {STEPS} steps", plain),
        measured.row("ENS accelerated", accelerated),
        measured.row(WITHOUT, without_network(solver).solve(problem, tolerance=TOLERANCE)),
        measured.row("classical", ReferenceSolver().solve(problem)),
    ], seen


def _correct_flow(
    solver: TrainedSolver, problem: Problem, measured: _Measure
) -> tuple[list[Row], list[Observation]]:
    """From the still flow until the residual no longer falls."""
    seen: list[Observation] = []
    still = solver.solve(problem, steps=0)
    corrected = solver.solve(problem, observe=seen.append)
    return [
        measured.row("still flow", still),
        measured.row("ENS accelerated", corrected),
        measured.row(WITHOUT, without_network(solver).solve(problem)),
        measured.row("classical", CoarseIntegrator(problem.resolution).solve(problem)),
    ], seen


def _instance(solver: TrainedSolver, seed: int) -> tuple[Problem, torch.Tensor]:
    """A fresh problem that has a solution, and the solution."""
    for attempt in range(MAX_ATTEMPTS):
        drawn = Problem.random(solver.equation, solver.resolution, seed=seed, key=2 + attempt)
        found = solve_reference(solver.equation, drawn.inputs.numpy())
        if found.solved.all():
            break
    # a flow begins with what the drawn field has become
    return Problem(solver.equation, found.inputs), torch.from_numpy(found.solution)


class _Measure:
    """Errors of solutions of one problem against its exact solution."""

    def __init__(self, problem: Problem, exact: torch.Tensor) -> None:
        self.problem, self.exact = problem, exact
        self.scale = self._size(problem.first_guess())

    def relative_residual(self, u: torch.Tensor) -> float:
        return self._size(u.double()) / self.scale

    def _size(self, u: torch.Tensor) -> float:
        return float(self.problem.preconditioned_residual(self.problem.residual(u)).norm())

    def row(self, method: str, solution: Solution) -> Row:
        return Row(
            equation=self.problem.equation.name,
            method=method,
            error=float(relative_error(solution.tensor, self.exact)),
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
            error_before=field(seen[0].u.double() - self.exact),
            error_after=field(seen[-1].u.double() - self.exact),
            errors=[float(relative_error(s.u, self.exact)) for s in seen],
            residuals=[self.relative_residual(s.u) for s in seen],
        )
