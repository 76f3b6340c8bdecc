"""The methods: the rows of every table, each a `Solver` made for one setting.

bounds       the true solution and the zero field: what any residual has to be compared with
learned      one call of a network, or a network that reads its residual (ENS)
optimised    the weights of a network are fitted to each instance (PINO-TTOP, PINN)
classical    the reference solver, and the minimisers of the residual

What a method is called and how it is drawn is a matter of the report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.paper import COARSE_GRIDS, Regime
from neuralsolver.experiments.reference_solver import CoarseIntegrator, ReferenceSolver
from neuralsolver.solvers import FixedSteps, ResidualPlateau, Solver, TrainedSolver
from neuralsolver.solvers.optimisation import (
    GaussNewton,
    GradientDescent,
    Newton,
    noise_start,
    noised,
)
from neuralsolver.solvers.physics_informed import PINN, TestTimeOptimisation
from neuralsolver.solvers.step_size import search_step_size, with_step_size
from neuralsolver.solvers.stopping import StoppingRule
from neuralsolver.solvers.wrappers import Answer, With

TOLERANCE = 1e-10
"""Relative residual at which the contractive solver stops."""
FLOW_OPTIMISATION: dict[str, Any] = {
    "steps": 1000,
    "learning_rate": 1e-3,
    "milestones": (400, 800),
}
"""PINO's schedule for an instance of Kolmogorov flow."""
HELD_OUT, HELD_OUT_KEY = 4, 8
"""Instances on which the paper's step size for a finer grid is searched, and their random key."""


@dataclass(frozen=True)
class Setting:
    """What a method may know: the regime, the instances, and trained models.

    `effort` is the share of the official optimisation steps per instance. The solutions are there
    for the row of the ground truth only.
    """

    regime: Regime
    problem: Problem
    exact: Tensor
    seed: int
    effort: float
    model: Callable[[str], TrainedSolver]


@dataclass(frozen=True)
class Method:
    """One row. `samples` limits the instances of a method that optimises each of them."""

    key: str
    prepare: Callable[[Setting], Solver]
    samples: int | None = None


Start = Callable[[Problem], Tensor]


def _operator(recipe: str, setting: Setting) -> Solver:
    return With(setting.model(recipe).network, {"stop": FixedSteps(0)})


def _unrolled(recipe: str, setting: Setting, stop: StoppingRule | None = None) -> Solver:
    solver = setting.model(recipe)
    regime = setting.regime
    if regime.equation.boundary == "torus" and regime.refinement > 1:
        return With(solver, {"steps": regime.corrections})
    if regime.refinement > 1:
        grid = solver.resolution * regime.refinement
        held_out = Problem.random(regime.equation, grid, HELD_OUT, setting.seed, key=HELD_OUT_KEY)
        smaller = with_step_size(solver.network, search_step_size(solver.network, held_out))
        solver = replace(solver, network=smaller)
    return With(solver.network, {"stop": stop or FixedSteps(regime.corrections)})


def _contractive(recipe: str, accelerate: bool, setting: Setting) -> Solver:
    # the residual of a flow has a floor; it is corrected for as long as its residual falls
    tolerance = None if setting.regime.equation.has_floor else TOLERANCE
    return With(setting.model(recipe), {"tolerance": tolerance, "accelerate": accelerate})


def _optimised(recipe: str, setting: Setting) -> Solver:
    flow = FLOW_OPTIMISATION if setting.regime.equation.frames else {}
    official = TestTimeOptimisation(setting.model(recipe).network, **flow)
    return replace(
        official,
        steps=round(setting.effort * official.steps),
        milestones=tuple(round(setting.effort * step) for step in official.milestones),
    )


def _integrator(points: int, setting: Setting) -> Solver:
    return CoarseIntegrator(points)


def _pinn(setting: Setting) -> Solver:
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


def _from(solver: Solver, start: str, setting: Setting) -> Solver:
    return With(solver, start=STARTS[start](setting))


def _truth(setting: Setting) -> Solver:
    known = dict(zip(map(_bytes, setting.problem.inputs), setting.exact, strict=True))
    return Answer(lambda problem: torch.stack([known[_bytes(f)] for f in problem.inputs]))


def _bytes(field: Tensor) -> bytes:
    return field.numpy().tobytes()


ABLATIONS = ("zero-field", "gradient", "residual-loss", "fno", "cnn-fno", "fno-cnn", "unet", "cnn")
PER_INSTANCE, PER_NETWORK = 8, 2
"""Instances of the methods that solve or optimise each by itself; a row says how many it has."""

BOUNDS = (
    Method("truth", _truth),
    Method("zero", lambda setting: Answer(lambda problem: problem.zeros())),
    Method("still", lambda setting: Answer(lambda problem: problem.first_guess())),
)
LEARNED = (
    *(Method(key, partial(_operator, key)) for key in ("fno", "pino", "operator", "operator-pino")),
    Method("ens", partial(_unrolled, "paper")),
    Method("ens-plateau", partial(_unrolled, "paper", stop=ResidualPlateau())),
    *(Method(f"ens-{key}", partial(_unrolled, f"paper-{key}")) for key in ABLATIONS),
    Method("ens-contractive", partial(_contractive, "contractive", False)),
    Method("ens-accelerated", partial(_contractive, "contractive", True)),
    Method("operator-cnn", partial(_operator, "operator-cnn")),
    Method("ens-contractive-cnn", partial(_contractive, "contractive-cnn", False)),
)
OPTIMISED = (
    Method("pino-ttop", partial(_optimised, "pino"), PER_NETWORK),
    Method("operator-ttop", partial(_optimised, "operator-pino"), PER_NETWORK),
    Method("pinn", _pinn, PER_NETWORK),
)
CLASSICAL = (
    Method("reference", lambda setting: ReferenceSolver()),
    *(Method(f"integrator-{points}", partial(_integrator, points)) for points in COARSE_GRIDS),
    Method("gradient-descent", lambda setting: GradientDescent()),
    Method("newton", lambda setting: Newton(), PER_INSTANCE),
    Method("gauss-newton", lambda setting: GaussNewton(), PER_INSTANCE),
    *(
        Method(f"{key}-from-{start}", partial(_from, solver, start), PER_INSTANCE)
        for key, solver in (("newton", Newton()), ("gauss-newton", GaussNewton()))
        for start in STARTS
    ),
)
METHODS: dict[str, Method] = {
    method.key: method for method in (*BOUNDS, *LEARNED, *OPTIMISED, *CLASSICAL)
}


def method_named(key: str) -> Method:
    """The method called `key`."""
    if key not in METHODS:
        raise InvalidInput("method", f"one of {', '.join(METHODS)}", key)
    return METHODS[key]
