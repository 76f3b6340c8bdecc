"""Attention between the tokens of a grid: by cosine, with rotary positions, nearby or everywhere.

    y(i) = Σ_{j ∈ N(i)} p_ij v(j),      p_ij = softmax_j ⟨R(i) q̂(i), R(j) k̂(j)⟩
    q̂ = s q / |q|,      k̂ = k / |k|,                              s learned, one for each head

Neighbourhood. N(i) are the κ × κ tokens around i, or all tokens. On the torus they wrap around;
between walls the window is shifted until it lies inside. A window wider than the grid is the grid:
every token is counted once.

Position. R(i) turns pairs of features by the angles 2π m x(i), where x is the centre of the token
in the unit square. A quarter of the features follows the row, a quarter the column, the rest is not
turned. The m are spaced evenly in the logarithm from 1 to 10 over the pairs of all heads; on the
torus they are rounded to integers. Then R(i)ᵀR(j) depends on x(j) − x(i) modulo 1 alone, and
attention commutes with every shift of the tokens.

How it is computed. The grid is cut into tiles of queries. A tile of b × b tokens reads the
(b+κ−1)² tokens that any of its neighbourhoods touches, and a mask hides those which are not the
neighbours of a query: a few dense products in place of a gather of κ² keys for each token, which
is an order of magnitude slower. A small grid is one tile, and nothing is gathered at all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.models.backbone import PaddingMode, kept

Grid = tuple[int, int]

EPSILON = 1e-6
FIRST_SCALE = 10.0
WAVENUMBERS = 10.0
"""Ratio of the largest to the smallest m, which is 1."""
ONE_TILE = 256
"""Tokens up to which masking the whole grid is as fast as tiles (measured on a CPU)."""
TILES = range(8, 3, -1)
"""Sizes of a tile, best first: smaller ones gather too much, larger ones hide too much."""


class Neighbours(NamedTuple):
    """Who attends to whom: tiles of queries, the keys that each reads, and what is hidden of them.

    `queries` (tiles, b²) and `keys` (tiles, K) are numbers of tokens, row by row; None stands for
    all of them in their order. `mask` (1, tiles, b², K) is added to the logarithm of the weights.
    """

    queries: Tensor | None
    keys: Tensor | None
    mask: Tensor | None


class SelfAttention(nn.Module):
    """Tokens (batch, rows, columns, width) to attention among them, of the same shape.

    `kernel` is the side of a neighbourhood, None for attention to all tokens. The last linear map
    starts at zero, so that a residual branch ending in it starts as nothing.
    """

    def __init__(
        self, width: int, head_width: int, kernel: int | None, padding_mode: PaddingMode
    ) -> None:
        super().__init__()
        self.heads = width // head_width
        self.kernel = kernel
        self.padding_mode: PaddingMode = padding_mode
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.scale = nn.Parameter(torch.full((self.heads,), FIRST_SCALE))
        self.out = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.queries_keys_values.weight, std=math.sqrt(1 / width))
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, columns, width = x.shape
        head_width = width // self.heads
        split: Tensor = self.queries_keys_values(x)
        split = split.view(batch, rows * columns, 3, self.heads, head_width)
        split = split.permute(2, 0, 3, 1, 4)
        cosines, sines = rotary_table(
            (rows, columns), (self.heads, head_width), self.padding_mode, x.dtype, x.device
        )
        scales = torch.stack([self.scale, torch.ones_like(self.scale)])[:, None, :, None, None]
        q, k = rotate(unit(split[:2], scales), cosines, sines).unbind()
        y = attend(
            q, k, split[2], (rows, columns), kernel=self.kernel, padding_mode=self.padding_mode
        )
        result: Tensor = self.out(y.transpose(1, 2).reshape(x.shape))
        return result


def unit(x: Tensor, scale: Tensor) -> Tensor:
    """x / |x| times a scale, features last, with |x| in at least single precision."""
    precision = torch.promote_types(x.dtype, torch.float32)
    square = x.to(precision).square().sum(-1, keepdim=True)
    return x * (scale * torch.rsqrt(square + EPSILON)).to(x.dtype)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """The first half of the features turned in pairs (c, c + d/4), the other half as it is."""
    quarter = cosines.shape[-1]
    a, b, rest = x[..., :quarter], x[..., quarter : 2 * quarter], x[..., 2 * quarter :]
    return torch.cat([a * cosines - b * sines, a * sines + b * cosines, rest], -1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grid: Grid,
    *,
    kernel: int | None,
    padding_mode: PaddingMode,
) -> Tensor:
    """softmax(q kᵀ) v within the neighbourhoods; all are (batch, heads, tokens, features)."""
    queries, keys, mask = neighbours(grid, kernel, padding_mode, q.dtype, q.device)
    if queries is None or keys is None:
        return functional.scaled_dot_product_attention(q, k, v, mask, scale=1.0)
    tiles, near_keys, near_values = (
        x.index_select(2, tokens.flatten()).view(-1, *tokens.shape, x.shape[-1])
        for x, tokens in ((q, queries), (k, keys), (v, keys))
    )
    # a tile takes the place of a head here: the mask is then one for the batch and all heads
    y = functional.scaled_dot_product_attention(tiles, near_keys, near_values, mask, scale=1.0)
    return y.reshape(q.shape).index_select(2, queries.flatten().argsort())


@kept
def rotary_table(
    grid: Grid,
    heads: tuple[int, int],
    padding_mode: PaddingMode,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles of every pair, each (heads, tokens, head width / 4).

    `heads` are their number and their width.
    """
    count, pairs = heads[0], heads[1] // 8  # of a head, for each axis
    # pair by pair through the heads: every head has low and high wavenumbers
    exponent = torch.arange(count * pairs, dtype=torch.float64).view(pairs, count).T
    wavenumber = WAVENUMBERS ** (exponent / (count * pairs))
    if padding_mode == "circular":
        wavenumber = wavenumber.round()
    axes = []
    for n in grid:
        centre = (torch.arange(n, dtype=torch.float64) + 0.5) / n
        axes.append(2 * math.pi * wavenumber[:, None, :] * centre[:, None])
    rows, columns = axes
    shape = (count, *grid, pairs)
    angle = torch.cat([rows[:, :, None].expand(shape), columns[:, None].expand(shape)], -1)
    angle = angle.flatten(1, 2)
    return angle.cos().to(device, dtype), angle.sin().to(device, dtype)


@kept
def neighbours(
    grid: Grid,
    kernel: int | None,
    padding_mode: PaddingMode,
    dtype: torch.dtype,
    device: torch.device,
) -> Neighbours:
    """The neighbourhoods of all tokens of a grid, cut into tiles where that is faster."""
    if kernel is None or kernel >= max(grid):
        return Neighbours(None, None, None)
    rows, columns = grid
    whole = rows * columns <= ONE_TILE
    (q1, k1, near1), (q2, k2, near2) = (
        _along_axis(n, n if whole else _tile(n), kernel, padding_mode) for n in grid
    )
    tiles = q1.shape[0] * q2.shape[0]
    queries = (q1[:, None, :, None] * columns + q2[None, :, None, :]).reshape(tiles, -1)
    keys = (k1[:, None, :, None] * columns + k2[None, :, None, :]).reshape(tiles, -1)
    near = near1[:, None, :, None, :, None] & near2[None, :, None, :, None, :]
    mask = torch.zeros(near.shape, dtype=dtype).masked_fill(~near, -math.inf)
    # four axes: with three, torch takes its slow kernel
    mask = mask.reshape(1, tiles, queries.shape[1], keys.shape[1]).to(device)
    if tiles == 1:
        return Neighbours(None, None, mask)
    return Neighbours(queries.to(device), keys.to(device), mask)


def _along_axis(
    n: int, tile: int, kernel: int, padding_mode: PaddingMode
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the tiles of one axis: queries (tiles, b), keys (tiles, K), who is near (tiles, b, K)."""
    kernel = min(kernel, n)
    half = kernel // 2
    reach = min(tile + kernel - 1, n)
    queries = torch.arange(n).view(-1, tile)
    if padding_mode == "circular":
        first = queries[:, :1] - half if reach < n else torch.zeros_like(queries[:, :1])
        keys = (first + torch.arange(reach)) % n
        distance = (keys[:, None, :] - queries[:, :, None] + half) % n
    else:
        keys = (queries[:, :1] - half).clamp(0, n - reach) + torch.arange(reach)
        distance = keys[:, None, :] - (queries[:, :, None] - half).clamp(0, n - kernel)
    return queries, keys, (distance >= 0) & (distance < kernel)


def _tile(n: int) -> int:
    """The size of the tiles of an axis of n tokens: all of them where nothing fits."""
    return next((size for size in TILES if n % size == 0), n)
