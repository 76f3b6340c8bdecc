"""Samplers by name, as `ns.invert` and the study ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.diffusion_ens import DiffusionENS
from neuralsolver.samplers.edm import Schedule
from neuralsolver.samplers.exact import ExactPosterior, Fill
from neuralsolver.samplers.palette import Palette
from neuralsolver.samplers.samples import Sampler

Load = Callable[[str], Any]
Build = Callable[[str, int | None, Load, Load], Sampler]
"""From an equation's name, a number of steps, and the loaders of denoisers and of solvers."""


def _diffusion_ens(name: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return DiffusionENS(denoiser(f"{name}-diffusion-ens"), Schedule(steps or 50))


def _finished(name: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return DiffusionENS(denoiser(f"{name}-diffusion-ens"), Schedule(steps or 50), solver(name))


def _palette(name: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return Palette(denoiser(f"{name}-palette"), Schedule(steps or 50))


METHODS: dict[str, Build] = {
    "exact": lambda *_: ExactPosterior(),
    "palette": _palette,
    "diffusion-ens": _diffusion_ens,
    "diffusion-ens+ens": _finished,
    "spline": lambda *_: Fill("spline"),
    "centred-spline": lambda *_: Fill("centred-spline"),
    "nearest": lambda *_: Fill("nearest"),
}
"""Samplers by name. Add an entry to make one of yours known."""


def build(method: str, equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    """The sampler `method`; networks come from `denoiser` and `solver` by their names."""
    if method not in METHODS:
        raise InvalidInput("method", f"one of {', '.join(METHODS)}", method)
    if steps is not None and steps < 2:
        raise InvalidInput("steps", "at least 2", steps)
    return METHODS[method](equation, steps, denoiser, solver)
