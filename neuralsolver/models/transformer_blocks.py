"""The blocks of a transformer that follows a clock.

    block    v ↦ v + A(N(v)),  then  v ↦ v + F(N(v))       A attention (attention.py)
    N(v)  =  (1 + S c) ⊙ v / rms(v)                        adaptive norm, S = 0 at first
    F(v)  =  D ( a ⊙ σ(b) ),    (a, b) = U v               feed-forward (GEGLU), σ = GELU, D = 0 at
                                                           first
    c     =  mapping( cos 2πωτ, sin 2πωτ ),    τ = ln(clock) / 4

A and F end in maps that start at zero, so every block starts as the identity, whatever the clock.
Tokens are channels last, (batch, rows, columns, width); the condition c is (batch, mapping width),
with a batch of one where the clock is the same for all samples.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.models.attention import EPSILON, SelfAttention
from neuralsolver.models.backbone import PaddingMode


def linear(fan_in: int, fan_out: int, *, zero: bool = False) -> nn.Linear:
    """A linear map without bias that keeps the variance, or one that starts at zero."""
    layer = nn.Linear(fan_in, fan_out, bias=False)
    nn.init.normal_(layer.weight, std=0.0 if zero else math.sqrt(1 / fan_in))
    return layer


def normalise(v: Tensor, scale: Tensor) -> Tensor:
    """scale ⊙ v / rms(v) over the last axis, with the rms in at least single precision."""
    precision = torch.promote_types(v.dtype, torch.float32)
    power = v.to(precision).square().mean(-1, keepdim=True)
    return v * torch.rsqrt(power + EPSILON).to(v.dtype) * scale.to(v.dtype)


class RMSNorm(nn.Module):
    """v / rms(v) times a learned scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, v: Tensor) -> Tensor:
        return normalise(v, self.scale)


class AdaptiveNorm(nn.Module):
    """v / rms(v) times a scale that follows the condition."""

    def __init__(self, width: int, mapping_width: int) -> None:
        super().__init__()
        self.scale = linear(mapping_width, width, zero=True)

    def forward(self, v: Tensor, condition: Tensor) -> Tensor:
        return normalise(v, 1 + self.scale(condition)[:, None, None])


class FeedForward(nn.Module):
    """D (a ⊙ σ(b)) with a and b from one product, at each token."""

    def __init__(self, width: int, factor: int) -> None:
        super().__init__()
        self.up = linear(width, 2 * factor * width)
        self.down = linear(factor * width, width, zero=True)

    def forward(self, v: Tensor) -> Tensor:
        a, b = self.up(v).chunk(2, -1)
        result: Tensor = self.down(a * functional.gelu(b))
        return result


class Mapping(nn.Module):
    """A clock (batch, 1) to the condition (batch, width): Fourier features, residual GEGLUs."""

    frequencies: Tensor

    def __init__(self, width: int, depth: int, factor: int) -> None:
        super().__init__()
        # the quantiles of |N(0, 1)|: spread as the usual random frequencies, but always the same
        half = torch.arange(width // 2, dtype=torch.float64, device="cpu")
        levels = 0.5 + (half + 0.5) / width
        frequencies = torch.special.ndtri(levels).to(torch.get_default_dtype())
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.lifting = linear(width, width)
        self.first, self.last = RMSNorm(width), RMSNorm(width)
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(FeedForward(width, factor) for _ in range(depth))

    def forward(self, clock: Tensor) -> Tensor:
        angle = 2 * math.pi * self.frequencies * (clock.log() / 4)
        c = self.first(self.lifting(torch.cat([angle.cos(), angle.sin()], -1)))
        for norm, layer in zip(self.norms, self.layers, strict=True):
            c = c + layer(norm(c))
        result: Tensor = self.last(c)
        return result


class Block(nn.Module):
    """v + A(N(v)), then v + F(N(v)). `attention` are head width, kernel and padding mode."""

    def __init__(
        self,
        width: int,
        *,
        attention: tuple[int, int | None, PaddingMode],
        feedforward: int,
        mapping_width: int,
    ) -> None:
        super().__init__()
        self.attention_norm = AdaptiveNorm(width, mapping_width)
        self.attention = SelfAttention(width, *attention)
        self.feedforward_norm = AdaptiveNorm(width, mapping_width)
        self.feedforward = FeedForward(width, feedforward)

    def forward(self, v: Tensor, condition: Tensor) -> Tensor:
        v = v + self.attention(self.attention_norm(v, condition))
        result: Tensor = v + self.feedforward(self.feedforward_norm(v, condition))
        return result


class Blocks(nn.ModuleList):
    """The blocks of one level, one after the other."""

    def __init__(self, width: int, depth: int, **choices: Any) -> None:
        super().__init__(Block(width, **choices) for _ in range(depth))

    def forward(self, v: Tensor, condition: Tensor) -> Tensor:
        for block in self:
            v = block(v, condition)
        return v
