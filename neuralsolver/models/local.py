"""Local layers shared by the backbones: convolutions that keep the grid, and grid coordinates.

Between walls a convolution sees zeros outside and coordinates run from 0 to 1 inclusive, because
the first and the last point lie on the wall. On the torus (padding mode "circular") it sees the
other side, and a coordinate is an angle. Time, the first axis of a field of three
dimensions, always has walls: a trajectory begins and ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput

PaddingMode = Literal["zeros", "circular"]


def check_choice(field: str, value: str, choices: Sequence[str]) -> None:
    """Raise InvalidInput unless `value` is one of `choices`."""
    if value not in choices:
        raise InvalidInput(field, "one of " + ", ".join(map(repr, choices)), repr(value))


def check_positive(field: str, value: int) -> None:
    """Raise InvalidInput unless `value` is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(field, "an integer >= 1", repr(value))


def coordinate_channels(dimension: int, padding_mode: PaddingMode) -> int:
    """The number of channels of `places`."""
    return dimension + 2 if padding_mode == "circular" else dimension


def places(x: Tensor, padding_mode: PaddingMode) -> Tensor:
    """Where the points of x (batch, channels, *grid) are, as channels (batch, …, *grid).

    Between walls an axis is one channel in [0, 1]. On the torus that would jump, so a direction in
    space is its cosine and sine. The first of three axes is time, which always has two ends.
    """
    grid = x.shape[2:]
    channels = []
    for axis, n in enumerate(grid):
        shape = [-1 if a == axis else 1 for a in range(len(grid))]
        count = torch.arange(n, dtype=x.dtype, device=x.device).reshape(shape).expand(grid)
        if padding_mode == "circular" and not (len(grid) == 3 and axis == 0):
            angle = (2 * math.pi / n) * count
            channels += [angle.cos(), angle.sin()]
        else:
            channels.append(count / max(n - 1, 1))
    return torch.stack(channels).expand(x.shape[0], -1, *grid)


class Convolution(nn.Module):
    """A convolution of odd kernel size that keeps the grid, between walls or on the torus.

    `gain` is the variance gain: 1 after a linear layer, 2 after a GELU, which halves the variance.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        dimension: int = 2,
        stride: int = 1,
        padding_mode: PaddingMode = "zeros",
        gain: float = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise InvalidInput("kernel_size", "an odd number >= 1", kernel_size)
        half = kernel_size // 2
        circular = padding_mode == "circular" and half > 0
        # the innermost axis comes first in functional.pad; time is never wrapped around
        self.wrap = [half, half] * 2 + [0, 0] * (dimension - 2) if circular else []
        padding: Any = (half,) * (dimension - 2) + (0 if circular else half,) * 2
        kind: type[nn.Conv2d] | type[nn.Conv3d] = nn.Conv2d if dimension == 2 else nn.Conv3d
        self.convolution = kind(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        fan_in = in_channels * kernel_size**dimension
        nn.init.normal_(self.convolution.weight, std=math.sqrt(gain / fan_in))
        if self.convolution.bias is not None:
            nn.init.zeros_(self.convolution.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.wrap:
            x = functional.pad(x, self.wrap, mode="circular")
        if _misjudged(x):
            kind = self.convolution
            sizes: Any = (kind.padding, kind.stride, kind.dilation, kind.groups)
            return torch.mkldnn_convolution(x, kind.weight, kind.bias, *sizes)
        result: Tensor = self.convolution(x)
        return result


def _misjudged(x: Tensor) -> bool:
    """Whether torch would not give a field to oneDNN though it should.

    It takes a single sample for too small when the product of its first four sizes is at most
    20,480, of which a box has five: a convolution at 32³ points then takes twelve times as long.
    """
    if torch.compiler.is_compiling():  # a compiler chooses by itself
        return False
    small = x.shape[0] == 1 and math.prod(x.shape[1:4]) <= 20480
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() > 4096
    library: Any = torch.backends.mkldnn
    usable = library.is_available() and library.enabled
    return bool(small and plain and usable and not torch.is_autocast_enabled("cpu"))
