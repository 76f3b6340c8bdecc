"""The recipes: which networks, what they read, what is minimised.

contractive   scaled residual, contraction objective on replayed iterates; the corrector reads
              the error and what the Jacobian depends on
paper         raw residual, reconstruction objective, K = 5, everything is read     (Sec. 4, B)
fno           a plain Fourier neural operator with the relative H¹ loss             (Sec. C.4)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.scales import Scale
from neuralsolver.models import build
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.plan import Plan

RECIPES = ("contractive", "paper", "fno")
CNN = {"lifting": "cnn", "projection": "cnn"}
IDLE = {"zero_output": True}
"""A corrector that starts by doing nothing: its first iterates are then no worse than the guess."""
SMOOTHING = 2
"""Classical sweeps before each correction: a few stencils beside a network call, after which the
corrector reads what it is good at. Darcy hardly trained without them."""
STEP_SIZE = 0.05
"""β of the paper for static equations. It is close to 1/2π², the largest value the inverse of the
Laplacian takes, so it also is the natural unit of a correction to a residual of unit size."""


def make_solver(recipe: str, equation: Equation, scale: Scale, seed: int = 0) -> NeuralSolver:
    """An untrained solver of the recipe; the same seed gives the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if recipe == "contractive":
            reads = (*equation.jacobian_reads, "error")
            # nothing is known of the solution yet
            first = tuple(name for name in reads if name != "solution")
            return NeuralSolver(
                _network(equation, first, scale, **CNN, **IDLE, **scale.predictor),
                _network(equation, reads, scale, **CNN, **IDLE),
                error="scaled_residual",
                predictor_reads=first,
                corrector_reads=reads,
                step_size=STEP_SIZE,
                smoothing=0 if equation.periodic else SMOOTHING,
            )
        if recipe == "paper":
            reads = ("inputs", "solution", "error")
            cnn = {**CNN, **(scale.varying if "inputs" in equation.jacobian_reads else {})}
            return NeuralSolver(
                _network(equation, ("inputs",), scale, **cnn),
                _network(equation, reads, scale, **cnn),
                corrector_reads=reads,
                step_size=STEP_SIZE,
            )
        if recipe == "fno":
            return NeuralSolver(_network(equation, ("inputs",), scale, **scale.operator))
    raise InvalidInput("recipe", f"one of {', '.join(RECIPES)}", recipe)


def make_plan(recipe: str, scale: Scale, **changes: Any) -> Plan:
    """How the recipe trains at a scale; `changes` replace fields of the plan."""
    plan = Plan(
        batches=scale.batches,
        budget_minutes=scale.budget_minutes,
        batch_size=scale.batch_size,
    )
    if recipe == "contractive":
        plan = replace(plan, unroll=1, shortest_unroll=1, replay=True)
    elif recipe == "paper":
        plan = replace(plan, objective="reconstruction", learning_rate=1e-3)
    elif recipe == "fno":
        plan = replace(
            plan, objective="relative_h1", unroll=0, shortest_unroll=0, learning_rate=4e-3
        )
    else:
        raise InvalidInput("recipe", f"one of {', '.join(RECIPES)}", recipe)
    if changes.get("batches") is not None:
        changes.setdefault("budget_minutes", None)
    elif changes.get("budget_minutes") is not None:
        changes.setdefault("batches", None)
    return replace(plan, **changes)


def _network(
    equation: Equation, reads: tuple[str, ...], scale: Scale, **changes: Any
) -> torch.nn.Module:
    frames = equation.solution_shape(equation.minimum_resolution)[:-2]
    channels = {"inputs": len(equation.input_names), "solution": 1, "error": 1}
    if len(frames) > 1:
        channels["solution"] = channels["error"] = frames[-1]
    arguments = {**scale.network, **changes}
    return build(
        "fno",
        in_channels=sum(channels[name] for name in reads),
        out_channels=channels["solution"],
        padding_mode="circular" if equation.periodic else "zeros",
        **arguments,
    )
