"""Natural units: a problem with numbers of ordinary size, and the powers of two that lead back.

    F(u; f) = 2ʳ F′(u′; f′),    u = 2ˢ u′        whole numbers s and r for each sample

Sums of squares underflow below 1e-154 and overflow above 1e154, float32 ends at 1e38, and networks
know the sizes they were trained on. An equation that has such a symmetry says so
(`Equation.natural_units`); solvers divide at the door and multiply on the way out. Powers of two
round nothing, so what is true of a field in natural units is true of it in the user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ORDINARY = (1e-6, 1e9)
"""Sizes that need no other unit."""
LIMIT = 2040
"""Beyond this exponent nothing but zero fits."""


@dataclass(frozen=True, eq=False)
class Units:
    """The equation and the inputs f′ in natural units, and the exponents s and r, (B,) each."""

    equation: Any
    inputs: Tensor
    solution: Tensor
    residual: Tensor


def exponent_of(size: Tensor | float) -> Tensor:
    """For each size 0 where it is ordinary or zero, else the e with size / 2ᵉ in [64, 128)."""
    given = torch.as_tensor(size, dtype=torch.float64)
    strange = (given > 0) & ((given < ORDINARY[0]) | (given > ORDINARY[1]))
    return torch.where(strange, torch.frexp(given)[1] - 7, 0).long()


def scaled(field: Tensor, exponent: Tensor) -> Tensor:
    """2ᵉ times a field of each sample, exact unless the result does not fit."""
    power = exponent.to(field.device).clamp(-LIMIT, LIMIT).view(-1, *[1] * (field.dim() - 1))
    half = power // 2
    one = torch.ones_like(power, dtype=torch.float64)
    # a power of two of its own may not fit where the product does
    product = field.double() * torch.ldexp(one, half) * torch.ldexp(one, power - half)
    return product.to(field)


def with_fixed(exponent: Tensor, size: Tensor, fixed: Tensor) -> Tensor:
    """The exponent of the unit of u, where values of u are fixed too.

    Args:
        exponent: What the source alone suggests, (batch,).
        size: log₂ of the solution that the source alone would have, roughly.
        fixed: The largest fixed value of each sample.

    Returns:
        `exponent`, or that of the fixed values where these are larger and not ordinary in it.
    """
    strange = exponent_of(scaled(fixed.double(), -exponent)) != 0
    return torch.where(strange & (fixed.double().log2() > size), exponent_of(fixed), exponent)


def largest(field: Tensor) -> Tensor:
    """max |f| of each sample."""
    return field.flatten(1).abs().amax(1)
