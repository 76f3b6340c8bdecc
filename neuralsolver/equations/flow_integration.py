"""A flow stepped through time, and its answer to a small disturbance.

    ∂w/∂t + v·∇w = νΔw + f        integrating-factor Runge-Kutta 4 on the modes of the grid

`integrate_flow` is what the frames are without differences in time. Products are taken on 3n/2
points, free of aliasing. A solution on frames is compared with this by the error estimate: a
residual on frames sees neither what its own differences in time leave nor how far the flow carries
it.

`Tangent` is the linearised flow. What a residual r has added up to without advection is e = L⁻¹r,
L = ∂ₜ − νΔ. With it, e + w is

    J(u)⁻¹r,    ∂ₜw − νΔw + A(u)(e + w) = 0,    w(0) = 0,    A(u)d = v(u)·∇d + v(d)·∇u

J is that of the flow itself: the differences in time of a residual on frames are another J, which
is the same for all that moves little between two frames. Between frames, u and e are cubic in time.
With v = (a, b) and the primes those of d,

    A(u)d = (∂₁₁ − ∂₂₂)(ab′ + a′b) − 2 ∂₁₂(aa′ − bb′)

needs velocities only: two transforms to the points and two back, on the modes up to n/3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from neuralsolver.cancellation import checkpoint
from neuralsolver.fields.fourier import advection, symbols

COURANT = 1.5
"""Speed times wavenumber times step of a flow: half of what is stable, at an error of 1e-5."""
STABLE = 2.5
"""The same of a linearised flow; Runge-Kutta 4 oscillates stably up to 2.8."""
MOST_STEPS = 200
"""Steps between two frames, beyond which nothing is worth knowing."""

Tendency = Callable[[Tensor], Tensor]


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
    force: Tensor = torch.fft.rfft2(forcing.to(initial), norm="forward")
    modes = torch.fft.rfft2(initial, norm="forward")

    def tendency(w: Tensor) -> Tensor:
        return force - advection(w, n // 2 - 1, 2 * -(-3 * n // 4))

    found = [initial]
    for _ in range(frames):
        count = _substeps(modes, spacing)
        step = spacing / max(1, count)
        half = torch.exp(-0.5 * step * viscosity * square)
        for _ in range(count):
            modes = _advanced(modes, half, step, tendency, tendency, tendency)
        if not count:
            modes = torch.full_like(modes, torch.nan)
        found.append(torch.fft.irfft2(modes, s=(n, n), norm="forward"))
    return torch.stack(found, 2)


def _advanced(
    w: Tensor, half: Tensor, h: float, now: Tendency, middle: Tendency, then: Tendency
) -> Tensor:
    """One step; `half` is what viscosity leaves in half of it."""
    checkpoint()
    decayed, first = half * w, half * now(w)
    second = middle(decayed + 0.5 * h * first)
    third = middle(decayed + 0.5 * h * second)
    fourth = then(half * (decayed + h * third))
    return half * (decayed + h / 6 * (first + 2 * (second + third))) + h / 6 * fourth


def _substeps(modes: Tensor, spacing: float) -> int:
    """Steps to the next frame for the fastest sample; 0 where there would be too many."""
    n = modes.shape[-2]
    k1, k2, square = symbols(n, modes.real.dtype, modes.device)
    stream = modes / square.clamp_min(1.0)
    parts = torch.stack((1j * k2 * stream, -1j * k1 * stream))
    speed = torch.fft.irfft2(parts, s=(n, n), norm="forward").abs().sum(0).max()
    asked = float(speed) * spacing * math.pi * n / COURANT
    return max(1, math.ceil(asked)) if asked < MOST_STEPS else 0


class Tangent:
    """e ↦ e + w around a trajectory u (B, 1, T, n, n) with viscosity ν and frames δ apart."""

    def __init__(self, u: Tensor, viscosity: float, spacing: float) -> None:
        n = self.points = u.shape[-1]
        kept = self.kept = (n - 1) // 3
        one = torch.arange(kept + 1, dtype=torch.float64)
        k1 = 2 * math.pi * torch.cat([one, -one[1:].flip(0)])[:, None]
        k2 = 2 * math.pi * one[None]
        square = k1**2 + k2**2
        inverse = torch.where(square > 0, 1 / square.clamp_min(1.0), 0.0)
        complexes = torch.promote_types(u.dtype, torch.complex64)
        self.velocity = torch.stack([1j * k2 * inverse, -1j * k1 * inverse]).to(u.device, complexes)
        self.stress = torch.stack([k1**2 - k2**2, -k1 * k2 + 0 * square]).to(u)
        self.flow = self._to_points(self.velocity[:, None, None] * self._to_modes(u[:, 0]))
        speed = float(self.flow.abs().sum(0).max())
        self.substeps = max(1, math.ceil(spacing * 2 * math.pi * kept * speed / STABLE))
        self.step = spacing / self.substeps
        self.half = torch.exp(-0.5 * self.step * viscosity * square).to(u)

    def __call__(self, e: Tensor) -> Tensor:
        """e + w of e (B, 1, T, n, n), zero in frame 0."""
        modes = self._to_modes(e[:, 0])
        w = torch.zeros_like(modes[:, 0])
        frames = [w]
        for j in range(modes.shape[1] - 1):
            for i in range(self.substeps):
                parts = (i / self.substeps, (i + 0.5) / self.substeps, (i + 1) / self.substeps)
                tendencies = (self._tendency(modes, j, part) for part in parts)
                w = _advanced(w, self.half, self.step, *tendencies)
            frames.append(w)
        return e + self._to_points(torch.stack(frames, 1))[:, None]

    def _tendency(self, modes: Tensor, j: int, part: float) -> Tendency:
        """w ↦ −A(u)(e + w), `part` of the way from frame j to the next."""
        (a, b), e = _between(self.flow, 2, j, part), _between(modes, 1, j, part)

        def tendency(w: Tensor) -> Tensor:
            c, d = self._to_points(self.velocity[:, None] * (e + w))
            products = torch.stack([a * d + c * b, 2 * (a * c - b * d)])
            return (self.stress[:, None] * self._to_modes(products)).sum(0)

        return tendency

    def _to_modes(self, field: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(field, norm="forward")[..., : self.kept + 1]
        rows = [spectrum[..., : self.kept + 1, :], spectrum[..., -self.kept :, :]]
        return torch.cat(rows, -2)

    def _to_points(self, modes: Tensor) -> Tensor:
        n, kept = self.points, self.kept
        spectrum = modes.new_zeros((*modes.shape[:-2], n, n // 2 + 1))
        spectrum[..., : kept + 1, : kept + 1] = modes[..., : kept + 1, :]
        spectrum[..., -kept:, : kept + 1] = modes[..., kept + 1 :, :]
        field: Tensor = torch.fft.irfft2(spectrum, s=(n, n), norm="forward")
        return field


def _between(frames: Tensor, axis: int, j: int, part: float) -> Tensor:
    """The cubic through four frames, `part` of the way from frame j to the next."""
    first = min(max(j - 1, 0), frames.shape[axis] - 4)
    here = j + part - first
    total = torch.zeros_like(frames.select(axis, 0))
    for i in range(4):
        others = [k for k in range(4) if k != i]
        weight = math.prod((here - k) / (i - k) for k in others)
        total.add_(frames.select(axis, first + i), alpha=weight)
    return total
