"""DiffusionPDE and PCFM by name, registered with the samplers of the library on import."""

from __future__ import annotations

from functools import partial

from neuralsolver.samplers import Sampler, Schedule
from neuralsolver.samplers.methods import METHODS, Load
from paper.baselines.diffusion_pde import GUIDANCE, DiffusionPDE
from paper.baselines.pcfm import PCFM


def _diffusion_pde(
    residual: str, equation: str, steps: int | None, denoiser: Load, solver: Load
) -> Sampler:
    network = denoiser(f"{equation}-palette")
    return DiffusionPDE(network, Schedule(steps or 1000), residual, GUIDANCE[equation])


def _pcfm(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return PCFM(denoiser(f"{equation}-palette"), steps or 50)


METHODS |= {
    "diffusion-pde": partial(_diffusion_pde, "right"),
    "diffusion-pde-official": partial(_diffusion_pde, "official"),
    "pcfm": _pcfm,
}
