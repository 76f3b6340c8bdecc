"""How the denoisers of `ens invert` are trained: `python -m paper denoiser helmholtz-palette`.

Two networks per equation: `palette`, which is told of the sensors or of none, and `diffusion-ens`
over it. Most of what a denoiser of Poisson's or Darcy's fields has to know one of Helmholtz' fields
knows already, so the others start from that one and need a part of its time. Minimised is

    L = E λ(σ) ‖D(y + σn; σ, sensors) − y‖²,      ln σ ~ N(0.4, 1.8²)

with λ = 1/c_out² of EDM. EDM itself has ln σ ~ N(−1.2, 1.2²), which suits photographs: a solution
is so smooth that its few large modes are still told apart under noise of σ = 20.

Instances are drawn fresh for every batch and solved by the reference solver. A share of them has no
sensors, so that one network also knows the prior; the others have 50 to 1,000.

A training may also go on from weights that exist, shipped ones or those of a folder (`start`): its
base is then the palette beside it in `runs`, or a copy of the shipped one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn

from neuralsolver import models
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Equation, equation_named, generator
from neuralsolver.equations.base import Array
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import Float
from neuralsolver.progress import Progress
from neuralsolver.samplers.conditions import Conditions, Sizes, conditions, encode_inputs
from neuralsolver.samplers.diffusion_ens import ERROR_CHANNELS, ErrorConditionedDenoiser
from neuralsolver.samplers.edm import SIGMA_DATA
from neuralsolver.samplers.palette import PALETTE_CHANNELS, Denoiser
from neuralsolver.training import Card, Plan, fit, load_model, save_model
from neuralsolver.training.api import reporting
from neuralsolver.training.checkpoint import CARD, read_card
from neuralsolver.training.library import SHIPPED, copy_model, locate_denoiser
from neuralsolver.training.objectives import OBJECTIVES

RESOLUTION = 64
SMALL = {"width": 32, "multipliers": [1, 2, 2, 2], "blocks": 1, "patch": 2}
NOISE_MEAN, NOISE_DEVIATION = 0.4, 1.8
FEWEST, MOST = 50, 1000
MEASURED_COUNTS = (50, 100, 200, 500, 1000)
DROPPED = 0.15
"""The share of instances without sensors."""
REPEATS = 2
"""Noise levels at which every instance is shown: drawing it costs as much as a third of a step."""


def random_positions(rng: np.random.Generator, resolution: int, count: int) -> Array:
    """`count` different grid points (N, 2)."""
    chosen = rng.choice(resolution**2, count, replace=False)
    return np.stack(np.divmod(chosen, resolution), 1) / (resolution - 1)


def measure_sizes(equation: Equation, resolution: int, seed: int = 20, fields: int = 8) -> Sizes:
    """Sizes measured on random fields with random sensors on the grid."""
    rng = np.random.default_rng(seed)
    counts = [count for count in MEASURED_COUNTS if count <= resolution**2 // 4]
    if len(counts) < 2:
        counts = [resolution**2 // 16, resolution**2 // 4]
    drawn = np.stack([equation.sample(rng, resolution) for _ in range(8 * fields)])
    solved = solve_reference(equation, drawn)
    inputs, u = torch.from_numpy(solved.inputs), torch.from_numpy(solved.solution)
    encoded = encode_inputs(equation, inputs)
    prior = (_rms(encoded), _rms(u))
    unit = Sizes(prior, ((0.0, 0.0), (0.0, 0.0)))
    logs = []
    for count in counts:
        sets = []
        for field in drawn[:fields]:
            positions = random_positions(rng, resolution, count)
            index = np.rint(positions * (resolution - 1)).astype(np.int64)
            sets.append((positions, field[0][index[:, 0], index[:, 1]]))
        told = conditions(equation, resolution, sets, unit)
        first = _rms(encoded[:fields] - told.fill)
        logs.append(np.log([first, _rms(u[:fields] - told.filled_solution)]))
    slopes = np.polyfit(np.log(counts), np.array(logs), 1)
    law = tuple((float(slopes[1, i]), float(slopes[0, i])) for i in (0, 1))
    return Sizes(prior, (law[0], law[1]))


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


@dataclass
class NoisyBatch:
    """Clean pairs x, their noise levels, the noise, and what is told of the sensors."""

    clean: Tensor
    sigma: Tensor
    noise: Tensor
    told: Conditions


@dataclass(frozen=True)
class ObservedInstances:
    """Random instances of an equation under random sensors, as many as are asked for."""

    equation: Equation
    resolution: int
    sizes: Sizes
    noise_mean: float = NOISE_MEAN

    def draw(self, seed: int, number: int, share: Any) -> NoisyBatch:
        """The samples of batch `number` that `share` names, whenever it asks the same."""
        instances = sorted({int(i) // REPEATS for i in share})
        rngs = [generator(seed, 3, number, i) for i in instances]
        drawn = np.stack([self.equation.sample(rng, self.resolution) for rng in rngs])
        solved = solve_reference(self.equation, drawn)
        sensors = [self._sensors(rng, field[0]) for rng, field in zip(rngs, drawn, strict=True)]
        told = conditions(self.equation, self.resolution, sensors, self.sizes)
        encoded = encode_inputs(self.equation, torch.from_numpy(solved.inputs))
        clean = told.encode(encoded, torch.from_numpy(solved.solution))
        clean, told = clean.repeat_interleave(REPEATS, 0), told.repeat(REPEATS)
        rng = generator(seed, 4, number, instances[0])
        levels = self.noise_mean + NOISE_DEVIATION * rng.standard_normal(len(clean))
        noise = rng.standard_normal(clean.shape)
        return NoisyBatch(clean, torch.from_numpy(np.exp(levels)), torch.from_numpy(noise), told)

    def _sensors(self, rng: np.random.Generator, field: Any) -> tuple[Any, Any]:
        if rng.random() < DROPPED:
            return np.zeros((0, 2)), np.zeros(0)
        most = min(MOST, self.resolution**2 // 4)
        fewest = min(FEWEST, most)
        count = round(math.exp(rng.uniform(math.log(fewest), math.log(most))))
        positions = random_positions(rng, self.resolution, count)
        index = np.rint(positions * (self.resolution - 1)).astype(np.int64)
        return positions, field[index[:, 0], index[:, 1]]


def denoising(model: Any, batch: NoisyBatch) -> Iterator[Tensor]:
    """EDM's loss."""
    if not hasattr(batch, "sigma"):
        expected = "a denoiser"
        raise InvalidInput("objective denoising", expected, type(model).__name__)
    sigma = batch.sigma.view(-1, 1, 1, 1)
    estimate = model(batch.clean + sigma * batch.noise, batch.sigma, batch.told)
    # 1/c_out²: errors of the network count alike at every noise level
    weight = (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2
    yield (weight * (estimate - batch.clean).square()).mean()


OBJECTIVES["denoising"] = denoising


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

Report = Callable[[str, float, Any], None]


def train_denoiser(
    name: str,
    runs: Path,
    *,
    minutes: float | None = None,
    start: Path | None = None,
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
        learning_rate=recipe.learning_rate,
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


def network(channels: int) -> nn.Module:
    """The denoising network."""
    return models.build("song-unet", in_channels=channels, out_channels=2, **SMALL)


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


def widen(network: Any, wider: Any) -> None:
    """Copy a trained network into one that reads more channels, which it ignores at first, and
    whose last layer is zero."""
    state, target = network.state_dict(), wider.state_dict()
    patches = network.patch**2
    old, new = network.in_channels * patches, wider.in_channels * patches
    name = "lifting.convolution.weight"
    weight = torch.zeros_like(target[name])
    weight[:, :old] = state[name][:, :old]
    weight[:, new:] = state[name][:, old:]
    state[name] = weight
    for last in ("projection.convolution.weight", "projection.convolution.bias"):
        state[last] = torch.zeros_like(state[last])
    wider.load_state_dict(state)


def denoiser(
    name: Annotated[str, typer.Argument(help="Such as helmholtz-palette or darcy-diffusion-ens.")],
    *,
    minutes: Annotated[
        float | None,
        typer.Option(help="Minutes of a busy core, instead of the recipe's."),
        Float(above=0.0, most=1e6),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Go on from a shipped denoiser or a folder.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
) -> None:
    """Train a denoiser; the same command continues an interrupted run and finds a finished one."""
    torch.set_num_threads(1)
    begin = None if start is None else locate_denoiser(start)
    with Progress(name) as progress:
        report = reporting(progress)
        print(train_denoiser(name, runs, minutes=minutes, start=begin, report=report))
