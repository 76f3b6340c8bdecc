"""Natural units: a problem whose numbers are of ordinary size, and the factors that lead back.

    F(u; f) = ρ F′(u′; f′),    u = σ u′        σ, ρ > 0 for each sample

Sums of squares underflow below 1e-154 and overflow above 1e154, float32 ends at 1e38, and networks
know the sizes they were trained on. An equation that has such a symmetry says so
(`Equation.natural_units`); solvers divide at the door and multiply on the way out. Factors of a
linear source are powers of two, so that nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from neuralsolver.equations.base import Equation

ORDINARY = (1e-6, 1e9)
"""Sizes that need no other unit."""


@dataclass(frozen=True, eq=False)
class Units:
    """The equation and the inputs f′ in natural units, and the factors σ and ρ, (B,) each."""

    equation: Equation
    inputs: Tensor
    solution: Tensor
    residual: Tensor


def extraordinary(size: Tensor) -> Tensor:
    """Which sizes are outside `ORDINARY`; zero is not."""
    return (size > 0) & ((size < ORDINARY[0]) | (size > ORDINARY[1]))


def unit_of(size: Tensor) -> Tensor:
    """For each size 1 where it is ordinary, else the power of two that brings it to [64, 128)."""
    safe = torch.where(size > 0, size, 1.0).double()
    power = torch.ldexp(torch.ones_like(safe), torch.frexp(safe)[1] - 7)
    return torch.where(extraordinary(size), power.clamp_min(torch.finfo(torch.float64).tiny), 1.0)


def per_sample(factor: Tensor, field: Tensor) -> Tensor:
    """A factor for each sample, shaped to multiply a field."""
    return factor.to(field).view(-1, *[1] * (field.dim() - 1))


def largest(field: Tensor) -> Tensor:
    """max |f| of each sample."""
    return field.flatten(1).abs().amax(1)
