"""A flow stepped through time, frame by frame: what its frames are without differences in time.

    ∂w/∂t + v·∇w = νΔw + f        integrating-factor Runge-Kutta 4 on the modes of the grid

Products are taken on 3n/2 points, free of aliasing. A solution on frames is compared with this by
the error estimate: a residual on frames sees neither what its own differences in time leave nor how
far the flow carries it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from neuralsolver.cancellation import checkpoint
from neuralsolver.fields.fourier import advection, symbols

COURANT = 1.5
"""Speed times wavenumber times step: half of what is stable, at an error of about 1e-5."""
MOST_STEPS = 200
"""Steps between two frames, beyond which nothing is worth knowing."""


def integrate_flow(
    initial: Tensor, forcing: Tensor, viscosity: float, spacing: float, frames: int
) -> Tensor:
    """The frames of a flow.

    Args:
        initial: The vorticity of frame 0, (batch, 1, n, n).
        forcing: f, (n, n).
        viscosity: ν.
        spacing: The time from frame to frame.
        frames: How many follow the initial one.

    Returns:
        (batch, 1, frames + 1, n, n) in the precision of `initial`; NaN from where the flow is too
        fast for `MOST_STEPS` steps a frame.
    """
    n = initial.shape[-1]
    square = symbols(n, initial.dtype, initial.device)[2]
    force = torch.fft.rfft2(forcing.to(initial), norm="forward")
    modes = torch.fft.rfft2(initial, norm="forward")
    found = [initial]
    for _ in range(frames):
        count = _substeps(modes, spacing)
        step = spacing / max(1, count)
        half = torch.exp(-0.5 * step * viscosity * square)
        for _ in range(count):
            checkpoint()
            modes = _advanced(modes, force, half, step)
        if not count:
            modes = torch.full_like(modes, torch.nan)
        found.append(torch.fft.irfft2(modes, s=(n, n), norm="forward"))
    return torch.stack(found, 2)


def _advanced(w: Tensor, force: Tensor, half: Tensor, h: float) -> Tensor:
    """One step; `half` is what viscosity leaves in half of it."""
    decayed, first = half * w, half * _tendency(w, force)
    second = _tendency(decayed + 0.5 * h * first, force)
    third = _tendency(decayed + 0.5 * h * second, force)
    fourth = _tendency(half * (decayed + h * third), force)
    return half * (decayed + h / 6 * (first + 2 * (second + third))) + h / 6 * fourth


def _tendency(w: Tensor, force: Tensor) -> Tensor:
    n = w.shape[-2]
    return force - advection(w, n // 2 - 1, 2 * -(-3 * n // 4))


def _substeps(modes: Tensor, spacing: float) -> int:
    """Steps to the next frame for the fastest sample; 0 where there would be too many."""
    n = modes.shape[-2]
    k1, k2, square = symbols(n, modes.real.dtype, modes.device)
    stream = modes / square.clamp_min(1.0)
    parts = torch.stack((1j * k2 * stream, -1j * k1 * stream))
    speed = torch.fft.irfft2(parts, s=(n, n), norm="forward").abs().sum(0).max()
    asked = float(speed) * spacing * math.pi * n / COURANT
    return max(1, math.ceil(asked)) if asked < MOST_STEPS else 0
