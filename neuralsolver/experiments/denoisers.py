"""How the denoisers of `ens reconstruct` are trained.

Two networks per equation: `palette`, which is told of the sensors or of none, and `diffusion-ens`
over it. Most of what a denoiser of Poisson's or Darcy's fields has to know one of Helmholtz' fields
knows already, so the others start from that one and need a part of its time.

A training may also go on from weights that exist, shipped ones or those of a folder (`start`): its
base is then the palette beside it in `runs`, or a copy of the shipped one.
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
from neuralsolver.training.checkpoint import CARD, read_card
from neuralsolver.training.denoising import NOISE_MEAN, ObservedInstances
from neuralsolver.training.library import SHIPPED, copy_model

RESOLUTION = 64
DESK = {"width": 32, "multipliers": [1, 2, 2, 2], "blocks": 1, "patch": 2}
PAPER = {"width": 128, "multipliers": [2, 2, 2], "blocks": 4, "patch": 1}
"""54.7 million weights, for 128 × 128 points."""


@dataclass(frozen=True)
class DenoiserRecipe:
    """Minutes on one core, the learning rate, the model it starts from, and E ln σ of the noise."""

    minutes: float
    learning_rate: float = 1e-3
    start: str = ""
    noise_mean: float = NOISE_MEAN


RECIPES = {
    "helmholtz-palette": DenoiserRecipe(20, 2e-3),
    "poisson-palette": DenoiserRecipe(8, start="helmholtz-palette"),
    "darcy-palette": DenoiserRecipe(16, start="helmholtz-palette"),
    "helmholtz-diffusion-ens": DenoiserRecipe(13),
    "poisson-diffusion-ens": DenoiserRecipe(8, start="helmholtz-diffusion-ens"),
    # what is left of its residual is decided under noise of σ = 0.1 to 1, where edges are
    "darcy-diffusion-ens": DenoiserRecipe(13, noise_mean=-0.3),
}
KINDS = ("palette", "diffusion-ens")

Report = Callable[[str, float, Any], None]


def train_denoiser(
    name: str,
    runs: Path,
    *,
    minutes: float | None = None,
    start: Path | None = None,
    learning_rate: float | None = None,
    report: Report | None = None,
) -> Path:
    """The model folder of a denoiser, trained if it is not there: from the weights in the folder
    `start`, or after those that its recipe starts from."""
    if name not in RECIPES:
        raise InvalidInput("denoiser", f"one of {', '.join(RECIPES)}", name)
    folder = runs / "denoisers" / name
    recipe, equation = RECIPES[name], equation_named(name.split("-", maxsplit=1)[0])
    origin = recipe.start if start is None else start.name
    if (folder / CARD).is_file():
        trained = read_card(folder).get("training", {}).get("start")
        if trained != origin:
            raise InvalidInput("--runs", f"no {name} from {trained or 'scratch'} in it", str(runs))
        return folder
    fresh = start is None
    if fresh and recipe.start:
        start = train_denoiser(recipe.start, runs, report=report)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name.endswith("diffusion-ens"):
            base = _base(f"{equation.name}-palette", runs, fresh, report)
            model: Any = _error_conditioned(base, start)
        else:
            model = _palette(equation, start)
    plan = Plan(
        objective="denoising",
        budget_minutes=recipe.minutes if minutes is None else minutes,
        batch_size=16,
        learning_rate=recipe.learning_rate if learning_rate is None else learning_rate,
        ema=0.995,
        seed=2 if name.endswith("diffusion-ens") else 1,
    )
    source = ObservedInstances(equation, RESOLUTION, model.sizes, recipe.noise_mean)

    def progress(done: float, record: Any) -> None:
        if report is not None:
            report(name, done, record)

    record = fit(model, source, plan, folder / "run", progress=progress)
    how = {
        "recipe": name.removeprefix(f"{equation.name}-"),
        "start": origin,
        "minutes": round(record.seconds / 60, 1),
        "batches": record.batches,
        "loss": record.losses,
    }
    save_model(folder, model, Card(equation, RESOLUTION, {"training": how}), half=True)
    return folder


def network(channels: int, **size: Any) -> nn.Module:
    """The denoising network at desk size, or at the size given."""
    return models.build("song-unet", in_channels=channels, out_channels=2, **{**DESK, **size})


def _base(name: str, runs: Path, fresh: bool, report: Report | None) -> Path:
    """The palette under an error-conditioned denoiser: trained for a `fresh` one, else the one
    that is there, or a copy of the shipped one."""
    if fresh:
        return train_denoiser(name, runs, report=report)
    folder = runs / "denoisers" / name
    if not (folder / CARD).is_file():
        copy_model(SHIPPED / name, folder)
    return folder


def _palette(equation: Equation, start: Path | None) -> Denoiser:
    if start is None:
        return Denoiser(network(PALETTE_CHANNELS), measure_sizes(equation, RESOLUTION))
    model, card = load_model(start)
    if not isinstance(model, Denoiser):
        raise InvalidInput("--start", "a palette", start.name)
    # weights that go on with their own equation keep the units they know
    sizes = model.sizes if card.equation == equation else measure_sizes(equation, RESOLUTION)
    return Denoiser(model.network, sizes)


def _error_conditioned(base: Path, start: Path | None) -> ErrorConditionedDenoiser:
    denoiser = load_model(base)[0]
    wider = network(ERROR_CHANNELS)
    widen(denoiser.network, wider)
    if start is not None:
        model = load_model(start)[0]
        if not isinstance(model, ErrorConditionedDenoiser):
            raise InvalidInput("--start", "a diffusion-ens", start.name)
        wider.load_state_dict(model.network.state_dict())
    return ErrorConditionedDenoiser(denoiser, wider, base.name)
