"""scOT, the scalable operator transformer: a U-shaped Swin transformer that is told a lead time.

    v_0      = N( E a )                            p × p points to one token
    s_l      = blocks_l(v_l)                       way in, levels l = 0 … L−1, width 2^l E
    v_{l+1}  = N( M (v_l + s_l) )                  four tokens to one
    z_{L−1}  = blocks(s_{L−1})                     way out
    z_l      = blocks( S z_{l+1} + C_l(s_l) )      one token to four; skips through ConvNeXt blocks
    u        = X R z_0                             one token to p × p points, a 5 × 5 convolution

    C(s) = s + γ ⊙ D gelu( U N(K s) )              K a 7 × 7 convolution of each channel by itself

All norms N follow the time (swin.py). The network has a grid of its own: fields on another one are
brought to it, and the answer back, by cutting or padding their Fourier coefficients as if they were
periodic. On a finer grid the answer thus has the modes of its own grid and no others; between walls
the jump from one wall to the other rings (Gibbs). Windows and convolutions end at the edges of the
grid, on the torus too, because the published network's do.

(Herde et al. 2024, POSEIDON. `SIZES` are the published ones; their weights are read by
poseidon_weights.py.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import check_positive
from paper.baselines.swin import SwinBlock, TimeNorm, small

LAYER_SCALE = 1e-6
"""γ of a skip at first: it begins as the identity."""
SIZES: dict[str, dict[str, Any]] = {
    "T": {"width": 48, "depths": [4, 4, 4, 4]},
    "B": {"width": 96, "depths": [8, 8, 8, 8]},
    "L": {"width": 192, "depths": [8, 8, 8, 8]},
}
"""What the published sizes change in the defaults of `ScOT`; they have 4 channels in and out."""


class ScOT(nn.Module):
    """Takes (batch, in_channels, n, n) and a time for each, gives (batch, out_channels, n, n).

    `image_size` is its own grid. `width` is that of the finest level; every level has its entry in
    `depths`, `heads` and `skips`, the ConvNeXt blocks of its skip (none at the last, which has no
    skip). `expansion` is the inner width of the feed-forward networks in units of the width.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        image_size: int = 128,
        patch: int = 4,
        width: int = 48,
        depths: Sequence[int] = (4, 4, 4, 4),
        heads: Sequence[int] = (3, 6, 12, 24),
        skips: Sequence[int] = (2, 2, 2, 0),
        window: int = 16,
        expansion: int = 4,
    ) -> None:
        super().__init__()
        sizes = {"image_size": image_size, "patch": patch, "width": width, "window": window}
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        _check({**sizes, **channels, "expansion": expansion}, depths, heads)
        if len(skips) != len(depths) or skips[-1] != 0:
            raise InvalidInput("skips", "one number for each level, 0 for the last", list(skips))
        self.in_channels, self.image_size = in_channels, image_size
        self.lifting = nn.Conv2d(in_channels, width, patch, patch)
        self.lifting_norm = TimeNorm(width)
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        self.merge, self.split, self.skips = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for level, (depth, count) in enumerate(zip(depths, heads, strict=True)):
            wide = width * 2**level
            shifts = [window // 2 * (number % 2) for number in range(depth)]
            block = (wide, count, window)
            self.encoder.append(
                nn.ModuleList(SwinBlock(*block, shift, expansion) for shift in shifts)
            )
            # on the way out the order of the blocks is turned round too: the first one is shifted
            self.decoder.append(
                nn.ModuleList(SwinBlock(*block, shift, expansion) for shift in reversed(shifts))
            )
            self.skips.append(nn.ModuleList(ConvNeXt(wide) for _ in range(skips[level])))
            if level + 1 < len(depths):
                self.merge.append(Merge(wide))
                self.split.append(Split(2 * wide))
        self.recovery = nn.ConvTranspose2d(width, out_channels, patch, patch)
        self.mixup = nn.Conv2d(out_channels, out_channels, 5, padding=2, bias=False)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The field; `time` has one number for each sample."""
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            shape = f"shape (batch, {self.in_channels}, n, n)"
            raise InvalidInput("input", shape, tuple(x.shape))
        if time.shape != (len(x),):
            raise InvalidInput("time", f"one number for each of {len(x)} samples", time.shape)
        grid, time = tuple(x.shape[2:]), time.to(x)[:, None]
        x = resampled(x, (self.image_size, self.image_size))
        v = self.lifting_norm(self.lifting(x).movedim(1, -1), time)
        ways: list[Tensor] = []
        for level, blocks in enumerate(self.encoder):
            s = _through(blocks, v, time)
            if level < len(self.merge):
                v = self.merge[level](v + s, time)
            ways.append(_through(self.skips[level], s, time))
        z = _through(self.decoder[-1], ways.pop(), time)
        for level in reversed(range(len(self.split))):
            z = _through(self.decoder[level], self.split[level](z, time) + ways.pop(), time)
        return resampled(self.mixup(self.recovery(z.movedim(-1, 1))), grid)


class ConvNeXt(nn.Module):
    """s ↦ s + γ ⊙ D gelu( U N(K s) )."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = small(nn.Conv2d(width, width, 7, padding=3, groups=width))
        self.norm = TimeNorm(width)
        self.up = small(nn.Linear(width, 4 * width))
        self.down = small(nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), LAYER_SCALE))

    def forward(self, s: Tensor, time: Tensor) -> Tensor:
        v = self.norm(self.depthwise(s.movedim(-1, 1)).movedim(1, -1), time)
        change: Tensor = self.scale * self.down(functional.gelu(self.up(v)))
        return s + change


class Merge(nn.Module):
    """Four tokens to one of twice the width: the rows of a column first, as the weights have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = small(nn.Linear(4 * width, 2 * width, bias=False))
        self.norm = TimeNorm(2 * width)

    def forward(self, v: Tensor, time: Tensor) -> Tensor:
        parts = [v[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        result: Tensor = self.norm(self.linear(torch.cat(parts, -1)), time)
        return result


class Split(nn.Module):
    """A token to four of half the width, row by row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = small(nn.Linear(width, 2 * width, bias=False))
        self.norm = TimeNorm(width // 2)
        self.mix = small(nn.Linear(width // 2, width // 2, bias=False))

    def forward(self, v: Tensor, time: Tensor) -> Tensor:
        batch, rows, columns, width = v.shape
        four = self.linear(v).view(batch, rows, columns, 2, 2, width // 2).transpose(2, 3)
        result: Tensor = self.mix(self.norm(four.reshape(batch, 2 * rows, 2 * columns, -1), time))
        return result


def resampled(x: Tensor, grid: tuple[int, ...]) -> Tensor:
    """The field of the lowest Fourier modes of x that a grid has, on that grid."""
    if tuple(x.shape[-2:]) == grid:
        return x
    spectrum = torch.fft.fftshift(torch.fft.fft2(x, norm="forward"), dim=(-2, -1))
    room = []  # before and after the modes of an axis, the last axis first; negative: cut
    for n, m in zip(reversed(x.shape[-2:]), reversed(grid), strict=True):
        room += [m // 2 - n // 2, (m + 1) // 2 - (n + 1) // 2]
    spectrum = torch.fft.ifftshift(functional.pad(spectrum, room), dim=(-2, -1))
    field: Tensor = torch.fft.ifft2(spectrum, norm="forward").real
    return field


def _through(blocks: nn.Module, v: Tensor, time: Tensor) -> Tensor:
    for block in blocks:  # type: ignore[attr-defined]
        v = block(v, time)
    return v


def _check(sizes: dict[str, int], depths: Sequence[int], heads: Sequence[int]) -> None:
    """Raise InvalidInput for the first constructor argument that cannot be used."""
    for field, value in sizes.items():
        check_positive(field, value)
    for number in (*depths, *heads):
        check_positive("depths and heads", number)
    if not depths or len(heads) != len(depths):
        raise InvalidInput("heads", f"one number for each of {len(depths)} levels", list(heads))
    coarsest = sizes["patch"] * 2 ** (len(depths) - 1)
    if sizes["image_size"] % coarsest:
        raise InvalidInput("image_size", f"a multiple of {coarsest}", sizes["image_size"])
    for level, count in enumerate(heads):
        wide, tokens = sizes["width"] * 2**level, sizes["image_size"] // sizes["patch"] // 2**level
        if wide % count:
            raise InvalidInput("heads", f"a divisor of the width {wide}", count)
        if tokens > sizes["window"] and tokens % sizes["window"]:
            expected = f"a divisor of the {tokens} tokens of level {level}, or more"
            raise InvalidInput("window", expected, sizes["window"])
