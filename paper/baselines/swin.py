"""Blocks of a Swin transformer of the second kind whose norms follow a clock.

    block     v ↦ v + N(A(v)),   then   v ↦ v + N(F(v))          the norm comes after the branch
    A(v)   =  W softmax(τ q̂·k̂ + B) V,   q̂ = q/‖q‖, k̂ = k/‖k‖     inside windows of w × w tokens
    B      =  16 σ(M(ℓ(Δ₁), ℓ(Δ₂)))                              M a small network of the distance Δ
    ℓ(Δ)   =  sign Δ log₂(1 + 8|Δ|/(w−1)) / 3
    F(v)   =  D gelu(U v)
    N(v)   =  s(t) ⊙ (v − mean v)/(var v + ε)^½ + b(t)            s, b affine in the lead time t

The temperature τ is learned for each head, 10 at first and at most 100. Every second block shifts
the windows by half of one; tokens that only the shift has brought together from opposite sides do
not see each other. A grid no larger than a window is one window and is not shifted.

Tokens are channels last, (batch, rows, columns, width); the time is (batch, 1).
(Liu et al. 2022; with the clock Herde et al. 2024.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5
HIDDEN = 512
"""Width of the network that makes position biases."""
LARGEST_BIAS = 16.0
FIRST_TEMPERATURE, LARGEST_TEMPERATURE = 10.0, 100.0
SPREAD = 0.02
"""Standard deviation of weights at first, as usual for these transformers."""


def small(layer: nn.Module) -> nn.Module:
    """The layer with small random weights and no bias at first."""
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.trunc_normal_(parameter, std=SPREAD)
    return layer


class TimeNorm(nn.Module):
    """A layer norm whose scale and shift are affine functions of the time.

    `first` is the scale it begins with: 1 in the main path, small at the end of a branch, so that
    a block begins close to the identity.
    """

    def __init__(self, width: int, first: float = 1.0) -> None:
        super().__init__()
        self.scale = small(nn.Linear(1, width))
        self.shift = small(nn.Linear(1, width))
        nn.init.constant_(self.scale.bias, first)  # type: ignore[arg-type]

    def forward(self, v: Tensor, time: Tensor) -> Tensor:
        shape = (len(time), *[1] * (v.dim() - 2), v.shape[-1])
        normal = functional.layer_norm(v, v.shape[-1:], eps=EPSILON)
        return torch.addcmul(self.shift(time).view(shape), self.scale(time).view(shape), normal)


class WindowAttention(nn.Module):
    """Cosine attention of the tokens of a window with each other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(FIRST_TEMPERATURE)))
        self.position = nn.Sequential(
            small(nn.Linear(2, HIDDEN)), nn.ReLU(), small(nn.Linear(HIDDEN, heads, bias=False))
        )
        self.query = small(nn.Linear(width, width))
        self.key = small(nn.Linear(width, width, bias=False))
        self.value = small(nn.Linear(width, width))
        self.output = small(nn.Linear(width, width))

    def forward(self, windows: Tensor, apart: Tensor | None) -> Tensor:
        """Windows are (count, w², width); `apart` (windows of a sample, w², w²) is hidden."""
        count, tokens, _ = windows.shape
        q, k, v = (
            layer(windows).view(count, tokens, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        temperature = self.logit_scale.clamp(max=math.log(LARGEST_TEMPERATURE)).exp()
        q, k = functional.normalize(q, dim=-1) * temperature, functional.normalize(k, dim=-1)
        logits = q @ k.transpose(-1, -2) + self.position_bias(math.isqrt(tokens))
        if apart is not None:
            sample = logits.view(-1, len(apart), *logits.shape[1:])
            logits = sample.masked_fill(apart[:, None], -torch.inf).view_as(logits)
        mixed = logits.softmax(-1) @ v
        result: Tensor = self.output(mixed.transpose(1, 2).reshape(count, tokens, -1))
        return result

    def position_bias(self, side: int) -> Tensor:
        """B as (heads, side², side²): what two tokens add for how they lie to each other."""
        distance, place = _distances(side, self.logit_scale)
        bias = LARGEST_BIAS * torch.sigmoid(self.position(distance))
        return bias.T[:, place]


def _distances(side: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """All ℓ(Δ) that occur in a window, as ((2 side − 1)², 2), and which of them a pair has."""
    steps = torch.arange(1 - side, side, device=like.device)
    near = 8 * steps.to(like) / max(1, side - 1)
    logarithm = near.sign() * torch.log2(1 + near.abs()) / 3
    table = torch.stack(torch.meshgrid(logarithm, logarithm, indexing="ij"), -1).flatten(0, 1)
    line = torch.arange(side, device=like.device)
    row, column = (axis.flatten() for axis in torch.meshgrid(line, line, indexing="ij"))
    apart = [axis[:, None] - axis[None, :] + side - 1 for axis in (row, column)]
    return table, apart[0] * (2 * side - 1) + apart[1]


class SwinBlock(nn.Module):
    """Attention in windows and a feed-forward network, each with its norm after it."""

    def __init__(self, width: int, heads: int, window: int, shift: int, expansion: int) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.attention = WindowAttention(width, heads)
        self.attention_norm = TimeNorm(width, SPREAD)
        self.up = small(nn.Linear(width, expansion * width))
        self.down = small(nn.Linear(expansion * width, width))
        self.feedforward_norm = TimeNorm(width, SPREAD)

    def forward(self, v: Tensor, time: Tensor) -> Tensor:
        v = v + self.attention_norm(self._attended(v), time)
        fed: Tensor = self.feedforward_norm(self.down(functional.gelu(self.up(v))), time)
        return v + fed

    def _attended(self, v: Tensor) -> Tensor:
        rows, columns = v.shape[1:3]
        window = min(self.window, rows)
        shift = self.shift if rows > window else 0
        if not shift:
            mixed = self.attention(partition(v, window), None)
            return unite(mixed, rows, columns)
        shifted = torch.roll(v, (-shift, -shift), (1, 2))
        apart = sides_apart(rows, columns, window, shift).to(v.device)
        mixed = self.attention(partition(shifted, window), apart)
        return torch.roll(unite(mixed, rows, columns), (shift, shift), (1, 2))


def partition(v: Tensor, window: int) -> Tensor:
    """(batch, rows, columns, width) to windows (batch · count, window², width), row by row."""
    batch, rows, columns, width = v.shape
    v = v.view(batch, rows // window, window, columns // window, window, width)
    return v.transpose(2, 3).reshape(-1, window**2, width)


def unite(windows: Tensor, rows: int, columns: int) -> Tensor:
    """The way back of `partition`."""
    _, tokens, width = windows.shape
    side = math.isqrt(tokens)
    v = windows.view(-1, rows // side, columns // side, side, side, width)
    return v.transpose(2, 3).reshape(-1, rows, columns, width)


def sides_apart(rows: int, columns: int, window: int, shift: int) -> Tensor:
    """For every window of a shifted grid which pairs of its tokens come from opposite sides."""
    wrapped = [torch.arange(n) >= n - shift for n in (rows, columns)]
    side = 2 * wrapped[0][:, None].long() + wrapped[1][None, :].long()
    inside = partition(side[None, :, :, None], window)[..., 0]
    return inside[:, :, None] != inside[:, None, :]
