"""Hierarchical diffusion transformer: attention over a pyramid of patches, frames as channels.

    v_0  = P · patches(a)                            p × p points and all channels to one token
    v    ↦ blocks_l(v),  then four tokens to one     way in, levels l = 0 … L−2, neighbourhoods
    v    ↦ blocks_{L−1}(v)                           the coarsest level, every token sees all
    v    ↦ blocks_l(skip + φ_l (split(v) − skip))    way out, φ_l learned, ½ at first
    u    = patches⁻¹( Q · g ⊙ v / rms(v) )           g learned, 1 at first

A linear map per patch leaves seams between patches. With `refinement` channels the tokens answer
in features, to which those of each point are added, and a convolution K across the seams follows:

    h    = patches⁻¹( Q · g ⊙ v / rms(v) ) + S a,    u = R σ( h + K σ(h) )

The blocks are those of transformer_blocks.py. They start as the identity and follow a clock that
tells the steps of an iteration apart; diffusion has the noise level in its place (Crowson et al.
2024). For its flows the ENS paper has patch 8, widths 384 and 768, depths 2 and 11.

On the torus without coordinates the network commutes with shifts by the coarsest token, that is by
p 2^(L−1) points. A grid that is no multiple of it is continued to the next one, by the other side
or by zeros, and the answer is cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from neuralsolver.models.transformer_blocks import Blocks, Mapping, RMSNorm, linear


class HDiT(Backbone):
    """Takes (batch, in_channels, n, n), gives (batch, out_channels, n, n), on any grid.

    `widths` and `depths` have one entry per level. The last level attends globally and has its
    depth once; the others attend to `kernel` × `kernel` tokens and have theirs on the way in and
    out. `feedforward` is the inner width in units of the width; `coordinates` are
    read as further channels: without them no place differs from another. `input_sizes` are the
    fixed units of the channels that are read, `output_size` is that of the answer.
    """

    clocked = True
    input_sizes: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        patch: int = 4,
        widths: Sequence[int] = (96, 192),
        depths: Sequence[int] = (1, 2),
        head_width: int = 32,
        kernel: int = 7,
        feedforward: int = 3,
        mapping_width: int = 64,
        mapping_depth: int = 1,
        padding_mode: PaddingMode = "zeros",
        coordinates: bool = True,
        zero_output: bool = False,
        refinement: int = 0,
        input_sizes: Sequence[float] | None = None,
        output_size: float = 1.0,
    ) -> None:
        super().__init__()
        self.check_arguments(
            "in_channels", "out_channels", "patch", "kernel", "feedforward", "mapping_depth",
            "head_width", "mapping_width", *(["refinement"] if refinement else []),
        )  # fmt: skip
        _check(self.arguments)
        self.patch = patch
        self.padding_mode: PaddingMode = padding_mode
        self.coordinates = coordinates
        self.coarsest = patch * 2 ** (len(widths) - 1)

        extra = coordinate_channels(2, padding_mode) if coordinates else 0
        self.lifting = linear(patch**2 * (in_channels + extra), widths[0])
        self.mapping = Mapping(mapping_width, mapping_depth, feedforward)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.merge, self.split = nn.ModuleList(), nn.ModuleList()
        last = len(widths) - 1
        for level, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            choices: dict[str, Any] = {
                "attention": (head_width, kernel if level < last else None, padding_mode),
                "feedforward": feedforward,
                "mapping_width": mapping_width,
            }
            if level == last:
                self.middle = Blocks(width, depth, **choices)
                break
            self.down.append(Blocks(width, depth, **choices))
            self.up.append(Blocks(width, depth, **choices))
            self.merge.append(linear(4 * width, widths[level + 1]))
            self.split.append(_Split(widths[level + 1], width))
        self.norm = RMSNorm(widths[0])
        self.refinement: _Refinement | None = None
        if refinement:
            self.projection = linear(widths[0], patch**2 * refinement)
            channels = (in_channels + extra, refinement, out_channels)
            self.refinement = _Refinement(*channels, padding_mode, zero=zero_output)
        else:
            self.projection = linear(widths[0], patch**2 * out_channels, zero=zero_output)
        sizes = None if input_sizes is None else torch.tensor(input_sizes).view(-1, 1, 1)
        self.register_buffer("input_sizes", sizes, persistent=False)
        self.output_size = output_size

    def forward(self, x: Tensor, clock: float | Tensor = 1.0) -> Tensor:
        """The field; `clock` > 0 is one number for all samples or a tensor of one for each."""
        self.check_input(x)
        rows, columns = x.shape[2:]
        if self.input_sizes is not None:
            x = x / self.input_sizes.to(x)
        if self.coordinates:
            x = torch.cat([x, places(x, self.padding_mode)], 1)
        v: Tensor = self.lifting(_gather(self._continued(x).movedim(1, -1), self.patch))
        condition = self.mapping(_clock_column(clock, v))
        skips: list[Tensor] = []
        for blocks, merge in zip(self.down, self.merge, strict=True):
            v = blocks(v, condition)
            skips.append(v)
            v = merge(_gather(v, 2))
        v = self.middle(v, condition)
        for blocks, split in zip(reversed(self.up), reversed(self.split), strict=True):
            v = blocks(split(v, skips.pop()), condition)
        result = _scatter(self.projection(self.norm(v)), self.patch)
        result = result.movedim(-1, 1)[:, :, :rows, :columns]
        if self.refinement is not None:
            result = self.refinement(result, x)
        return result if self.output_size == 1.0 else result * self.output_size

    def _continued(self, x: Tensor) -> Tensor:
        """x on the next grid of whole tokens of the coarsest level."""
        rows, columns = x.shape[2:]
        below, right = -rows % self.coarsest, -columns % self.coarsest
        if below == right == 0:
            return x
        if self.padding_mode == "zeros":
            return functional.pad(x, [0, right, 0, below])
        x = x[:, :, torch.arange(rows + below, device=x.device) % rows]
        return x[:, :, :, torch.arange(columns + right, device=x.device) % columns]


class _Refinement(nn.Module):
    """Features of tokens, spread over their points, to fields without seams."""

    def __init__(
        self, inputs: int, width: int, outputs: int, padding_mode: PaddingMode, *, zero: bool
    ) -> None:
        super().__init__()
        self.skip = Convolution(inputs, width, 1)
        self.across = Convolution(width, width, 3, padding_mode=padding_mode, gain=2.0)
        self.last = Convolution(width, outputs, 1)
        if zero:
            zeroed(self.last)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        h = h + self.skip(x)
        h = h + self.across(functional.gelu(h))
        result: Tensor = self.last(functional.gelu(h))
        return result


class _Split(nn.Module):
    """A token to four finer ones, mixed with the tokens that were there on the way in."""

    def __init__(self, coarse: int, fine: int) -> None:
        super().__init__()
        self.linear = linear(coarse, 4 * fine)
        self.share = nn.Parameter(torch.tensor(0.5))

    def forward(self, v: Tensor, skip: Tensor) -> Tensor:
        return torch.lerp(skip, _scatter(self.linear(v), 2), self.share.to(skip.dtype))


def _gather(v: Tensor, side: int) -> Tensor:
    """side × side places become one, with all their channels: (B, n, n, C) to (B, m, m, s² C)."""
    batch, rows, columns, channels = v.shape
    v = v.reshape(batch, rows // side, side, columns // side, side, channels)
    return v.transpose(2, 3).flatten(3)


def _scatter(v: Tensor, side: int) -> Tensor:
    """The way back of `_gather`."""
    batch, rows, columns, channels = v.shape
    v = v.view(batch, rows, columns, side, side, channels // side**2).transpose(2, 3)
    return v.reshape(batch, rows * side, columns * side, -1)


def _clock_column(clock: float | Tensor, like: Tensor) -> Tensor:
    """The clock as (1, 1) or (batch, 1)."""
    if isinstance(clock, Tensor):
        if clock.numel() not in (1, like.shape[0]):
            expected = f"one number or {like.shape[0]}, one per sample"
            raise InvalidInput("clock", expected, tuple(clock.shape))
        return clock.to(like).reshape(-1, 1)
    if not (clock > 0 and math.isfinite(clock)):
        raise InvalidInput("clock", "a number > 0", clock)
    return torch.full((1, 1), clock, dtype=like.dtype, device=like.device)


def _check(arguments: dict[str, Any]) -> None:
    """Raise InvalidInput for the first constructor argument that cannot be used."""
    sizes = arguments["input_sizes"]
    if sizes is not None and len(sizes) != arguments["in_channels"]:
        expected = f"one for each of {arguments['in_channels']} channels"
        raise InvalidInput("input_sizes", expected, len(sizes))
    widths, depths, head = arguments["widths"], arguments["depths"], arguments["head_width"]
    if head % 8:
        raise InvalidInput("head_width", "a multiple of 8: pairs for two axes in one half", head)
    if arguments["kernel"] % 2 == 0:
        raise InvalidInput("kernel", "an odd number >= 1", arguments["kernel"])
    if arguments["mapping_width"] % 2:
        raise InvalidInput("mapping_width", "an even number", arguments["mapping_width"])
    if not widths:
        raise InvalidInput("widths", "one width per level", widths)
    for field in ("widths", "depths"):
        for number in arguments[field]:
            check_positive(field, number)
    if any(width % head for width in widths):
        raise InvalidInput("widths", f"multiples of head_width = {head}", widths)
    if len(depths) != len(widths):
        raise InvalidInput("depths", f"one depth for each of {len(widths)} levels", depths)
