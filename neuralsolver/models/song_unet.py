"""The denoising U-Net of diffusion models (Song et al. 2021, "DDPM++", as EDM uses it).

    v ↦ √½ (straight(v) + conv(σ(norm(conv(σ(norm(v))) + embedding))))        a block, σ = SiLU

over a pyramid of grids. Every output of the way down is kept and joined again on the way up. The
number c that says how much noise there is enters every block: Fourier features of c, two linear
layers, one linear map per block. At the coarsest grid a block attends to all of its points.

`patch` folds p × p points into channels before the first layer and unfolds them after the last (a
quarter of the cost for p = 2): the small size. The paper's size, 54 million weights, is the same
class with width 128, multipliers (2, 2, 2), four blocks a level and no folding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import Backbone, Convolution, places

EMBEDDING_SCALE = 4.0
"""Standard deviation of the frequencies that read the noise level c = ln(σ)/4, of order one."""


class SongUNet(Backbone):
    """Takes (batch, in_channels, n, n) and the noise levels (batch,), gives out_channels.

    n must be a multiple of patch · 2^(levels − 1). `multipliers` has one entry per level: its
    number of channels in units of `width`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        width: int = 32,
        multipliers: Sequence[int] = (1, 2, 3, 3),
        blocks: int = 1,
        patch: int = 2,
        attention: bool = True,
    ) -> None:
        super().__init__()
        self.check_arguments("in_channels", "out_channels", "width", "blocks", "patch")
        if not multipliers or min(multipliers) < 1:
            raise InvalidInput("multipliers", "one integer >= 1 per level", list(multipliers))
        self.in_channels, self.patch = in_channels, patch
        self.divisor = patch * 2 ** (len(multipliers) - 1)

        sizes = [width * multiplier for multiplier in multipliers]
        self.embedding = _NoiseEmbedding(width, 4 * width)
        self.lifting = Convolution((in_channels + 2) * patch**2, sizes[0], 3)
        self.down = nn.ModuleList()
        kept = [sizes[0]]
        channels = sizes[0]
        for level, size in enumerate(sizes):
            if level:
                self.down.append(_Block(channels, channels, 4 * width, resample="down"))
                kept.append(channels)
            for _ in range(blocks):
                self.down.append(_Block(channels, size, 4 * width))
                channels = size
                kept.append(channels)
        self.middle = nn.ModuleList(
            [
                _Block(channels, channels, 4 * width, attention=attention),
                _Block(channels, channels, 4 * width),
            ]
        )
        self.up = nn.ModuleList()
        for level, size in reversed(list(enumerate(sizes))):
            for _ in range(blocks + 1):
                self.up.append(_Block(channels + kept.pop(), size, 4 * width))
                channels = size
            if level:
                self.up.append(_Block(channels, channels, 4 * width, resample="up"))
        self.norm = _group_norm(channels)
        self.projection = Convolution(channels, out_channels * patch**2, 3, gain=1e-2)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        if (
            x.dim() != 4
            or x.shape[1] != self.in_channels
            or any(s % self.divisor for s in x.shape[2:])
        ):
            expected = (
                f"shape (batch, {self.in_channels}, n, n) with n a multiple of {self.divisor}"
            )
            raise InvalidInput("input", expected, tuple(x.shape))
        embedded = self.embedding(noise)
        x = functional.pixel_unshuffle(torch.cat([x, places(x, "zeros")], 1), self.patch)
        v = self.lifting(x.contiguous(memory_format=torch.channels_last))
        kept = [v]
        for block in self.down:
            v = block(v, embedded)
            kept.append(v)
        for block in self.middle:
            v = block(v, embedded)
        for block in self.up:
            if block.resample != "up":
                v = torch.cat([v, kept.pop()], 1)
            v = block(v, embedded)
        result: Tensor = self.projection(functional.silu(self.norm(v)))
        return functional.pixel_shuffle(result, self.patch)


class _NoiseEmbedding(nn.Module):
    """Fourier features of the noise level, then two linear layers."""

    frequencies: Tensor

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        half = features // 2
        # fixed and evenly spread instead of random: the same for every model of a width
        spread = torch.linspace(0.5 / half, 1 - 0.5 / half, half, device="cpu")
        self.register_buffer("frequencies", EMBEDDING_SCALE * torch.special.ndtri(0.5 + spread / 2))
        self.first, self.second = nn.Linear(2 * half, size), nn.Linear(size, size)

    def forward(self, noise: Tensor) -> Tensor:
        angle = math.tau * noise.to(self.frequencies)[:, None] * self.frequencies
        waves = torch.cat([angle.cos(), angle.sin()], 1)
        result: Tensor = functional.silu(self.second(functional.silu(self.first(waves))))
        return result


class _Block(nn.Module):
    """A residual block, possibly to the next grid and with attention over all of its points."""

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        embedding: int,
        *,
        resample: str = "",
        attention: bool = False,
    ) -> None:
        super().__init__()
        self.resample = resample
        self.first_norm, self.second_norm = _group_norm(fan_in), _group_norm(fan_out)
        self.first = Convolution(fan_in, fan_out, 3, gain=2.0)
        self.second = Convolution(fan_out, fan_out, 3, gain=0.1)
        self.level = nn.Linear(embedding, fan_out)
        self.straight = Convolution(fan_in, fan_out, 1) if fan_in != fan_out else nn.Identity()
        self.attention = _Attention(fan_out) if attention else nn.Identity()

    def forward(self, v: Tensor, embedded: Tensor) -> Tensor:
        inner = functional.silu(self.first_norm(v))
        if self.resample == "down":
            v, inner = functional.avg_pool2d(v, 2), functional.avg_pool2d(inner, 2)
        elif self.resample == "up":
            v, inner = _double(v), _double(inner)
        inner = self.first(inner) + self.level(embedded)[:, :, None, None]
        inner = self.second(functional.silu(self.second_norm(inner)))
        result: Tensor = self.attention((self.straight(v) + inner) * math.sqrt(0.5))
        return result


class _Attention(nn.Module):
    """One head over all points, added to what comes in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _group_norm(channels)
        self.triple = Convolution(channels, 3 * channels, 1)
        self.mix = Convolution(channels, channels, 1, gain=0.1)

    def forward(self, v: Tensor) -> Tensor:
        query, key, value = self.triple(self.norm(v)).flatten(2).transpose(1, 2).chunk(3, 2)
        attended = functional.scaled_dot_product_attention(query, key, value)
        result: Tensor = self.mix(attended.transpose(1, 2).reshape(v.shape))
        return (v + result) * math.sqrt(0.5)


def _double(v: Tensor) -> Tensor:
    return functional.interpolate(v, scale_factor=2.0, mode="nearest")


def _group_norm(channels: int) -> nn.GroupNorm:
    groups = next(g for g in range(min(32, max(1, channels // 4)), 0, -1) if channels % g == 0)
    return nn.GroupNorm(groups, channels, eps=1e-6)
