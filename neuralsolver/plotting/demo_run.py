"""The demonstration: a fresh instance of every equation, every shipped way to solve it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor, from_numpy

from neuralsolver.data.reference_solution import CoarseIntegrator, ReferenceSolver, solve_reference
from neuralsolver.equations import EQUATIONS, Problem
from neuralsolver.plotting.animation import animate
from neuralsolver.plotting.pictures import ERROR_COLOUR, RESIDUAL_COLOUR, draw
from neuralsolver.solvers import Solution, TrainedSolver
from neuralsolver.solvers.network_free import without_network
from neuralsolver.solvers.norms import relative_error
from neuralsolver.training import load, shipped

OTHERS = {"fno": "FNO", "paper": "ENS paper", "operator": "transformer"}
"""Shipped recipes beside the contractive one, and what their rows are called."""
TOLERANCE, STEPS, ATTEMPTS = 1e-10, 40, 20


@dataclass(frozen=True, eq=False)
class Scene:
    """One instance, its solution, and u before and after every correction."""

    problem: Problem
    exact: Tensor
    seen: list[Tensor]

    def error(self, u: Tensor) -> float:
        """The relative L2 error of u."""
        return float(relative_error(u, self.exact))

    def residual(self, u: Tensor) -> float:
        """The residual of u over that of the first guess."""
        sizes = [
            self.problem.preconditioned_residual(self.problem.residual(v)).norm()
            for v in (u.double(), self.problem.first_guess())
        ]
        return float(sizes[0] / sizes[1])


def demonstrate(seed: int, tell: Callable[[str], None]) -> tuple[list[dict[str, Any]], list[Scene]]:
    """Rows of the table and scenes of the picture, for the equations with a shipped model.

    Args:
        seed: Of the instances.
        tell: Is called with the name of each equation before it is solved.
    """
    rows: list[dict[str, Any]] = []
    scenes: list[Scene] = []
    for position, name in enumerate(EQUATIONS):
        if f"{name}-contractive" not in shipped():
            continue
        tell(name)
        solver = load(f"{name}-contractive")
        scene = _instance(solver, seed + position)
        scenes.append(scene)
        for method, found in _answers(solver, scene).items():
            rows.append({
                "equation": name,
                "method": method,
                "error": scene.error(found.tensor),
                "residual": scene.residual(found.tensor),
                "steps": int(found.steps.max()),
                "seconds": found.seconds,
                "status": found.status[0].name,
            })  # fmt: skip
    return rows, scenes


def _instance(solver: TrainedSolver, seed: int) -> Scene:
    """A fresh problem that has a solution."""
    for attempt in range(ATTEMPTS):
        drawn = Problem.random(solver.equation, solver.resolution, seed=seed, key=2 + attempt)
        found = solve_reference(solver.equation, drawn.inputs.numpy())
        if found.solved.all():
            break
    # a flow begins with what the drawn field has become
    return Scene(Problem(solver.equation, found.inputs), from_numpy(found.solution), [])


def _answers(solver: TrainedSolver, scene: Scene) -> dict[str, Solution]:
    """The instance of a scene by all methods; corrections are kept in the scene."""
    name, problem, answers = solver.equation.name, scene.problem, {}
    for recipe, label in OTHERS.items():
        if f"{name}-{recipe}" in shipped():
            # each by its own rule: a prediction, corrections until the residual stops falling
            answers[label] = load(f"{name}-{recipe}").network.solve(problem)
    without = without_network(solver)

    def keep(seen: Any) -> None:
        scene.seen.append(seen.u.double())

    if solver.equation.frames:
        answers["initial frame"] = solver.solve(problem, steps=0)
        answers["ENS accelerated"] = solver.solve(problem, observe=keep)
        answers["no network"] = without.solve(problem)
        answers["classical"] = CoarseIntegrator(problem.resolution).solve(problem)
    else:
        answers["ENS prediction"] = solver.solve(problem, steps=0)
        answers[f"ENS {STEPS} steps"] = solver.solve(problem, steps=STEPS, observe=keep)
        answers["ENS accelerated"] = solver.solve(problem, tolerance=TOLERANCE)
        answers["no network"] = without.solve(problem, tolerance=TOLERANCE)
        answers["classical"] = ReferenceSolver().solve(problem)
    return answers


def draw_scenes(scenes: Sequence[Scene], path: Path) -> list[Path]:
    """Write one picture of all scenes, and an animation of each flow beside it."""
    figure = Figure(figsize=(15, 2.9 * len(scenes)), dpi=110, layout="constrained")
    written = [path]
    for row, scene in zip(figure.subplots(len(scenes), 5, squeeze=False), scenes, strict=True):
        equation, exact = scene.problem.equation, scene.exact
        errors = [scene.error(u) for u in scene.seen]
        start, where = ("initial frame", ", last frame") if equation.frames else ("prediction", "")
        fields = {
            f"{equation.name}: {equation.input_names[0]}": scene.problem.inputs,
            f"solution{where}": exact,
            f"error of the {start} ({errors[0]:.0e})": scene.seen[0] - exact,
            f"error after {len(errors) - 1} corrections ({errors[-1]:.0e})": scene.seen[-1] - exact,
        }
        *panels, curve = row
        for axis, (title, field) in zip(panels, fields.items(), strict=True):
            values = np.asarray(field[0, 0])
            draw(axis, values[-1] if values.ndim == 3 else values, title, bar=True)
        curve.semilogy(errors, color=ERROR_COLOUR, label="relative L2 error")
        residuals = [scene.residual(u) for u in scene.seen]
        curve.semilogy(residuals, color=RESIDUAL_COLOUR, ls="--", label="relative residual")
        curve.set_xlabel("corrections", fontsize=8)
        curve.grid(alpha=0.3)
        curve.tick_params(labelsize=7)
        curve.legend(fontsize=8)
        if equation.frames:
            shown = {"truth": exact, "ENS": scene.seen[-1], "error": scene.seen[-1] - exact}
            frames = {title: np.asarray(field[0, 0]) for title, field in shown.items()}
            times = equation.frame_times  # type: ignore[attr-defined]
            written.append(
                animate(path.with_name(f"{path.stem}-{equation.name}.gif"), frames, times)
            )
    figure.savefig(path)
    return written
