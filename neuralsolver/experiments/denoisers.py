"""How the denoisers of `ens reconstruct` are trained.

Two networks per equation: `palette`, which is told of the sensors or of none, and `diffusion-ens`
over it. Most of what a denoiser of Poisson's or Darcy's fields has to know one of Helmholtz' fields
knows already, so the others start from that one and need a part of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuralsolver import models
from neuralsolver.equations import Equation, equation_named
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import measure_sizes
from neuralsolver.samplers.denoiser import PALETTE_CHANNELS, Denoiser
from neuralsolver.samplers.diffusion_ens import ERROR_CHANNELS, ErrorConditionedDenoiser, widen
from neuralsolver.training import Card, Plan, fit, load_model, save_model
from neuralsolver.training.checkpoint import CARD
from neuralsolver.training.denoising import ObservedInstances

RESOLUTION = 64
DESK = {"width": 32, "multipliers": [1, 2, 2, 2], "blocks": 1, "patch": 2}
PAPER = {"width": 128, "multipliers": [2, 2, 2], "blocks": 4, "patch": 1}
"""54.7 million weights, for 128 × 128 points."""


@dataclass(frozen=True)
class DenoiserRecipe:
    """Minutes on one core, the learning rate, and the model it starts from."""

    minutes: float
    learning_rate: float = 1e-3
    start: str = ""


RECIPES = {
    "helmholtz-palette": DenoiserRecipe(20, 2e-3),
    "poisson-palette": DenoiserRecipe(8, start="helmholtz-palette"),
    "darcy-palette": DenoiserRecipe(16, start="helmholtz-palette"),
    "helmholtz-diffusion-ens": DenoiserRecipe(13),
    "poisson-diffusion-ens": DenoiserRecipe(8, start="helmholtz-diffusion-ens"),
    "darcy-diffusion-ens": DenoiserRecipe(13),
}
KINDS = ("palette", "diffusion-ens")

Report = Callable[[str, float, Any], None]


def train_denoiser(
    name: str, runs: Path, *, minutes: float | None = None, report: Report | None = None
) -> Path:
    """The model folder of a denoiser, trained if it is not there, after those it starts from."""
    if name not in RECIPES:
        raise InvalidInput("denoiser", f"one of {', '.join(RECIPES)}", name)
    folder = runs / "denoisers" / name
    if (folder / CARD).is_file():
        return folder
    recipe, equation = RECIPES[name], equation_named(name.split("-", maxsplit=1)[0])
    start = train_denoiser(recipe.start, runs, report=report) if recipe.start else None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name.endswith("diffusion-ens"):
            base = train_denoiser(f"{equation.name}-palette", runs, report=report)
            model: Any = _error_conditioned(base, start)
        else:
            model = _palette(equation, start)
    plan = Plan(
        objective="denoising",
        budget_minutes=recipe.minutes if minutes is None else minutes,
        batch_size=16,
        learning_rate=recipe.learning_rate,
        ema=0.995,
        seed=2 if name.endswith("diffusion-ens") else 1,
    )
    source = ObservedInstances(equation, RESOLUTION, model.sizes)

    def progress(done: float, record: Any) -> None:
        if report is not None:
            report(name, done, record)

    record = fit(model, source, plan, folder / "run", progress=progress)
    how = {
        "recipe": name.removeprefix(f"{equation.name}-"),
        "start": recipe.start,
        "minutes": round(record.seconds / 60, 1),
        "batches": record.batches,
        "loss": record.losses,
    }
    save_model(folder, model, Card(equation, RESOLUTION, {"training": how}), half=True)
    return folder


def network(channels: int, **size: Any) -> nn.Module:
    """The denoising network at desk size, or at the size given."""
    return models.build("song-unet", in_channels=channels, out_channels=2, **{**DESK, **size})


def _palette(equation: Equation, start: Path | None) -> Denoiser:
    model = Denoiser(network(PALETTE_CHANNELS), measure_sizes(equation, RESOLUTION))
    if start is not None:
        model.load_state_dict(load_model(start)[0].state_dict())
    return model


def _error_conditioned(base: Path, start: Path | None) -> ErrorConditionedDenoiser:
    denoiser = load_model(base)[0]
    wider = network(ERROR_CHANNELS)
    widen(denoiser.network, wider)
    if start is not None:
        wider.load_state_dict(load_model(start)[0].network.state_dict())
    return ErrorConditionedDenoiser(denoiser, wider, base.name)
