"""The paper's way to a finer grid: the same network with a smaller step size.

On a grid twice as fine, an oscillation from point to point has four times the residual, and a
corrector that reads the raw residual overshoots. The paper searches a smaller β on a few held-out
problems; this is that search. It needs no solutions, only residuals.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from neuralsolver.equations import Problem
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.stopping import FixedSteps

CANDIDATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def with_step_size(solver: NeuralSolver, step_size: float) -> NeuralSolver:
    """The same networks with another β."""
    changed = copy.copy(solver)
    changed.step_size = step_size
    return changed


@torch.no_grad()
def search_step_size(
    solver: NeuralSolver,
    problem: Problem,
    steps: int = 40,
    candidates: Sequence[float] = CANDIDATES,
) -> float:
    """The multiple of β with the smallest mean residual on `problem` after `steps` corrections."""
    best, lowest = candidates[-1] * solver.step_size, float("inf")
    for factor in candidates:
        trial = with_step_size(solver, factor * solver.step_size)
        solution = trial.solve(problem, stop=FixedSteps(steps))
        reached = float(solution.relative_residual.mean()) if solution.good else float("inf")
        if reached < lowest:
            best, lowest = factor * solver.step_size, reached
    return best
