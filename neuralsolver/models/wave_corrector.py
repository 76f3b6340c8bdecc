"""The network that corrects a wave.

    u ← u + a u₀ + b u + c g + d

with the linear solution u₀, the preconditioned residual g and four complex fields a, b, c, d that a
U-Net gives. It reads u, g and u₀ themselves and what does not change with a global phase: the
products u ū₀ and g ū₀ and the squares of all three. Where waves run one way these products are
smooth although the waves oscillate, so the U-Net works on a grid of half as many points a side, on
which a block of 2 x 2 points is one point of four times the channels. It then costs about as much
as one sparse factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import Backbone
from neuralsolver.models.unet import UNet

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
