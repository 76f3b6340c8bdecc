"""A flow's answer to a small disturbance: its linearised equation, stepped through time.

What a residual r has added up to without advection is e = L⁻¹r, L = ∂ₜ − νΔ. With it, e + w is

    J(u)⁻¹r,    ∂ₜw − νΔw + A(u)(e + w) = 0,    w(0) = 0,    A(u)d = v(u)·∇d + v(d)·∇u

J is that of the flow itself: the differences in time of a residual on frames are another J, which
is the same for all that moves little between two frames. Between frames, u and e are cubic in time.
Steps are integrating-factor Runge-Kutta 4 on the modes up to n/3, as many as are stable. With
v = (a, b) and the primes those of d,

    A(u)d = (∂₁₁ − ∂₂₂)(ab′ + a′b) − 2 ∂₁₂(aa′ − bb′)

needs velocities only: two transforms to the points and two back.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from neuralsolver.cancellation import checkpoint

STABLE = 2.5
"""Speed times wavenumber times step; Runge-Kutta 4 oscillates stably up to 2.8."""


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
                checkpoint()
                w = self._advanced(w, modes, j, i)
            frames.append(w)
        return e + self._to_points(torch.stack(frames, 1))[:, None]

    def _advanced(self, w: Tensor, e: Tensor, j: int, i: int) -> Tensor:
        """One step from the i-th part of the time between the frames j and j + 1."""
        h, half = self.step, self.half
        now, middle, then = (
            (self._at(self.flow, 2, j, part), self._at(e, 1, j, part))
            for part in (i / self.substeps, (i + 0.5) / self.substeps, (i + 1) / self.substeps)
        )
        decayed, first = half * w, half * self._tendency(w, *now)
        second = self._tendency(decayed + 0.5 * h * first, *middle)
        third = self._tendency(decayed + 0.5 * h * second, *middle)
        fourth = self._tendency(half * (decayed + h * third), *then)
        return half * (decayed + h / 6 * (first + 2 * (second + third))) + h / 6 * fourth

    def _tendency(self, w: Tensor, flow: Tensor, e: Tensor) -> Tensor:
        """−A(u)(e + w)."""
        a, b = flow
        c, d = self._to_points(self.velocity[:, None] * (e + w))
        products = torch.stack([a * d + c * b, 2 * (a * c - b * d)])
        return (self.stress[:, None] * self._to_modes(products)).sum(0)

    def _at(self, frames: Tensor, axis: int, j: int, part: float) -> Tensor:
        """The cubic through four frames, `part` of the way from frame j to the next."""
        first = min(max(j - 1, 0), frames.shape[axis] - 4)
        here = j + part - first
        total = torch.zeros_like(frames.select(axis, 0))
        for i in range(4):
            others = [k for k in range(4) if k != i]
            weight = math.prod((here - k) / (i - k) for k in others)
            total.add_(frames.select(axis, first + i), alpha=weight)
        return total

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
