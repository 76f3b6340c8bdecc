"""Samplers by name, as the command line and the experiments ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.correction import STEPS as CORRECTIONS
from neuralsolver.samplers.correction import Correction
from neuralsolver.samplers.diffusion_ens import DiffusionENS
from neuralsolver.samplers.diffusion_pde import GUIDANCE, DiffusionPDE
from neuralsolver.samplers.edm import Schedule
from neuralsolver.samplers.exact import FILLS, ExactPosterior, Fill
from neuralsolver.samplers.palette import Palette
from neuralsolver.samplers.pcfm import PCFM
from neuralsolver.samplers.samples import Sampler

METHODS = (
    "diffusion-ens",
    "diffusion-ens+gn",
    "diffusion-ens+ens",
    "palette",
    "diffusion-pde",
    "diffusion-pde-official",
    "pcfm",
    "exact",
    "correction",
    *FILLS,
)

Load = Callable[[str], Any]


def build(method: str, equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    """The sampler `method`; networks come from `denoiser` and `solver` by their names."""
    if method not in METHODS:
        raise InvalidInput("method", f"one of {', '.join(METHODS)}", method)
    if steps is not None and steps < 2:
        raise InvalidInput("steps", "at least 2", steps)
    if method == "exact":
        return ExactPosterior()
    if method in FILLS:
        return Fill(method)
    if method == "correction":
        return Correction(solver(equation), steps or CORRECTIONS)
    schedule = Schedule() if steps is None else Schedule(steps)
    if method == "palette":
        return Palette(denoiser(f"{equation}-palette"), schedule)
    if method.startswith("diffusion-pde"):
        residual = "official" if method.endswith("official") else "right"
        network, guided = denoiser(f"{equation}-palette"), Schedule(steps or 1000)
        return DiffusionPDE(network, guided, residual, GUIDANCE[equation])
    if method == "pcfm":
        return PCFM(denoiser(f"{equation}-palette"), steps or 50)
    network = denoiser(f"{equation}-diffusion-ens")
    finish = {"diffusion-ens": "", "diffusion-ens+gn": "gauss-newton"}.get(method, "ens")
    chosen = solver(equation) if finish == "ens" else None
    return DiffusionENS(network, schedule, finish=finish, solver=chosen)
