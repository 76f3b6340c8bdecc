"""Manufactured solutions: (equation, exact u, input that makes it the solution) on any grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from neuralsolver.equations import Darcy, Equation, Helmholtz, NavierStokes, Poisson
from neuralsolver.fields.space import Space

PI = math.pi


def wall_grid(n: int) -> tuple[Tensor, Tensor]:
    r = torch.linspace(0, 1, n, dtype=torch.float64)
    return r[:, None], r[None, :]


def torus_grid(n: int) -> tuple[Tensor, Tensor]:
    r = torch.arange(n, dtype=torch.float64) / n
    return r[:, None], r[None, :]


def poisson(n: int) -> tuple[Equation, Tensor, Tensor]:
    """u = sin πx sin 2πy, Δu = −5π²u = a f."""
    x, y = wall_grid(n)
    u = torch.sin(PI * x) * torch.sin(2 * PI * y)
    return Poisson(scale=2.0), u[None, None], (-5 * PI**2 * u / 2)[None, None]


def helmholtz(n: int, wavenumber: float = 3.0) -> tuple[Equation, Tensor, Tensor]:
    x, y = wall_grid(n)
    u = torch.sin(2 * PI * x) * torch.sin(3 * PI * y)
    f = (wavenumber**2 - 13 * PI**2) * u
    return Helmholtz(wavenumber=wavenumber), u[None, None], f[None, None]


def nonlinear_helmholtz(n: int) -> tuple[Equation, Tensor, Tensor]:
    x, y = wall_grid(n)
    u = torch.sin(PI * x) * torch.sin(PI * y)
    f = (4 - 2 * PI**2) * u + 1.5 * u**3
    return Helmholtz(wavenumber=2.0, nonlinearity=1.5), u[None, None], f[None, None]


class VaryingDarcy(Darcy):
    """Darcy with the source that a manufactured solution needs: −∇·(a∇u) − f(x, y)."""

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        x, y = wall_grid(u.shape[-1])
        a, ax = 2 + torch.sin(PI * x), PI * torch.cos(PI * x)
        s, c = torch.sin(PI * x), torch.cos(PI * x)
        t = torch.sin(PI * y)
        source = -(ax * PI * c * t - 2 * a * PI**2 * s * t)
        width = self.stencil_reach
        inner = slice(width, -width)
        shifted = super().residual(space, u, inputs)
        shifted[..., inner, inner] += self.source - source[..., inner, inner]
        return shifted


def darcy(n: int, stencil: str = "flux") -> tuple[Equation, Tensor, Tensor]:
    """a = 2 + sin πx, u = sin πx sin πy."""
    x, y = wall_grid(n)
    u = torch.sin(PI * x) * torch.sin(PI * y)
    a = (2 + torch.sin(PI * x)).expand(n, n)
    return VaryingDarcy(stencil=stencil), u[None, None], a[None, None]


STATIC: dict[str, Callable[[int], tuple[Equation, Tensor, Tensor]]] = {
    "poisson": poisson,
    "helmholtz": helmholtz,
    "nonlinear-helmholtz": nonlinear_helmholtz,
    "darcy-flux": darcy,
    "darcy-wide": lambda n: darcy(n, "wide"),
}


def decaying_vortex(n: int, viscosity: float, times: Tensor) -> Tensor:
    """Taylor-Green: w = cos 2πx cos 2πy e^(−8π²νt), an exact unforced solution, (T, n, n)."""
    x, y = torus_grid(n)
    w = torch.cos(2 * PI * x) * torch.cos(2 * PI * y)
    return torch.exp(-8 * PI**2 * viscosity * times)[:, None, None] * w


def steady_shear(n: int, equation: NavierStokes) -> Tensor:
    """The laminar Kolmogorov state w = −A cos(2πm y) / (ν (2πm)²), an exact steady solution."""
    _, y = torus_grid(n)
    k = 2 * PI * equation.forcing_wavenumber
    w = -equation.forcing_amplitude / (equation.viscosity * k**2) * torch.cos(k * y)
    return w.expand(n, n)
