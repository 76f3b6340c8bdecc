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
from dataclasses import dataclass, replace
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
        varying = "inputs" in equation.jacobian_reads
        return {
            **scale.network,
            **scale.unrolled,
            **(scale.varying if varying else {}),
            "lifting": self.lifting,
            "projection": self.projection,
        }


CNN_FNO_CNN = Backbone()


def _contractive(equation: Equation, scale: Scale) -> NeuralSolver:
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
        smoothing=0 if equation.periodic else SMOOTHING,
    )


def _paper(
    equation: Equation,
    scale: Scale,
    *,
    error: str = "residual",
    backbone: Backbone = CNN_FNO_CNN,
) -> NeuralSolver:
    reads = ("inputs", "solution", "error")
    network = {**backbone.arguments(equation, scale), **IDLE}
    return NeuralSolver(
        _network(backbone.model, equation, ("inputs",), network),
        _network(backbone.model, equation, reads, network),
        error=error,
        corrector_reads=reads,
        step_size=STEP_SIZE,
    )


def _operator(
    equation: Equation, scale: Scale, *, backbone: Backbone | None = None
) -> NeuralSolver:
    network = {**scale.network, **scale.operator}
    if backbone is not None:
        network = backbone.arguments(equation, scale)
    return NeuralSolver(_network("fno", equation, ("inputs",), network))


@dataclass(frozen=True)
class Recipe:
    """How to make a solver and how to train it.

    `warm_start` is the share of the training spent on the coarser grid of a scale that has one.
    """

    networks: Callable[[Equation, Scale], NeuralSolver]
    plan: Mapping[str, Any]
    warm_start: float = 0.0


PAPER_WARM_START = 0.75
"""Of the batches, which on the coarser grid cost a quarter: less than half of the time."""
UNROLLED: dict[str, Any] = {"objective": "reconstruction", "learning_rate": 4e-3}
ONE_SHOT: dict[str, Any] = {"unroll": 0, "shortest_unroll": 0, "learning_rate": 4e-3}
DATA: dict[str, Any] = {**ONE_SHOT, "objective": "relative_h1"}
PHYSICS: dict[str, Any] = {**ONE_SHOT, "objective": "physics_informed"}


def _ablation(plan: Mapping[str, Any] = UNROLLED, **choices: Any) -> Recipe:
    return Recipe(partial(_paper, **choices), plan, warm_start=PAPER_WARM_START)


RECIPES: dict[str, Recipe] = {
    "contractive": Recipe(
        _contractive, {"unroll": 1, "shortest_unroll": 1, "replay": True}, warm_start=0.3
    ),
    "paper": _ablation(),
    "paper-zero-field": _ablation(error="zero_field"),
    "paper-gradient": _ablation(error="residual_gradient"),
    "paper-residual-loss": _ablation({**UNROLLED, "objective": "reconstruction_and_residual"}),
    "paper-fno": _ablation(backbone=Backbone(lifting="pointwise", projection="pointwise")),
    "paper-cnn-fno": _ablation(backbone=Backbone(projection="pointwise")),
    "paper-fno-cnn": _ablation(backbone=Backbone(lifting="pointwise")),
    "paper-unet": _ablation(backbone=Backbone("unet")),
    "fno": Recipe(_operator, DATA),
    "pino": Recipe(_operator, PHYSICS),
    "operator": Recipe(partial(_operator, backbone=CNN_FNO_CNN), DATA),
    "operator-pino": Recipe(partial(_operator, backbone=CNN_FNO_CNN), PHYSICS),
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


def make_plan(recipe: str, scale: Scale, **changes: Any) -> Plan:
    """How the recipe trains at a scale; `changes` replace fields of the plan."""
    batches = scale.batches_of.get(recipe, scale.batches)
    plan = Plan(
        batches=batches,
        budget_minutes=scale.budget_minutes if batches is None else None,
        batch_size=scale.batch_size,
        **recipe_named(recipe).plan,
    )
    if changes.get("batches") is not None:
        changes.setdefault("budget_minutes", None)
    elif changes.get("budget_minutes") is not None:
        changes.setdefault("batches", None)
    return replace(plan, **changes)


def _network(
    model: str, equation: Equation, reads: tuple[str, ...], arguments: Mapping[str, Any]
) -> torch.nn.Module:
    frames = equation.solution_shape(equation.minimum_resolution)[:-2]
    channels = {"inputs": len(equation.input_names), "solution": 1, "error": 1}
    if len(frames) > 1:
        channels["solution"] = channels["error"] = frames[-1]
    return build(
        model,
        in_channels=sum(channels[name] for name in reads),
        out_channels=channels["solution"],
        padding_mode="circular" if equation.periodic else "zeros",
        **arguments,
    )
