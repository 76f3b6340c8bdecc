"""From the row of a training to its networks and its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from neuralsolver.equations import Equation
from neuralsolver.models import build, takes
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.plan import Plan
from neuralsolver.training.presets import (
    COMPUTE,
    FINISH_SHARE,
    OWN_BATCHES,
    PLANS,
    Scale,
    moving,
    network_row,
    preset,
)


def make_solver(recipe: str, equation: Equation, scale: Scale, seed: int = 0) -> NeuralSolver:
    """An untrained solver of the recipe; the same seed gives the same weights."""
    row = preset(recipe, equation)
    narrow = row.reads == "jacobian"
    reads = (*_READS[row.reads](equation), "error")
    # nothing is known of the solution yet
    begins = narrow and row.predictor is not None
    first = tuple(name for name in reads if name != "solution") if begins else ("inputs",)
    corrects = {} if row.corrector is None else {"zero_output": True}
    placed = corrects if row.places else {**corrects, "coordinates": False}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return NeuralSolver(
            _build(row.predictor, scale, equation, first, corrects),
            _build(row.corrector, scale, equation, reads, placed),
            error=row.error,
            predictor_reads=first,
            corrector_reads=reads,
            step_size=row.step_size,
            smoothing=row.smoothing,
            clock_steps=row.clock_steps,
        )


_READS: dict[str, Callable[[Equation], tuple[str, ...]]] = {
    "everything": lambda equation: ("inputs", "solution"),
    "jacobian": lambda equation: equation.jacobian_depends_on,
    "shape": lambda equation: ("coefficient", "free"),
}
"""What a network reads beside the error."""


def described(recipe: str, equation: Equation, scale: Scale) -> dict[str, Any]:
    """All that determines the solver of a recipe, as plain values."""
    row = preset(recipe, equation)
    values = {key: value for key, value in vars(row).items() if key not in ("where", "batches")}
    values["data"] = {}  # so that runs keep the names they have
    for part in ("predictor", "corrector"):
        if values[part] is not None:
            chosen = network_row(values[part], scale, equation)
            values[part] = [chosen.model, chosen.arguments]
    return values


def _build(
    name: str | None, scale: Scale, equation: Equation, reads: Sequence[str], more: dict[str, Any]
) -> torch.nn.Module | None:
    if name is None:
        return None
    row = network_row(name, scale, equation)
    arguments, unknowns = dict(row.arguments), len(equation.unknowns)
    channels = {"inputs": len(equation.conditioning_names), "coefficient": 1, "free": 1}
    channels |= {"solution": unknowns, "error": unknowns}
    if len(row.arguments.get("max_wavenumber", ())) != 3:  # else frames are an axis of the network
        channels["solution"] = channels["error"] = unknowns * (equation.frames + 1)
    units = arguments.pop("units", None)
    if units is not None:
        sizes = [units[read] for read in reads for _ in range(channels[read])]
        more = {**more, "input_sizes": sizes, "output_size": units["solution"]}
    padding = "circular" if equation.boundary == "periodic" else "zeros"
    return build(
        row.model,
        in_channels=sum(channels[read] for read in reads),
        out_channels=channels["solution"],
        **({"padding_mode": padding} if takes(row.model, "padding_mode") else {}),
        **arguments,
        **{name: value for name, value in more.items() if takes(row.model, name)},
    )


@dataclass(frozen=True)
class Stage:
    """A part of a training: its name, its grid and its plan."""

    name: str
    resolution: int
    plan: Plan


def make_stages(
    recipe: str, equation: Equation, scale: Scale, *, coarsening: int = 1, **changes: Any
) -> tuple[Stage, ...]:
    """The stages of a recipe; `changes` replace fields of every plan, and the compute of all."""
    row, grid = preset(recipe, equation), scale.resolution // coarsening
    batches, minutes = scale.batches, None
    if coarsening > 1:
        batches = scale.ablation_batches
    elif scale.minutes is not None:
        batches, minutes = row.batches, None if row.batches else scale.minutes
    if changes.get("batches") or changes.get("budget_minutes"):
        batches, minutes = changes.get("batches"), changes.get("budget_minutes")
    size = scale.moving_batch_size if moving(equation) else scale.batch_size
    fixed = {key: value for key, value in changes.items() if key not in COMPUTE}

    def stage(name: str, plan: str, grid: int, share: float) -> Stage:
        shared = (
            {"batches": max(1, round(share * batches))}
            if batches is not None
            else {"batches": None, "budget_minutes": share * (minutes or 0.0)}
        )
        chosen = PLANS[plan]
        own = {} if chosen.batch_size in OWN_BATCHES else {"batch_size": size}
        return Stage(name, grid, replace(chosen, **{**shared, **own, **fixed}))

    warm, finish, whole = row.warm if scale.warm_resolution and coarsening == 1 else 0.0, 0.0, 1.0
    if row.predictor_share:
        share = row.predictor_share
        first = stage("predictor", row.plan, grid, share)
        second = stage("training", row.plan, grid, 1 - share)
        return (
            replace(first, plan=replace(first.plan, unroll=0, shortest_unroll=0)),
            replace(second, plan=replace(second.plan, fixed_predictor=True)),
        )
    if row.finish is not None:
        finish = FINISH_SHARE * (1 if batches is not None else PLANS[row.finish].unroll)
    if batches is None:
        whole += finish  # minutes are those of all stages together
    stages = []
    if warm:
        stages.append(stage("warm start", row.plan, scale.warm_resolution or grid, warm / whole))
    stages.append(stage("training", row.plan, grid, (1 - warm) / whole))
    if row.finish is not None:
        stages.append(stage("finish", row.finish, grid, finish / whole))
    return tuple(stages)


def make_plan(recipe: str, equation: Equation, scale: Scale, **changes: Any) -> Plan:
    """How a recipe trains when nothing comes before or after."""
    alone = replace(scale, warm_resolution=None)
    return make_stages(recipe, equation, alone, **changes)[0].plan
