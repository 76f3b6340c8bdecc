"""Samplers by name, as the command line and the experiments ask for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.correction import STEPS as CORRECTIONS
from neuralsolver.samplers.correction import Correction
from neuralsolver.samplers.diffusion_ens import DiffusionENS
from neuralsolver.samplers.edm import Schedule
from neuralsolver.samplers.exact import FILLS, ExactPosterior, Fill
from neuralsolver.samplers.palette import Palette
from neuralsolver.samplers.samples import Sampler

Load = Callable[[str], Any]
Build = Callable[[str, int | None, Load, Load], Sampler]
"""From an equation's name, a number of steps, and the loaders of denoisers and of solvers."""


def _schedule(steps: int | None) -> Schedule:
    return Schedule() if steps is None else Schedule(steps)


def _diffusion_ens(
    finish: str, equation: str, steps: int | None, denoiser: Load, solver: Load
) -> Sampler:
    network = denoiser(f"{equation}-diffusion-ens")
    chosen = solver(equation) if finish == "ens" else None
    return DiffusionENS(network, _schedule(steps), finish=finish, solver=chosen)


def _palette(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return Palette(denoiser(f"{equation}-palette"), _schedule(steps))


def _exact(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return ExactPosterior()


def _correction(equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return Correction(solver(equation), steps or CORRECTIONS)


def _fill(name: str, equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    return Fill(name)


METHODS: dict[str, Build] = {
    "diffusion-ens": partial(_diffusion_ens, ""),
    "diffusion-ens+gn": partial(_diffusion_ens, "gauss-newton"),
    "diffusion-ens+ens": partial(_diffusion_ens, "ens"),
    "palette": _palette,
    "exact": _exact,
    "correction": _correction,
    **{name: partial(_fill, name) for name in FILLS},
}
"""Samplers by name. Add an entry to make one of yours known."""


def build(method: str, equation: str, steps: int | None, denoiser: Load, solver: Load) -> Sampler:
    """The sampler `method`; networks come from `denoiser` and `solver` by their names."""
    if method not in METHODS:
        raise InvalidInput("method", f"one of {', '.join(METHODS)}", method)
    if steps is not None and steps < 2:
        raise InvalidInput("steps", "at least 2", steps)
    return METHODS[method](equation, steps, denoiser, solver)
