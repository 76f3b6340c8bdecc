"""Spectral calculus on the unit torus, rᵢ = i/n.

    û(k) = Σ u(r) e^(−2πi k·r),   ∂ⱼu ↔ 2πi kⱼ û,   Δu ↔ −4π²|k|² û,   ψ̂ = ŵ / (4π²|k|²), ψ̂(0) = 0

First derivatives drop the Nyquist mode of an even grid, whose derivative is not representable.
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
