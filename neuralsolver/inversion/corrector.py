"""The network that reads the mismatch and corrects the logits.

A U-Net over the grids 32, 16, 8, 4 (the 64 × 64 field enters as four channels of 32 × 32), with
GroupNorm and SiLU. Numbers that hold for the whole field (noise level, number of wells, misfit,
prior) scale and shift every block.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.inversion.forward import WellData
from neuralsolver.inversion.mismatch import FIELD_CHANNELS, GRID, LARGEST_LOGIT, SCALARS, Wells

KINDS = ("two-phase", "channels", "ellipses")
"""The priors the network knows, in the order of its inputs."""


class Corrector(nn.Module):
    """ℓ ← ℓ + C(ℓ, mismatch brought back); reads (B, FIELD_CHANNELS, 64, 64) and (B, SCALARS).

    Args:
        widths: Channels of each level, the finest first.
        signal: Which form of the mismatch it was trained to read.
    """

    means: Tensor
    spectra: Tensor

    def __init__(self, widths: Sequence[int] = (48, 64, 96, 128), signal: str = "kalman") -> None:
        super().__init__()
        self.widths, self.signal = tuple(widths), signal
        self.numbers = nn.Sequential(nn.Linear(SCALARS, 64), nn.SiLU())
        self.lifting = nn.Conv2d(4 * FIELD_CHANNELS, widths[0], 3, padding=1)
        below = [widths[0], *widths[:-1]]
        self.down = nn.ModuleList(
            nn.ModuleList([_Block(a, b), _Block(b, b)]) for a, b in zip(below, widths, strict=True)
        )
        self.up = nn.ModuleList(
            nn.ModuleList([_Block(a + b, a), _Block(a, a)]) for a, b in pairwise(widths)
        )
        self.projection = nn.Conv2d(widths[0], 4, 3, padding=1)
        nn.init.zeros_(self.projection.weight)
        self.register_buffer("means", torch.full((len(KINDS),), 0.5))
        self.register_buffer("spectra", torch.ones(len(KINDS), GRID, GRID))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, fields: Tensor, scalars: Tensor) -> Tensor:
        """The next logits (B, 64, 64)."""
        numbers = self.numbers(scalars)
        v = functional.pixel_unshuffle(fields, 2).contiguous(memory_format=torch.channels_last)
        v = self.lifting(v)
        skips: list[Tensor] = []
        for level, blocks in enumerate(cast(list[nn.ModuleList], self.down)):
            if level:
                v = functional.avg_pool2d(v, 2)
            for block in blocks:
                v = block(v, numbers)
            skips.append(v)
        skips.pop()
        for blocks in reversed(cast(list[nn.ModuleList], self.up)):
            finer = functional.interpolate(v, scale_factor=2.0)
            v = torch.cat([skips.pop(), finer], 1)
            for block in blocks:
                v = block(v, numbers)
        change = functional.pixel_shuffle(self.projection(functional.silu(v)), 2)[:, 0]
        return (4 * fields[:, 0] + change).clamp(-LARGEST_LOGIT, LARGEST_LOGIT)

    def wells(self, data: WellData) -> Wells:
        """A problem with the moments of its prior, as this network reads it."""
        kind = KINDS.index(data.prior.name)
        return Wells(data, float(self.means[kind]), self.spectra[kind], kind)


class _Block(nn.Module):
    """v + K σ(s ⊙ N(K σ(N(v))) + t), with s and t from the numbers."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(8, fan_in)
        self.first = nn.Conv2d(fan_in, fan_out, 3, padding=1)
        self.second_norm = nn.GroupNorm(8, fan_out)
        self.second = nn.Conv2d(fan_out, fan_out, 3, padding=1)
        self.film = nn.Linear(64, 2 * fan_out)
        self.straight = nn.Conv2d(fan_in, fan_out, 1) if fan_in != fan_out else nn.Identity()
        with torch.no_grad():
            self.second.weight.mul_(0.3)

    def forward(self, v: Tensor, numbers: Tensor) -> Tensor:
        scale, shift = self.film(numbers)[:, :, None, None].chunk(2, 1)
        h = self.first(functional.silu(self.first_norm(v)))
        h = self.second(functional.silu(self.second_norm(h) * (1 + scale) + shift))
        result: Tensor = self.straight(v) + h
        return result
