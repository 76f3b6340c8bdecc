"""What is minimised. An objective yields its losses one after another.

The input of each correction is detached, so a loss reaches the networks through one call only, and
the trainer back-propagates it before it asks for the next: memory is that of one corrector call,
whatever the number of steps K.

    reconstruction    L = 1/(K+1) Σₖ mean (û⁽ᵏ⁾ − u)²                       the paper, Sec. 4
    contraction       L = ‖e⁽⁰⁾‖²/‖u‖² + Σₖ ‖e⁽ᵏ⁺¹⁾‖²/‖e⁽ᵏ⁾‖²,  e⁽ᵏ⁾ = û⁽ᵏ⁾ − u,  fixed denominators
    relative_l2       L = ‖û⁰ − u‖ / ‖u‖                                   operators of flows
    relative_h1       L = ‖û⁰ − u‖_H¹ / ‖u‖_H¹                             plain neural operators
    physics_informed  L = 5 ‖û⁰ − u‖/‖u‖ + ‖F(û⁰)‖/‖F(g)‖                  PINO, weighted as there

g is the first guess of the equation: zero, or the initial frame repeated. Without a predictor the
first term of the contraction is not there.

The paper's text averages K+1 predictions, its appendix K; we follow the text, in which the last
correction is supervised too. Contraction asks every step to shrink the error it is given by as much
as it can, however small that error already is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import State
from neuralsolver.solvers.neural_solver import NeuralSolver


@dataclass
class Batch:
    """Problems with their solutions, the number of corrections to make, and where they start.

    `start` holds iterates of earlier batches (a NaN row: start from the prediction); the objective
    leaves its last iterates in `end`. `chance` holds for each sample numbers in [0, 1), for what an
    objective leaves to chance.
    """

    problem: Problem
    target: Tensor
    steps: int
    start: Tensor | None = None
    end: Tensor | None = None
    chance: Tensor | None = None


DATA_WEIGHT = 5.0

Objective = Callable[[Any, Any], Iterator[Tensor]]


def reconstruction(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """Mean squared error of the prediction and of the K corrections after it, or after the iterates
    of earlier batches where these are replayed."""
    problem, target, step = batch.problem, batch.target, solver.stepper()
    prediction = solver.predict(problem)
    if prediction.requires_grad:  # else the predictor stays as it is
        yield (prediction - target).square().mean() / (batch.steps + 1)
    prediction = prediction.detach()
    u = _replayed(batch, prediction)
    for _ in range(batch.steps):
        u = step(State.of(problem, u))
        yield (u - target).square().mean() / (batch.steps + 1)
        u = u.detach()
    # what has become worse than nothing starts afresh
    lost = ~(squared_norm(u - target) < squared_norm(target))
    batch.end = _where(lost, prediction, u)


def contraction(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """Relative error of the prediction, then the factor by which each correction changes it."""
    problem, target = batch.problem, batch.target
    size = squared_norm(target)
    prediction = solver.predict(problem)
    if solver.predictor is not None:
        yield (squared_norm(prediction - target) / size).mean()
    prediction = prediction.detach()
    u = _replayed(batch, prediction)
    step = solver.stepper()
    for _ in range(batch.steps):
        before = squared_norm(u - target)
        u = step(State.of(problem, u))
        after = squared_norm(u - target)
        yield (after / before).mean()
        # an untrained corrector leads astray: what is worse than nothing starts afresh
        lost = ~(after.detach() < torch.maximum(size, squared_norm(prediction - target)))
        # and an error at round-off has nothing to teach
        lost |= after.detach() < 1e-24 * size
        u = _where(lost, prediction, u.detach())
    batch.end = u


def physics_informed(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """Relative error of the prediction and its relative residual, weighted as PINO does."""
    problem, target = batch.problem, batch.target
    u = solver.predict(problem)
    error = (squared_norm(u - target) / squared_norm(target)).sqrt()
    size = squared_norm(problem.residual(problem.first_guess()))
    residual = (squared_norm(problem.residual(u)) / size).sqrt()
    yield (DATA_WEIGHT * error + residual).mean()


def relative_l2(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """Distance of the prediction over the norm of the truth."""
    error = squared_norm(solver.predict(batch.problem) - batch.target)
    yield (error / squared_norm(batch.target)).sqrt().mean()


def relative_h1(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """H¹ distance of the prediction over the H¹ norm of the truth; differences end at the walls,
    or go around the torus."""
    error = solver.predict(batch.problem) - batch.target
    around = batch.problem.equation.boundary == "periodic"
    yield (h1_norm(error, around) / h1_norm(batch.target, around)).mean()


def own_losses(solver: Any, batch: Any) -> Iterator[Tensor]:
    """The losses that batches of a `Source` bring along."""
    if isinstance(batch, Batch):
        raise InvalidInput("objective", "one for problems with their solutions", "own_losses")
    yield from batch.losses(solver)


OBJECTIVES: dict[str, Objective] = {
    "reconstruction": reconstruction,
    "contraction": contraction,
    "physics_informed": physics_informed,
    "relative_l2": relative_l2,
    "relative_h1": relative_h1,
    "own_losses": own_losses,
}
"""Objectives by the name in a plan. Add an entry to make one of yours known."""


def squared_norm(u: Tensor) -> Tensor:
    """Σ u² per sample."""
    return u.flatten(1).square().sum(1)


def h1_norm(u: Tensor, around: bool = False) -> Tensor:
    """(‖u‖² + ‖∇u‖²)^½ per sample, on the unit square or torus; of a trajectory ∇ is in space."""
    n = u.shape[-1]
    if around:
        central = (torch.roll(u, -1, axis) - torch.roll(u, 1, axis) for axis in (-1, -2))
        first, second = (difference * (n / 2) for difference in central)
    else:
        first, second = (torch.diff(u, dim=axis) * (n - 1) for axis in (-1, -2))
    return (squared_norm(u) + squared_norm(first) + squared_norm(second)).sqrt()


def _replayed(batch: Batch, prediction: Tensor) -> Tensor:
    """Where the corrections of a batch start."""
    if batch.start is None:
        return prediction
    return _where(torch.isfinite(squared_norm(batch.start)), batch.start, prediction)


def _where(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Sample by sample one or the other."""
    return torch.where(condition.view(-1, *[1] * (yes.dim() - 1)), yes, no)
