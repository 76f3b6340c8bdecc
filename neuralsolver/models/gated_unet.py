"""A U-Net that is linear in one of its inputs and shaped by the others.

An approximate inverse of a linear operator is linear in the residual r, but depends in an involved
way on what the operator depends on: the shape of a domain, a coefficient. So there are two nets
over the same pyramid of grids. One reads the conditions c, with nonlinearities, and answers with
gates G at every point of every grid; the other carries the residual, with convolutions K and
products with these gates, and nothing else:

    down    v ← v + K (G₂ ⊙ K (G₁ ⊙ v)),  kept;  then a convolution of stride 2 halves the grid
    up      v ← kept + K (v interpolated),  v ← v + K (G₄ ⊙ K (G₃ ⊙ v))

y(c, αr + βs) = αy(c, r) + βy(c, s): twice the residual gives twice the correction, whatever the
weights are. The gates of a problem are computed once (`prepare`) for any number of residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import (
    Backbone,
    Convolution,
    PaddingMode,
    check_positive,
    coordinate_channels,
    places,
    zeroed,
)

GATES = 4
Gates = list[tuple[Tensor, ...]]


class GatedUNet(Backbone):
    """Takes (batch, in_channels, n, n), gives (batch, out_channels, n, n), n >= 2^levels.

    The last of the channels is the one in which it is linear. `widths` are the channels of each
    level, the finest first.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        widths: Sequence[int] = (12, 16, 24, 32, 32, 32),
        padding_mode: PaddingMode = "zeros",
        coordinates: bool = False,
        zero_output: bool = False,
    ) -> None:
        super().__init__()
        check_positive("in_channels", in_channels - 1)
        self.check_arguments("out_channels")
        if not widths or min(widths) < 1:
            raise InvalidInput("widths", "one integer >= 1 per level", list(widths))
        self.coordinates = coordinates
        self.padding_mode: PaddingMode = padding_mode
        self.smallest = 2 ** (len(widths) - 1)

        def convolution(fan_in: int, fan_out: int, **more: Any) -> Convolution:
            return Convolution(fan_in, fan_out, 3, padding_mode=padding_mode, **more)

        places = coordinate_channels(2, padding_mode) if coordinates else 0
        self.conditions = _Conditions(in_channels - 1 + places, widths, convolution)

        def linear(fan_in: int, fan_out: int, stride: int = 1) -> Convolution:
            return convolution(fan_in, fan_out, stride=stride, bias=False)

        steps = list(pairwise(widths))
        self.lifting = linear(1, widths[0])
        self.down = nn.ModuleList(_Block(width, linear) for width in widths)
        self.halve = nn.ModuleList(linear(fine, coarse, 2) for fine, coarse in steps)
        self.raise_ = nn.ModuleList(linear(coarse, fine) for fine, coarse in steps)
        self.up = nn.ModuleList(_Block(width, linear) for width in widths[:-1])
        self.projection = linear(widths[0], out_channels)
        if zero_output:
            zeroed(self.projection)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, smallest=self.smallest)
        return self._answer(self._gates(x[:, :-1]), x[:, -1:])

    def prepare(self, conditions: Tensor) -> Callable[[Tensor], Tensor]:
        """The linear map that all channels but the last determine."""
        gates = self._gates(conditions)
        return lambda signal: self._answer(gates, signal)

    def _gates(self, conditions: Tensor) -> Gates:
        if self.coordinates:
            conditions = torch.cat([conditions, places(conditions, self.padding_mode)], 1)
        found: Gates = self.conditions(conditions.contiguous(memory_format=torch.channels_last))
        return found

    def _answer(self, gates: Gates, signal: Tensor) -> Tensor:
        v = self.lifting(signal.contiguous(memory_format=torch.channels_last))
        skips: list[Tensor] = []
        for level, block in enumerate(self.down):
            if level:
                v = self.halve[level - 1](v)
            v = block(v, gates[level][:2])
            skips.append(v)
        skips.pop()
        for level in range(len(skips) - 1, -1, -1):
            finer = functional.interpolate(v, size=skips[level].shape[2:], mode="nearest")
            v = self.up[level](skips[level] + self.raise_[level](finer), gates[level][2:])
        result: Tensor = self.projection(v)
        return result


class _Block(nn.Module):
    """v + K (G₂ ⊙ K (G₁ ⊙ v))."""

    def __init__(self, width: int, linear: Callable[[int, int], Convolution]) -> None:
        super().__init__()
        self.first, self.second = linear(width, width), linear(width, width)

    def forward(self, v: Tensor, gates: tuple[Tensor, ...]) -> Tensor:
        result: Tensor = v + self.second(gates[1] * self.first(gates[0] * v))
        return result


class _Conditions(nn.Module):
    """The net that reads the conditions, and answers with the gates of every level, around one."""

    def __init__(
        self, channels: int, widths: Sequence[int], convolution: Callable[..., Convolution]
    ) -> None:
        super().__init__()
        self.lifting = convolution(channels, widths[0])
        self.down = nn.ModuleList(convolution(width, width, gain=2.0) for width in widths)
        steps = list(pairwise(widths))
        self.halve = nn.ModuleList(convolution(a, b, stride=2, gain=2.0) for a, b in steps)
        self.up = nn.ModuleList(convolution(a + b, a, gain=2.0) for a, b in steps)
        self.gates = nn.ModuleList(Convolution(w, GATES * w, 1, gain=1 / 3) for w in widths)

    def forward(self, conditions: Tensor) -> Gates:
        v, skips = self.lifting(conditions), []
        for level, convolution in enumerate(self.down):
            if level:
                v = self.halve[level - 1](functional.gelu(v))
            v = v + convolution(functional.gelu(v))
            skips.append(v)
        found = [self._read(len(skips) - 1, v)]
        for level in range(len(skips) - 2, -1, -1):
            finer = functional.interpolate(v, size=skips[level].shape[2:], mode="nearest")
            both = functional.gelu(torch.cat([finer, skips[level]], 1))
            v = skips[level] + self.up[level](both)
            found.append(self._read(level, v))
        return found[::-1]

    def _read(self, level: int, v: Tensor) -> tuple[Tensor, ...]:
        gates: Tensor = 1.0 + self.gates[level](functional.gelu(v))
        return gates.chunk(GATES, 1)
