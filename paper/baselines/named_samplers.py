"""Samplers that only the tables need, registered with those of the library on import."""

from __future__ import annotations

from functools import partial

from neuralsolver.samplers import Sampler, Schedule
from neuralsolver.samplers.methods import METHODS, Load
from paper.baselines.diffusion_pde import GUIDANCE, DiffusionPDE
from paper.baselines.guidance import Guided
from paper.baselines.mismatch_correction import STEPS, Correction
from paper.baselines.pcfm import PCFM
from paper.baselines.projection import LeastNormENS


def _diffusion_pde(
    residual: str, equation: str, steps: int | None, denoiser: Load, solver: Load
) -> Sampler:
    network = denoiser(f"{equation}-palette")
    return DiffusionPDE(network, Schedule(steps or 1000), residual, GUIDANCE[equation])


def _pcfm(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return PCFM(denoiser(f"{equation}-palette"), steps or 50)


def _least_norm(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return LeastNormENS(denoiser(f"{equation}-diffusion-ens"), Schedule(steps or 50))


def _guided(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return Guided(denoiser(f"{equation}-diffusion-ens"), Schedule(steps or 50))


def _correction(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return Correction(solver(equation), steps or STEPS)


METHODS |= {
    "diffusion-ens+gn": _least_norm,
    "diffusion-ens-guided": _guided,
    "correction": _correction,
    "diffusion-pde": partial(_diffusion_pde, "right"),
    "diffusion-pde-official": partial(_diffusion_pde, "official"),
    "pcfm": _pcfm,
}
