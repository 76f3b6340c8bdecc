"""The spectral convolution, in real arithmetic.

For a field x on a grid of n_1 × ... × n_d points of the unit torus,

    x̂(k) = mean_j x(j) exp(-2πi Σ_a k_a j_a / n_a)                    analysis
    ŷ(k) = x̂(k) W(k),    W(k) a complex (C_in, C_out) matrix          one per kept wavenumber
    y(j) = Re Σ_k w(k_d) ŷ(k) exp(+2πi Σ_a k_a j_a / n_a)             synthesis

Kept are the integer wavenumbers

    -m_a <= k_a <= m_a on every axis but the last,    0 <= k_d <= m_d on the last,

where the other half follows from x being real: w(0) = 1, and w(k) = 2 counts k and -k together.
On the plane k_d = 0 both k and -k are kept, each with a weight of its own; taking the real part
uses the Hermitian mean of the two, which is what `irfftn` does.

A grid of n points carries |k| < n/2. Kept wavenumbers beyond that do not exist there and are left
out; so is n/2 itself, whose sign the grid cannot tell. Hence the same weights serve any grid.

How it is computed. Few wavenumbers are kept, so a matrix product with a table of cosines and sines
beats a fast transform, and needs no complex tensor: everything below is a real matrix product.
Fields are channels last, (batch, *grid, channels), so that each axis is transformed where it lies,
without a transpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput
from neuralsolver.models.backbone import kept

Tables = list[tuple[Tensor, Tensor]]


class SpectralConvolution(nn.Module):
    """A convolution over the whole torus, given by its Fourier coefficients up to a wavenumber.

    Takes (batch, *grid, in_channels), gives (batch, *grid, out_channels). The parameter `weight`
    has shape (*kept, 2, in_channels, out_channels): real and imaginary part of each W(k), with the
    wavenumbers of a full axis in the order 0, 1, .., m, -1, .., -m and of the last axis 0, .., m.
    """

    def __init__(self, in_channels: int, out_channels: int, max_wavenumber: Sequence[int]) -> None:
        super().__init__()
        if not max_wavenumber or not all(isinstance(m, int) and m >= 0 for m in max_wavenumber):
            raise InvalidInput("max_wavenumber", "one integer >= 0 per axis", max_wavenumber)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.max_wavenumber = tuple(max_wavenumber)
        kept = [2 * m + 1 for m in self.max_wavenumber[:-1]] + [self.max_wavenumber[-1] + 1]
        self.weight = nn.Parameter(torch.empty(*kept, 2, in_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """E|W|² = 1 / C_in: a mode leaves with the variance it came with, at any resolution."""
        nn.init.normal_(self.weight, std=math.sqrt(0.5 / self.in_channels))

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, max_wavenumber={self.max_wavenumber}"

    def forward(self, x: Tensor) -> Tensor:
        with _full_precision(x):
            x = x.to(self.weight.dtype)
            return self.synthesise(self.mix(self.analyse(x)), x.shape[1:-1])

    def with_linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """K x + W x + b: the convolution and a linear map of each point, computed together.

        Moving fields through memory costs as much as computing here, so the last product of the
        synthesis adds onto the linear map's result, and the constant b joins ŷ(0).
        """
        with _full_precision(x):
            x = x.to(self.weight.dtype)
            grid = x.shape[1:-1]
            coefficients = self._synthesise_full_axes(self.mix(self.analyse(x), bias), grid)
            table = self._tables(x, grid)[-1][1]
            return _linear_plus_synthesis(x, weight, coefficients, table)

    def analyse(self, x: Tensor) -> Tensor:
        """The kept x̂(k) as (*kept, 2 parts, batch, channels)."""
        grid = x.shape[1:-1]
        # the last axis first: its blocks (n, channels) lie together in memory and stay in cache
        for axis, (table, _) in reversed(list(enumerate(self._tables(x, grid)))):
            x = _transform(table, x, axis + 1)
        return _real_to_complex(x, len(grid))

    def mix(self, spectrum: Tensor, constant: Tensor | None = None) -> Tensor:
        """ŷ(k) = x̂(k) W(k) for every kept k as one real batched product, [re −im; im re] [Wr; Wi].

        The field is doubled rather than the weights: it is the smaller of the two.
        """
        weight = self._weight_for(spectrum.shape[:-3])
        *kept, _, batch, channels = spectrum.shape
        if channels != self.in_channels:
            raise InvalidInput("field", f"{self.in_channels} channels, last", channels)
        re, im = spectrum.unbind(-3)
        rows = torch.cat([torch.cat([re, -im], -1), torch.cat([im, re], -1)], -2)
        mixed = torch.bmm(rows.flatten(0, -3), weight.reshape(-1, 2 * channels, self.out_channels))
        if constant is not None:
            zero_mode = functional.pad(constant[None, None], (0, 0, 0, 1, 0, mixed.shape[0] - 1))
            mixed = mixed.reshape(-1, 2, batch, self.out_channels) + zero_mode[:, :, None]
        return mixed.reshape(*kept, 2, batch, self.out_channels)

    def synthesise(self, spectrum: Tensor, grid: Sequence[int]) -> Tensor:
        """y on `grid` from the kept ŷ(k)."""
        x = self._synthesise_full_axes(spectrum, grid)
        return _transform(self._tables(x, grid)[-1][1], x, len(grid))

    def _synthesise_full_axes(self, spectrum: Tensor, grid: Sequence[int]) -> Tensor:
        x = _complex_to_real(spectrum, len(grid))
        for axis, (_, table) in enumerate(self._tables(x, grid)[:-1]):
            x = _transform(table, x, axis + 1)
        return x

    def _tables(self, x: Tensor, grid: Sequence[int]) -> Tables:
        if len(grid) != len(self.max_wavenumber):
            expected = f"a grid of {len(self.max_wavenumber)} axes"
            raise InvalidInput("field", expected, tuple(grid))
        last = len(grid) - 1
        return [
            _table(n, _highest(n, m), axis == last, x.dtype, x.device)
            for axis, (n, m) in enumerate(zip(grid, self.max_wavenumber, strict=True))
        ]

    def _weight_for(self, kept: Sequence[int]) -> Tensor:
        """The weights of the wavenumbers that exist on a grid: all, unless the grid is small."""
        weight: Tensor = self.weight
        for axis, (size, m) in enumerate(zip(kept, self.max_wavenumber, strict=True)):
            if size == weight.shape[axis]:
                continue
            if axis == len(kept) - 1:
                weight = weight.narrow(axis, 0, size)
            else:
                half = (size - 1) // 2
                positive = weight.narrow(axis, 0, half + 1)
                weight = torch.cat([positive, weight.narrow(axis, m + 1, half)], axis)
        return weight


class _LinearPlusSynthesis(torch.autograd.Function):
    """(x, W, z, T) ↦ W x at each point + T z along the last grid axis.

    Autograd would copy the gradient of a field that is added onto in place; here nothing is copied.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, z: Tensor, table: Tensor) -> Tensor:
        rows = math.prod(z.shape[:-2])
        y = torch.mm(x.reshape(-1, x.shape[-1]), weight.T).view(rows, x.shape[-2], -1)
        y.baddbmm_(table.expand(rows, -1, -1), z.reshape(rows, *z.shape[-2:]))
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x, weight, _, table = inputs
        ctx.save_for_backward(x, weight, table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, table = ctx.saved_tensors
        by_x, by_weight, by_z, _ = ctx.needs_input_grad
        gradient = gradient.contiguous()
        return (
            torch.matmul(gradient, weight) if by_x else None,
            gradient.flatten(0, -2).T @ x.flatten(0, -2) if by_weight else None,
            _transform(table.T, gradient, gradient.dim() - 2) if by_z else None,
            None,
        )


def _linear_plus_synthesis(x: Tensor, weight: Tensor, z: Tensor, table: Tensor) -> Tensor:
    if torch.compiler.is_compiling():  # a compiler joins the two by itself
        return functional.linear(x, weight) + _transform(table, z, z.dim() - 2)
    if not torch.is_grad_enabled():  # what binds arguments for autograd takes longer than a product
        return _LinearPlusSynthesis.forward(x, weight, z, table)
    result: Tensor = _LinearPlusSynthesis.apply(x, weight, z, table)  # type: ignore[no-untyped-call]
    return result


def _full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Transforms are not for half precision: inside autocast they stay in that of the weights."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.autocast(x.device.type, enabled=False)
    return nullcontext()


def _highest(n: int, m: int) -> int:
    """The largest wavenumber both kept and carried by n points."""
    return min(m, (n - 1) // 2)


def _transform(table: Tensor, x: Tensor, axis: int) -> Tensor:
    """Apply `table` (rows, n) to axis `axis` of x, where it lies."""
    shape = x.shape
    lead = math.prod(shape[:axis])
    product = torch.bmm(table.expand(lead, -1, -1), x.reshape(lead, shape[axis], -1))
    return product.reshape(*shape[:axis], table.shape[0], *shape[axis + 1 :])


def _real_to_complex(z: Tensor, dimension: int) -> Tensor:
    """Products of cosines and sines to exponentials: (batch, *2K, C) to (*kept, 2, batch, C).

    On the last axis e^{-iθ} = cos θ − i sin θ; on a full axis cos and sin of k give k and −k.
    """
    z = z.movedim(0, -2)
    c, s = z.chunk(2, dimension - 1)
    z = torch.stack([c, -s], -3)
    for axis in range(dimension - 1):
        c, s = z.chunk(2, axis)
        i_s = torch.stack([-s.select(-3, 1), s.select(-3, 0)], -3)
        z = torch.cat([c - i_s, (c + i_s).narrow(axis, 1, c.shape[axis] - 1)], axis)
    return z


def _complex_to_real(z: Tensor, dimension: int) -> Tensor:
    """The way back: Y₊ e^{iφ} + Y₋ e^{−iφ} = (Y₊ + Y₋) cos φ + i (Y₊ − Y₋) sin φ, then Re."""
    for axis in range(dimension - 1):
        half = z.shape[axis] // 2
        zero = z.narrow(axis, 0, 1)
        plus, minus = z.narrow(axis, 1, half), z.narrow(axis, 1 + half, half)
        difference = plus - minus
        i_difference = torch.stack([-difference.select(-3, 1), difference.select(-3, 0)], -3)
        z = torch.cat([zero, plus + minus, torch.zeros_like(zero), i_difference], axis)
    re, im = z.unbind(-3)
    return torch.cat([re, -im], dimension - 1).movedim(-2, 0)


@kept
def _table(
    n: int, m: int, last: bool, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Analysis (2K, n) and synthesis (n, 2K) tables: cosines, then sines, of K = m + 1 modes."""
    # the product is reduced modulo n in integers: the angle is then exact to the last digit
    turns = torch.arange(m + 1)[:, None] * torch.arange(n)[None, :] % n
    angle = turns.to(torch.float64) * (2 * math.pi / n)
    table = torch.cat([angle.cos(), angle.sin()])
    count = torch.full((m + 1,), 2.0 if last else 1.0, dtype=torch.float64)
    count[0] = 1.0
    synthesis = table * torch.cat([count, count])[:, None]
    return (
        (table / n).to(device, dtype),
        synthesis.T.contiguous().to(device, dtype),
    )
