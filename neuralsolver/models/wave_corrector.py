"""The network that corrects a wave.

    u ← u + a u₀ + b u + c g + d

with the linear solution u₀, the preconditioned residual g and four complex fields a, b, c, d that a
U-Net gives. It reads u, g and u₀ themselves and what does not change with a global phase: the
products u ū₀ and g ū₀ and the squares of all three. Where waves run one way these products are
smooth although the waves oscillate, so the U-Net works on a grid of half as many points a side, on
which a block of 2 x 2 points is one point of four times the channels. It then costs about as much
as one sparse factorisation.

The U-Net has residual convolution blocks over a pyramid of grids:

    down:  v ↦ blocks(v), kept as skip; then a convolution of stride 2 halves the grid
    up:    interpolate to the size of the skip, join with it, blocks

Each level has two residual blocks v + conv(σ(conv(σ(v)))), σ = GELU, no normalisation: the
wide-residual U-Net that operator-learning benchmarks use. Sizes need not be powers of two: a grid
of n points is halved to ceil(n / 2), and the way up takes its size from the skip.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import (
    Backbone,
    Convolution,
    PaddingMode,
    coordinate_channels,
    places,
    zeroed,
)

IN_CHANNELS = 9
"""Real and imaginary parts of u, g and u₀; medium, layer and ε."""


class WaveCorrector(Backbone):
    """Takes (batch, 9, n, m), gives the correction (batch, 2, n, m).

    Args:
        width: Channels of the U-Net's first level.
        multipliers: Channels of each level in units of `width`.
    """

    def __init__(self, *, width: int = 32, multipliers: Sequence[int] = (1, 2, 2, 2)) -> None:
        super().__init__()
        self.unet = UNet(
            17 * 4,
            8 * 4,
            width=width,
            multipliers=multipliers,
            coordinates=False,
            zero_output=True,
        )

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != IN_CHANNELS:
            raise InvalidInput("input", f"shape (batch, {IN_CHANNELS}, n, m)", tuple(x.shape))
        u, g, linear = x[:, 0:2], x[:, 2:4], x[:, 4:6]
        intensity = u.square().sum(1, keepdim=True)
        invariant = [
            _product(u, linear, conjugate=True),
            _product(g, linear, conjugate=True),
            intensity,
            g.square().sum(1, keepdim=True),
            linear.square().sum(1, keepdim=True),
            intensity * x[:, 8:9],
        ]
        rows, columns = x.shape[2:]
        channels = functional.pad(torch.cat([x, *invariant], 1), (0, columns % 2, 0, rows % 2))
        blocks = self.unet(functional.pixel_unshuffle(channels, 2))
        out = functional.pixel_shuffle(blocks, 2)[:, :, :rows, :columns]
        change = _product(out[:, 0:2], linear) + _product(out[:, 2:4], u)
        return change + _product(out[:, 4:6], g) + out[:, 6:8]


def _product(a: Tensor, b: Tensor, *, conjugate: bool = False) -> Tensor:
    """a b or a b̄ of complex fields in two channels."""
    sign = -1.0 if conjugate else 1.0
    real = a[:, 0] * b[:, 0] - sign * a[:, 1] * b[:, 1]
    imaginary = a[:, 1] * b[:, 0] + sign * a[:, 0] * b[:, 1]
    return torch.stack([real, imaginary], 1)


class UNet(Backbone):
    """Takes (batch, in_channels, n, n), gives (batch, out_channels, n, n), n >= 2^levels.

    `multipliers` has one entry per level: its number of channels in units of `width`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        width: int = 32,
        multipliers: Sequence[int] = (1, 2, 2, 4),
        padding_mode: PaddingMode = "zeros",
        coordinates: bool = True,
        zero_output: bool = False,
    ) -> None:
        super().__init__()
        self.check_arguments("in_channels", "out_channels", "width")
        if not multipliers or min(multipliers) < 1:
            raise InvalidInput("multipliers", "one integer >= 1 per level", list(multipliers))
        self.padding_mode: PaddingMode = padding_mode
        self.coordinates = coordinates
        self.smallest = 2 ** (len(multipliers) - 1)

        sizes = [width * multiplier for multiplier in multipliers]
        first = in_channels + (coordinate_channels(2, padding_mode) if coordinates else 0)
        self.lifting = Convolution(first, width, 3, padding_mode=padding_mode)
        self.down = nn.ModuleList()
        self.halve = nn.ModuleList()
        channels = width
        for level, size in enumerate(sizes):
            if level:
                self.halve.append(
                    Convolution(channels, channels, 3, stride=2, padding_mode=padding_mode)
                )
            self.down.append(_blocks(channels, size, padding_mode))
            channels = size
        self.up = nn.ModuleList()
        for size in reversed(sizes[:-1]):
            self.up.append(_blocks(channels + size, size, padding_mode))
            channels = size
        self.projection = Convolution(channels, out_channels, 3, padding_mode=padding_mode, gain=2)
        if zero_output:
            zeroed(self.projection)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, smallest=self.smallest)
        if self.coordinates:
            x = torch.cat([x, places(x, self.padding_mode)], 1)
        v = self.lifting(x.contiguous(memory_format=torch.channels_last))
        skips: list[Tensor] = []
        for level, blocks in enumerate(self.down):
            if level:
                v = self.halve[level - 1](v)
            v = blocks(v)
            skips.append(v)
        skips.pop()
        for blocks in self.up:
            skip = skips.pop()
            v = functional.interpolate(v, size=skip.shape[2:], mode="nearest")
            v = blocks(torch.cat([v, skip], 1))
        result: Tensor = self.projection(functional.gelu(v))
        return result


def _blocks(fan_in: int, fan_out: int, padding_mode: PaddingMode) -> nn.Sequential:
    return nn.Sequential(
        _Block(fan_in, fan_out, padding_mode), _Block(fan_out, fan_out, padding_mode)
    )


class _Block(nn.Module):
    """v + conv(σ(conv(σ(v)))), with a linear map on the straight way where channels change.

    The second convolution starts small, so that a deep stack of blocks starts close to one of
    straight ways and its output keeps the size of its input.
    """

    def __init__(self, fan_in: int, fan_out: int, padding_mode: PaddingMode) -> None:
        super().__init__()
        self.first = Convolution(fan_in, fan_out, 3, padding_mode=padding_mode, gain=2.0)
        self.second = Convolution(fan_out, fan_out, 3, padding_mode=padding_mode, gain=0.1)
        self.straight = Convolution(fan_in, fan_out, 1) if fan_in != fan_out else nn.Identity()

    def forward(self, v: Tensor) -> Tensor:
        inner = self.second(functional.gelu(self.first(functional.gelu(v))))
        result: Tensor = self.straight(v) + inner
        return result
