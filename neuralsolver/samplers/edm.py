"""Diffusion as EDM writes it (Karras et al. 2022).

A denoiser is trained to undo white noise of any size, D(y + σn; σ) ≈ E[y | y + σn], as

    D(x; σ) = c_skip x + c_out F(c_in x; c_noise),
    c_skip = d²/(σ²+d²),   c_out = σd/√(σ²+d²),   c_in = 1/√(σ²+d²),   c_noise = ln(σ)/4

with the standard deviation d = 0.5 of the data, so that input and target of the network F have unit
size at every noise level. Samples follow dx/dσ = (x − D)/σ from pure noise at σ = 80 down to none
in Heun steps; the last step is Euler's. The state is kept in float64, the network in float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

SIGMA_DATA = 0.5


@dataclass(frozen=True)
class Schedule:
    """The noise levels of a sampler, σ_max … σ_min in powers of 1/ρ, then zero."""

    steps: int = 50
    sigma_min: float = 0.002
    sigma_max: float = 80.0
    rho: float = 7.0

    def levels(self) -> Tensor:
        """σ₀ > σ₁ > … > σ_{N−1} > σ_N = 0."""
        part = torch.arange(self.steps, dtype=torch.float64) / max(1, self.steps - 1)
        top, bottom = self.sigma_max ** (1 / self.rho), self.sigma_min ** (1 / self.rho)
        levels = (top + part * (bottom - top)) ** self.rho
        return torch.cat([levels, levels.new_zeros(1)])


def precondition(sigma: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """c_skip, c_out, c_in and c_noise of noise levels σ."""
    total = sigma**2 + SIGMA_DATA**2
    skip = SIGMA_DATA**2 / total
    return skip, sigma * SIGMA_DATA / total.sqrt(), 1 / total.sqrt(), sigma.log() / 4


Denoise = Callable[[Tensor, Tensor], Tensor]


def heun_steps(denoise: Denoise, x: Tensor, schedule: Schedule) -> Iterator[Tensor]:
    """The states after each step from x = σ_max · noise; `denoise` takes x and one σ."""
    levels = schedule.levels().to(x)
    for now, then in itertools.pairwise(levels):
        slope = (x - denoise(x, now)) / now
        proposal = x + (then - now) * slope
        if then > 0:
            second = (proposal - denoise(proposal, then)) / then
            proposal = x + (then - now) * 0.5 * (slope + second)
        x = proposal
        yield x


def initial_noise(shape: tuple[int, ...], seeds: list[int], schedule: Schedule) -> Tensor:
    """σ_max · noise (B, …); the noise of a sample depends on its own seed only."""
    rows = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        rows.append(torch.randn(shape, generator=generator, dtype=torch.float64))
    return schedule.sigma_max * torch.stack(rows)
