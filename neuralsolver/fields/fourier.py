"""Spectral calculus on the unit torus, rᵢ = i/n.

    û(k) = Σ u(r) e^(−2πi k·r),   ∂ⱼu ↔ 2πi kⱼ û,   Δu ↔ −4π²|k|² û,   ψ̂ = ŵ / (4π²|k|²), ψ̂(0) = 0

First derivatives drop the Nyquist mode of an even grid, whose derivative is not representable.

A product of two fields with modes |k₁|, |k₂| ≤ K has modes up to 2K. On m points those beyond m/2
come back as others (aliasing); the modes up to K stay clean when 3K < m. That is the 2/3 rule where
the grid is given, m = n, and the 3/2 rule where the modes are, K = n/2 − 1.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=16)
def symbols(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """2πk₁, 2πk₂ (Nyquist dropped) and 4π²|k|² on the half-plane of a real transform."""
    k1 = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)[:, None]
    k2 = torch.fft.rfftfreq(n, 1 / n, dtype=torch.float64)[None, :]
    square = (4 * math.pi**2) * (k1**2 + k2**2)
    first = 2 * math.pi * torch.where(k1.abs() == n / 2, 0.0, k1)
    second = 2 * math.pi * torch.where(k2 == n / 2, 0.0, k2)
    return tuple(table.to(dtype=dtype, device=device) for table in (first, second, square))  # type: ignore[return-value]


def vorticity_derivatives(w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(v₁, v₂, ∂₁w, ∂₂w, Δw) of a vorticity field w (..., n, n), with v = (∂₂ψ, −∂₁ψ)."""
    n = w.shape[-1]
    k1, k2, square = symbols(n, w.dtype, w.device)
    transform = torch.fft.rfft2(w)
    stream = transform / torch.where(square == 0, 1.0, square)
    stream = stream * (square != 0)
    parts = (1j * k2 * stream, -1j * k1 * stream, 1j * k1 * transform, 1j * k2 * transform)
    fields = [torch.fft.irfft2(part, s=(n, n)) for part in (*parts, -square * transform)]
    return fields[0], fields[1], fields[2], fields[3], fields[4]


def advection(spectrum: Tensor, kept: int, points: int) -> Tensor:
    """The modes up to `kept` of v·∇w, from those of the half spectrum of w (..., n, n/2 + 1).

    By products on `points` points, free of aliasing when 3 `kept` < `points`. With v = (a, b) free
    of divergence, v·∇w = (∂₁₁ − ∂₂₂)(ab) − ∂₁₂(a² − b²): of two products instead of four fields.
    """
    n = spectrum.shape[-2]
    if points != n:
        spectrum = _with_modes(spectrum, kept, points)
    velocity, stress = _advecting(points, kept, spectrum.real.dtype, spectrum.device)
    shape = (2, *(1,) * (spectrum.dim() - 2), *velocity.shape[1:])
    a, b = torch.fft.irfft2(velocity.view(shape) * spectrum, s=(points, points), norm="forward")
    stresses = torch.fft.rfft2(torch.stack((a * b, (a - b) * (a + b))), norm="forward")
    product = (stresses * stress.view(shape)).sum(0)
    return product if points == n else _with_modes(product, kept, n)


@lru_cache(maxsize=16)
def _advecting(
    n: int, kept: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The symbols of w ↦ (a, b) and of (ab, a² − b²) ↦ v·∇w on the modes up to `kept`."""
    k1, k2, square = symbols(n, torch.float64, device)
    edge = 2 * math.pi * (kept + 0.5)
    among = (k1.abs() < edge) & (k2 < edge) & (square < 2 * edge**2) & (square > 0)
    velocity = 1j * among * torch.stack((k2 + 0 * k1, -k1 + 0 * k2)) / square.clamp_min(1.0)
    stress = among * torch.stack((k2**2 - k1**2, k1 * k2))
    return velocity.to(torch.promote_types(dtype, torch.complex64)), stress.to(dtype)


def resample(w: Tensor, points: int) -> Tensor:
    """The field w (..., n, n) on a grid of `points` points: its modes below both Nyquist modes."""
    kept = min(w.shape[-1], points) // 2 - 1
    spectrum = _with_modes(torch.fft.rfft2(w, norm="forward"), kept, points)
    field: Tensor = torch.fft.irfft2(spectrum, s=(points, points), norm="forward")
    return field


def _with_modes(spectrum: Tensor, kept: int, points: int) -> Tensor:
    """The half spectrum of a `points` grid that has the modes |k₁|, |k₂| ≤ `kept` of another."""
    columns = spectrum[..., : kept + 1]
    between = columns.new_zeros((*columns.shape[:-2], points - 2 * kept - 1, kept + 1))
    rows = torch.cat([columns[..., : kept + 1, :], between, columns[..., -kept:, :]], dim=-2)
    beyond = rows.new_zeros((*rows.shape[:-1], points // 2 - kept))
    return torch.cat([rows, beyond], dim=-1)
