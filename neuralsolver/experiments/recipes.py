"""The recipes: which networks, what they read, what is minimised.

contractive      scaled residual, contraction objective on replayed iterates; the corrector reads
                 the error and what the Jacobian depends on
paper            raw residual, reconstruction objective, K = 5, everything is read   (Sec. 4, B)
paper-…          the paper's ablations of it: another error signal, another backbone, a residual
                 term in the loss                                                    (App. D)
fno, pino        a plain Fourier neural operator with the relative H¹ loss, and with data and
                 residual loss                                                       (Sec. C.4)
operator, …      the network of ENS trained as such: the matched-backbone rows       (Tab. 9)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.scales import Scale
from neuralsolver.models import build
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.plan import Plan

IDLE = {"zero_output": True}
"""A network that starts by doing nothing: the first iterates are then no worse than the guess. Raw
residuals are of size 1e2, and a corrector that answers them with noise leads its own training
astray: started so, the paper's recipe did not train within a thousand batches."""
SMOOTHING = 2
"""Classical sweeps before each correction: a few stencils beside a network call, after which the
corrector reads what it is good at. Darcy hardly trained without them."""
STEP_SIZE = 0.05
"""β of the paper for static equations. It is close to 1/2π², the largest value the inverse of the
Laplacian takes, so it also is the natural unit of a correction to a residual of unit size."""


FLOW_STEP_SIZE = 1.0
"""β for flows: an error that grows from the initial frame at the rate of the residual."""


PAPER_FLOW_STEP_SIZES = {"navier-stokes": 0.1, "kolmogorov": 0.05}
CLOCK_STEPS = 5
"""The corrections of training, after which the clock of the paper's flow networks shows 1."""


@dataclass(frozen=True)
class Backbone:
    """A kind of network: its name among the models, and how an FNO lifts and projects."""

    model: str = "fno"
    lifting: str = "cnn"
    projection: str = "cnn"

    def arguments(self, equation: Equation, scale: Scale) -> dict[str, Any]:
        """The arguments of the paper's networks at a scale."""
        if self.model == "unet":
            return dict(scale.unet)
        if self.model == "hdit":
            return dict(scale.transformer)
        varying = "inputs" in equation.jacobian_reads
        return {
            **scale.network,
            **scale.unrolled,
            **(scale.varying if varying else {}),
            "lifting": self.lifting,
            "projection": self.projection,
        }


CNN_FNO_CNN = Backbone()
TRANSFORMER = Backbone("hdit")


def backbone_of(equation: Equation) -> Backbone:
    """The network of the paper for an equation."""
    return TRANSFORMER if equation.frames else CNN_FNO_CNN


def _contractive(
    equation: Equation, scale: Scale, *, backbone: Backbone | None = None
) -> NeuralSolver:
    if equation.frames:
        return _contractive_flow(equation, scale, backbone or backbone_of(equation))
    reads = (*equation.jacobian_reads, "error")
    # nothing is known of the solution yet
    first = tuple(name for name in reads if name != "solution")
    network = {**scale.network, "lifting": "cnn", "projection": "cnn", **IDLE}
    return NeuralSolver(
        _network("fno", equation, first, {**network, **scale.predictor}),
        _network("fno", equation, reads, network),
        error="scaled_residual",
        predictor_reads=first,
        corrector_reads=reads,
        step_size=STEP_SIZE,
        smoothing=SMOOTHING,
    )


def _contractive_flow(equation: Equation, scale: Scale, backbone: Backbone) -> NeuralSolver:
    """A corrector alone: it starts from the flow that stands still.

    Where a point lies makes no difference to ∂F/∂u, so the network has no coordinates: whatever it
    knows of a vortex it knows everywhere, and it has never seen the forcing.
    """
    reads = (*equation.jacobian_reads, "error")
    network = {**backbone.arguments(equation, scale), "coordinates": False, **IDLE}
    return NeuralSolver(
        None,
        _network(backbone.model, equation, reads, network),
        error="integrated_residual",
        corrector_reads=reads,
        step_size=FLOW_STEP_SIZE,
    )


def _paper(
    equation: Equation,
    scale: Scale,
    *,
    error: str = "residual",
    backbone: Backbone | None = None,
) -> NeuralSolver:
    reads = ("inputs", "solution", "error")
    backbone = backbone or backbone_of(equation)
    network = {**backbone.arguments(equation, scale), **IDLE}
    # the forcing of a flow reaches the corrector through the residual, not by the place
    corrector = {**network, "coordinates": False} if equation.frames else network
    return NeuralSolver(
        _network(backbone.model, equation, ("inputs",), network),
        _network(backbone.model, equation, reads, corrector),
        error=error,
        corrector_reads=reads,
        step_size=PAPER_FLOW_STEP_SIZES.get(equation.name, STEP_SIZE),
        clock_steps=CLOCK_STEPS if backbone is TRANSFORMER else None,
    )


def _matched(equation: Equation, scale: Scale, *, backbone: Backbone | None = None) -> NeuralSolver:
    backbone = backbone or backbone_of(equation)
    network = backbone.arguments(equation, scale)
    return NeuralSolver(_network(backbone.model, equation, ("inputs",), network))


def _fno(equation: Equation, scale: Scale) -> NeuralSolver:
    network = {**scale.network, **(scale.space_time if equation.frames else scale.operator)}
    return NeuralSolver(_network("fno", equation, ("inputs",), network))


@dataclass(frozen=True)
class Recipe:
    """How to make a solver and how to train it.

    `warm_start` is the share of the training spent on the coarser grid of a scale that has one,
    `flow_plan` what differs in the plan for a flow, and `flow_finish` in that of a last stage.
    """

    networks: Callable[[Equation, Scale], NeuralSolver]
    plan: Mapping[str, Any]
    warm_start: float = 0.0
    flow_plan: Mapping[str, Any] = field(default_factory=lambda: TRAJECTORIES)
    flow_finish: Mapping[str, Any] = field(default_factory=dict)


TRAJECTORIES: dict[str, Any] = {
    "learning_rate": 1.5e-3,
    "checkpoint_seconds": 240.0,
    "validate_seconds": 120.0,
}
"""Plan fields for flows; a state with the replayed trajectories is some hundred megabytes."""
PAPER_WARM_START = 0.75
"""Of the batches, which on the coarser grid cost a quarter: less than half of the time."""
UNROLLED: dict[str, Any] = {"objective": "reconstruction", "learning_rate": 4e-3}
ONE_SHOT: dict[str, Any] = {"unroll": 0, "shortest_unroll": 0, "learning_rate": 4e-3}
DATA: dict[str, Any] = {**ONE_SHOT, "objective": "relative_h1"}
PHYSICS: dict[str, Any] = {**ONE_SHOT, "objective": "physics_informed"}
REPLAYED: dict[str, Any] = {"unroll": 1, "shortest_unroll": 1, "replay": True}
FINISH: dict[str, Any] = {
    "unroll": 12,
    "shortest_unroll": 12,
    "replay": False,
    "learning_rate": 4e-4,
    "warmup": 20,
}
"""A remembered trajectory was corrected by many networks, each a little different from the last:
together they come to errors at which one of them alone stands still. The last stage of a flow
therefore makes all corrections of a batch with the same weights."""
FINISH_SHARE = 1 / 16
"""Batches of the last stage for each of the first; they cost as much more as they unroll."""
SPACE_TIME: dict[str, Any] = {"batch_size": 2, "learning_rate": 2e-3}
"""The batches of PINO for an FNO in space and time, which takes ten times as long as the others."""
FLOW_DATA: dict[str, Any] = {**TRAJECTORIES, "objective": "relative_l2"}


def _ablation(plan: Mapping[str, Any] = UNROLLED, **choices: Any) -> Recipe:
    return Recipe(partial(_paper, **choices), plan, warm_start=PAPER_WARM_START)


RECIPES: dict[str, Recipe] = {
    "contractive": Recipe(_contractive, REPLAYED, warm_start=0.3, flow_finish=FINISH),
    "paper": _ablation(),
    "paper-zero-field": _ablation(error="zero_field"),
    "paper-gradient": _ablation(error="residual_gradient"),
    "paper-residual-loss": _ablation({**UNROLLED, "objective": "reconstruction_and_residual"}),
    "paper-fno": _ablation(backbone=Backbone(lifting="pointwise", projection="pointwise")),
    "paper-cnn-fno": _ablation(backbone=Backbone(projection="pointwise")),
    "paper-fno-cnn": _ablation(backbone=Backbone(lifting="pointwise")),
    "paper-unet": _ablation(backbone=Backbone("unet")),
    "fno": Recipe(_fno, DATA, flow_plan={**FLOW_DATA, **SPACE_TIME}),
    "pino": Recipe(_fno, PHYSICS, flow_plan={**TRAJECTORIES, **SPACE_TIME}),
    "operator": Recipe(_matched, DATA, flow_plan=FLOW_DATA),
    "operator-pino": Recipe(_matched, PHYSICS),
    "contractive-cnn": Recipe(
        partial(_contractive, backbone=CNN_FNO_CNN), REPLAYED, flow_finish=FINISH
    ),
    "paper-cnn": _ablation(backbone=CNN_FNO_CNN),
    "operator-cnn": Recipe(partial(_matched, backbone=CNN_FNO_CNN), DATA, flow_plan=FLOW_DATA),
}


def recipe_named(name: str) -> Recipe:
    """The recipe called `name`."""
    if name not in RECIPES:
        raise InvalidInput("recipe", f"one of {', '.join(RECIPES)}", name)
    return RECIPES[name]


def make_solver(recipe: str, equation: Equation, scale: Scale, seed: int = 0) -> NeuralSolver:
    """An untrained solver of the recipe; the same seed gives the same weights."""
    networks = recipe_named(recipe).networks
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return networks(equation, scale)


def make_plan(recipe: str, scale: Scale, *, flow: bool = False, **changes: Any) -> Plan:
    """How the recipe trains at a scale; `changes` replace fields of the plan."""
    chosen = recipe_named(recipe)
    batches = scale.batches_of.get(recipe, scale.batches)
    fields: dict[str, Any] = {
        "batches": batches,
        "budget_minutes": scale.budget_minutes if batches is None else None,
        "batch_size": scale.batch_size,
        **chosen.plan,
        **(chosen.flow_plan if flow else {}),
    }
    plan = Plan(**fields)
    if changes.get("batches") is not None:
        changes.setdefault("budget_minutes", None)
    elif changes.get("budget_minutes") is not None:
        changes.setdefault("batches", None)
    return replace(plan, **changes)


def finishing(recipe: str, plan: Plan, *, flow: bool) -> Plan | None:
    """The plan of a last stage after `plan`, where the recipe has one."""
    changes = recipe_named(recipe).flow_finish if flow else {}
    if not changes:
        return None
    if plan.batches is not None:
        return replace(plan, **changes, batches=max(1, round(FINISH_SHARE * plan.batches)))
    assert plan.budget_minutes is not None
    share = FINISH_SHARE * changes["unroll"]
    return replace(plan, **changes, budget_minutes=share * plan.budget_minutes)


def _network(
    model: str, equation: Equation, reads: tuple[str, ...], arguments: Mapping[str, Any]
) -> torch.nn.Module:
    frames = equation.solution_shape(equation.minimum_resolution)[:-2]
    channels = {"inputs": len(equation.input_names), "solution": 1, "error": 1}
    space_time = len(arguments.get("max_wavenumber", ())) == 3
    if len(frames) > 1 and not space_time:
        channels["solution"] = channels["error"] = frames[-1]
    return build(
        model,
        in_channels=sum(channels[name] for name in reads),
        out_channels=channels["solution"],
        padding_mode="circular" if equation.boundary == "torus" else "zeros",
        **arguments,
    )
