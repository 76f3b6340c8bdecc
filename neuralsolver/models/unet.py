"""U-Net: residual convolution blocks over a pyramid of grids.

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
from neuralsolver.models.backbone import Backbone
from neuralsolver.models.local import (
    Convolution,
    PaddingMode,
    check_choice,
    check_positive,
    coordinate_channels,
    places,
)


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
        for field in ("in_channels", "out_channels", "width"):
            check_positive(field, self.arguments[field])
        check_choice("padding_mode", padding_mode, ("zeros", "circular"))
        if not multipliers or min(multipliers) < 1:
            raise InvalidInput("multipliers", "one integer >= 1 per level", list(multipliers))
        self.in_channels = in_channels
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
            for parameter in self.projection.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.in_channels or min(x.shape[2:]) < self.smallest:
            expected = f"shape (batch, {self.in_channels}, n, n) with n >= {self.smallest}"
            raise InvalidInput("input", expected, tuple(x.shape))
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
