"""Fourier neural operator, with pointwise or convolutional lifting and projection.

    v_0     = P(a, x)                                  lifting: channels to width
    v_{l+1} = σ( W_l v_l + b_l + K_l v_l ),            σ = GELU, the identity after the last layer
    u       = Q(v_L)                                   projection: width to channels

K_l is the spectral convolution, W_l acts at each point, x are the coordinates of the grid.
"pointwise": P is linear, Q is width -> 2 width -> out with a GELU between (Li et al. 2021).
"cnn": P and Q are `cnn_layers` convolutions with GELUs between, the last of them 1 × 1; this is the
backbone of the ENS paper (3 layers of kernel 3; Darcy: 5 layers of kernel 5).
The four combinations are FNO, CNN-FNO, FNO-CNN and CNN-FNO-CNN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import (
    Backbone,
    Convolution,
    PaddingMode,
    check_choice,
    coordinate_channels,
    places,
    zeroed,
)
from neuralsolver.models.spectral import SpectralConvolution

Kind = Literal["pointwise", "cnn"]


class FNO(Backbone):
    """Takes (batch, in_channels, *grid), gives (batch, out_channels, *grid), on any grid.

    The grid is (n, n) for two entries in `max_wavenumber`, (time, n, n) for three. A trajectory is
    not periodic in time: `time_padding` zero frames are appended for the spectral layers.
    `zero_output` starts the network as the zero function: a corrector that begins by doing nothing.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        width: int = 64,
        layers: int = 4,
        max_wavenumber: Sequence[int] = (10, 10),
        lifting: Kind = "pointwise",
        projection: Kind = "pointwise",
        kernel_size: int = 3,
        cnn_layers: int = 3,
        padding_mode: PaddingMode = "zeros",
        coordinates: bool = True,
        time_padding: int = 0,
        zero_output: bool = False,
    ) -> None:
        super().__init__()
        self.check_arguments("in_channels", "out_channels", "width", "layers", "cnn_layers")
        check_choice("lifting", lifting, ("pointwise", "cnn"))
        check_choice("projection", projection, ("pointwise", "cnn"))
        dimension = len(max_wavenumber)
        if dimension not in (2, 3):
            raise InvalidInput("max_wavenumber", "two or three integers", list(max_wavenumber))
        if time_padding < 0 or (time_padding and dimension == 2):
            raise InvalidInput("time_padding", "0, or frames of a trajectory", time_padding)
        self.dimension = dimension
        self.time_padding = time_padding
        self.padding_mode: PaddingMode = padding_mode
        self.coordinates = coordinates

        extra = coordinate_channels(dimension, padding_mode) if coordinates else 0
        first = in_channels + extra
        cnn: Any = {
            "dimension": dimension,
            "kernel_size": kernel_size,
            "padding_mode": padding_mode,
        }
        self.lifting: nn.Module
        if lifting == "cnn":
            self.lifting = _Convolutions([first] + [width] * cnn_layers, gain=1.0, **cnn)
        else:
            self.lifting = _Pointwise([first, width], gain=1.0)
        self.blocks = nn.ModuleList(_Layer(width, max_wavenumber) for _ in range(layers))
        self.projection: nn.Module
        if projection == "cnn":
            self.projection = _Convolutions([width] * cnn_layers + [out_channels], **cnn)
        else:
            self.projection = _Pointwise([width, 2 * width, out_channels])
        if zero_output:
            zeroed(list(self.projection.children())[-1])

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, self.dimension)
        if self.coordinates:
            x = torch.cat([x, places(x, self.padding_mode)], 1)
        v: Tensor = self.lifting(x.movedim(1, -1))
        if self.time_padding:
            v = functional.pad(v, (0, 0, 0, 0, 0, 0, 0, self.time_padding))
        for index, block in enumerate(self.blocks):
            if index:
                v = functional.gelu(v)
            v = block(v)
        if self.time_padding:
            v = v[:, : x.shape[2]]
        result: Tensor = self.projection(v)
        return result.movedim(-1, 1)


class _Layer(nn.Module):
    """v ↦ W v + b + K v. Both branches keep the variance, and the GELU halves their sum."""

    def __init__(self, width: int, max_wavenumber: Sequence[int]) -> None:
        super().__init__()
        self.spectral = SpectralConvolution(width, width, max_wavenumber)
        self.pointwise = nn.Linear(width, width)
        nn.init.normal_(self.pointwise.weight, std=math.sqrt(1 / width))
        nn.init.zeros_(self.pointwise.bias)

    def forward(self, v: Tensor) -> Tensor:
        return self.spectral.with_linear(v, self.pointwise.weight, self.pointwise.bias)


class _Pointwise(nn.Sequential):
    """Linear maps at each point with GELUs between, channels last."""

    def __init__(self, channels: Sequence[int], gain: float = 1.0) -> None:
        modules: list[nn.Module] = []
        for index, (fan_in, fan_out) in enumerate(pairwise(channels)):
            if index:
                modules.append(nn.GELU())
            linear = nn.Linear(fan_in, fan_out)
            nn.init.normal_(linear.weight, std=math.sqrt((2.0 if index else gain) / fan_in))
            nn.init.zeros_(linear.bias)
            modules.append(linear)
        super().__init__(*modules)


class _Convolutions(nn.Sequential):
    """Convolutions with GELUs between, the last one 1 × 1. Channels last in and out."""

    def __init__(
        self,
        channels: Sequence[int],
        gain: float = 1.0,
        *,
        dimension: int,
        kernel_size: int,
        padding_mode: PaddingMode,
    ) -> None:
        modules: list[nn.Module] = []
        pairs = list(pairwise(channels))
        for index, (fan_in, fan_out) in enumerate(pairs):
            if index:
                modules.append(nn.GELU())
            modules.append(
                Convolution(
                    fan_in,
                    fan_out,
                    1 if index == len(pairs) - 1 else kernel_size,
                    dimension=dimension,
                    padding_mode=padding_mode,
                    gain=2.0 if index else gain,
                )
            )
        super().__init__(*modules)

    def forward(self, v: Tensor) -> Tensor:
        # a channels-last field seen with its channels first is torch's channels_last format: the
        # convolutions take and return it without a copy, and are fastest with it
        v = v.contiguous().movedim(-1, 1)
        for module in self:
            v = module(v)
        return v.movedim(1, -1)
