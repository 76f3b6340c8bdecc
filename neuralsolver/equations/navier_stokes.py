"""Incompressible flow on the unit torus, in vorticity form.

    ∂ₜw + v·∇w = νΔw + f,   v = (∂₂ψ, −∂₁ψ),   −Δψ = w                           (Sec. C.1.4)

    diagonal      f = A (sin 2πm(r₁+r₂) + cos 2πm(r₁+r₂))        Navier-Stokes: A = 0.1, m = 1
    kolmogorov    f = −A cos 2πm r₂                              Kolmogorov:    A = 4,   m = 4

The solution is a whole trajectory w(t₀ + jδ), j = 0 … frames; the input is its frame 0, drawn from
a Gaussian field at t = 0 and carried to `start_time` by the reference solver. The residual is
spectral in space and, in time, central with one-sided ends, so a true trajectory leaves a floor of
order δ² (δ at the ends).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, check_finite, check_positive
from neuralsolver.equations.fourier import vorticity_derivatives
from neuralsolver.errors import InvalidInput
from neuralsolver.reference.random_fields import periodic_field

FORCINGS = ("diagonal", "kolmogorov")


@dataclass(frozen=True)
class NavierStokes(Equation):
    """∂ₜw + v·∇w − νΔw − f on a trajectory of `frames` steps of `frame_spacing`."""

    viscosity: float = 1e-4
    forcing: str = "diagonal"
    forcing_amplitude: float = 0.1
    forcing_wavenumber: int = 1
    start_time: float = 2.0
    frame_spacing: float = 0.2
    frames: int = 20

    input_names: ClassVar[tuple[str, ...]] = ("initial vorticity",)
    periodic: ClassVar[bool] = True
    minimum_resolution: ClassVar[int] = 8

    def __post_init__(self) -> None:
        check_positive("viscosity", self.viscosity)
        check_finite("forcing_amplitude", self.forcing_amplitude)
        check_positive("frame_spacing", self.frame_spacing)
        if self.forcing not in FORCINGS:
            raise InvalidInput("forcing", " or ".join(FORCINGS), self.forcing)
        if self.forcing_wavenumber < 1:
            raise InvalidInput("forcing_wavenumber", "at least 1", self.forcing_wavenumber)
        if not (np.isfinite(self.start_time) and self.start_time >= 0):
            raise InvalidInput("start_time", "a time not before zero", self.start_time)
        if self.frames < 2:
            raise InvalidInput("frames", "at least 2", self.frames)

    @property
    def name(self) -> str:
        return "kolmogorov" if self.forcing == "kolmogorov" else "navier-stokes"

    @property
    def jacobian_reads(self) -> tuple[str, ...]:
        return ("solution",)

    @property
    def frame_times(self) -> Array:
        """The times of the recorded frames, the initial one first."""
        return np.asarray(self.start_time + self.frame_spacing * np.arange(self.frames + 1))

    def forcing_field(self, like: Tensor) -> Tensor:
        """f on the grid of `like` (..., n, n)."""
        n = like.shape[-1]
        r = torch.arange(n, dtype=torch.float64) / n
        wave = 2 * math.pi * self.forcing_wavenumber
        if self.forcing == "diagonal":
            phase = wave * (r[:, None] + r[None, :])
            field = self.forcing_amplitude * (torch.sin(phase) + torch.cos(phase))
        else:
            field = -self.forcing_amplitude * torch.cos(wave * r[None, :]).expand(n, n)
        return field.to(like)

    def residual(self, u: Tensor, inputs: Tensor) -> Tensor:
        v1, v2, w1, w2, laplacian = vorticity_derivatives(u)
        transport = v1 * w1 + v2 * w2 - self.viscosity * laplacian - self.forcing_field(u)
        return time_derivative(u, self.frame_spacing) + transport

    def impose(self, u: Tensor, inputs: Tensor) -> Tensor:
        return torch.cat([inputs[:, :, None], u[:, :, 1:]], dim=2)

    def solution_shape(self, resolution: int) -> tuple[int, ...]:
        return (1, self.frames + 1, resolution, resolution)

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return periodic_field(rng, resolution)[None]


def time_derivative(w: Tensor, spacing: float) -> Tensor:
    """∂ₜw along the frame axis −3: central, one-sided at the two ends."""
    step = torch.diff(w, dim=-3) / spacing
    first, last = step[..., :1, :, :], step[..., -1:, :, :]
    return torch.cat([first, (step[..., 1:, :, :] + step[..., :-1, :, :]) / 2, last], dim=-3)
