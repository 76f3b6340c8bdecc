"""How a method is made ready to solve: from a `Setting`, which has no solution, to a `Solver`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from neuralsolver.data.reference_solution import CoarseIntegrator
from neuralsolver.equations import Problem
from neuralsolver.samplers import Sampler
from neuralsolver.solvers import FixedSteps, Solver, TrainedSolver
from neuralsolver.solvers.network_free import FEW_POINTS, without_network
from neuralsolver.solvers.stopping import StoppingRule
from neuralsolver.solvers.wrappers import Configured
from neuralsolver.training.presets import moving
from paper.baselines.minimisers import noise_start, noised
from paper.baselines.named_samplers import ForwardSampler
from paper.physics_informed import PINN, TestTimeOptimisation
from paper.regimes import Regime
from paper.step_size import search_step_size, with_step_size

TOLERANCE, FLOAT32 = 1e-10, 2e-6
"""Relative residual at which the contractive solver stops, and what float32 resolves of flows."""
FLOW_OPTIMISATION: dict[str, Any] = {
    "steps": 1000,
    "learning_rate": 1e-3,
    "milestones": (400, 800),
}
"""PINO's schedule for an instance of Kolmogorov flow."""
HELD_OUT, HELD_OUT_KEY = 4, 8
"""Instances on which the paper's step size for a finer grid is searched, and their random key."""
FEWEST_STEPS = 2
"""Of a sampler, however small the effort."""


@dataclass(frozen=True)
class Setting:
    """What a method may know before it is given a problem; the solution is not among it.

    `effort` is the share of the official optimisation steps per instance; `model` gives the trained
    model of one of the method's recipes, `sampler` a sampler by its name and number of steps.
    """

    regime: Regime
    seed: int
    effort: float
    model: Callable[[str], TrainedSolver]
    sampler: Callable[[str, int], Sampler]


Prepare = Callable[[Setting], Solver]
Start = Callable[[Problem], Tensor]


def operator(recipe: str, setting: Setting) -> Solver:
    """One call of a network."""
    return Configured(setting.model(recipe).network, {"stop": FixedSteps(0)})


def unrolled(recipe: str, setting: Setting, stop: StoppingRule | None = None) -> Solver:
    """The paper's ENS: a number of corrections, or until `stop`."""
    solver = setting.model(recipe)
    regime = setting.regime
    if regime.refinement > 1 and regime.equation.boundary == "periodic":
        return Configured(solver, {"steps": regime.corrections})
    if regime.refinement > 1:
        grid = solver.resolution * regime.refinement
        held_out = Problem.random(regime.equation, grid, HELD_OUT, setting.seed, key=HELD_OUT_KEY)
        smaller = with_step_size(solver.network, search_step_size(solver.network, held_out))
        solver = replace(solver, network=smaller)
    return Configured(solver.network, {"stop": stop or FixedSteps(regime.corrections)})


def contractive(recipe: str, accelerate: bool, setting: Setting) -> Solver:
    """The contractive ENS until its tolerance."""
    # the residual of a flow has a floor; it is corrected for as long as its residual falls
    tolerance = TOLERANCE if setting.regime.equation.residual_vanishes else None
    options = {"tolerance": tolerance, "accelerate": accelerate, "polish": False}
    return Configured(setting.model(recipe), options)


def carried_on(setting: Setting, network: bool = True, tolerance: float | None = None) -> Solver:
    """Corrections and then Newton-Krylov, with or without the network."""
    trained = setting.model("contractive")
    options = {"polish": True, "tolerance": tolerance}
    return Configured(trained if network else without_network(trained), options)


def classical_counterpart(setting: Setting, accelerate: bool = True, coarsest: str = "") -> Solver:
    """The same solver with the network removed."""
    trained = setting.model("contractive")
    points = {"": None, "trained": trained.resolution, "few": FEW_POINTS}[coarsest]
    tolerance = TOLERANCE if setting.regime.equation.residual_vanishes else None
    options = {"tolerance": tolerance, "accelerate": accelerate, "polish": False}
    return Configured(without_network(trained, points), options)


def optimised(recipe: str, setting: Setting) -> Solver:
    """The weights of a network fitted to each instance."""
    flow = FLOW_OPTIMISATION if moving(setting.regime.equation) else {}
    official = TestTimeOptimisation(setting.model(recipe).network, **flow)
    return replace(
        official,
        steps=round(setting.effort * official.steps),
        milestones=tuple(round(setting.effort * step) for step in official.milestones),
    )


def generated(method: str, steps: int, setting: Setting) -> Solver:
    """One sample of a denoiser that is led to the input and the equation."""
    steps = max(FEWEST_STEPS, round(setting.effort * steps))
    return ForwardSampler(setting.sampler(method, steps), setting.seed)


def integrator(points: int, setting: Setting) -> Solver:
    """The reference integrator on so many points."""
    return CoarseIntegrator(points)


def pinn(setting: Setting) -> Solver:
    """A network fitted to each instance from nothing."""
    return PINN(seed=setting.seed, steps=round(setting.effort * PINN().steps))


def _noise(setting: Setting) -> Start:
    return partial(noise_start, seed=setting.seed)


def _prediction(setting: Setting) -> Start:
    # loaded once, before anything is timed
    network = setting.model("paper").network

    @torch.no_grad()
    def predict(problem: Problem) -> Tensor:
        return network.predict(problem)

    return predict


def _noised_prediction(setting: Setting) -> Start:
    predict = _prediction(setting)
    return lambda problem: noised(predict(problem), problem, setting.seed)


STARTS: dict[str, Callable[[Setting], Start]] = {
    "noise": _noise,
    "prediction": _prediction,
    "noised-prediction": _noised_prediction,
}


def started_from(solver: Solver, start: str, setting: Setting) -> Solver:
    """A solver from another start, or from its own."""
    return Configured(solver, start=STARTS[start](setting)) if start else solver
