"""Darcy flow through a two-phase medium, or another.

    −∇·(a∇u) = f  in Ω = (0, 1)²,   u = 0 on ∂Ω,   a ∈ {a₋, a₊},   f constant     (Sec. C.1.3)

    medium        the permeabilities that are drawn
    two-phase     a ∈ {a₋, a₊}, the paper's
    log-normal    ln a is Gaussian, in every field with the mean and the deviation σ = ½ ln(a₊/a₋)
                  of two phases of equal share
    varied        half of them two-phase as given, a quarter two-phase with contrasts 1 to 1,000,
                  a quarter log-normal with σ up to 1.75: what a solver learns from that is to serve
                  all of them

Networks see the permeability a but not f. The `flux` stencil (face means) is the one of the
reference solver, so the residual of the true solution is zero. PINO's `wide` stencil is kept for
the physics-informed baselines: with a discontinuous a it is far from zero on the true solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, check_finite, check_positive, plain
from neuralsolver.equations.poisson import SOURCE_AMPLITUDE
from neuralsolver.equations.units import Units, exponent_of, largest, scaled, with_fixed
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Grid
from neuralsolver.fields.space import Space
from neuralsolver.fields.stencils import (
    flux_divergence,
    from_interior,
    interior,
    laplacian_eigenvalues,
    mirror_factor,
    wide_divergence,
)
from neuralsolver.limits import Choice
from neuralsolver.reference.random_fields import cosine_field, log_normal, two_phase

REFERENCE_PERMEABILITY = 6.0
"""The geometric mean of the paper's two phases; networks see log₂(a/6), −1 and +1 for 3 and 12,
and other media relative to their own mean."""

STENCILS = {"flux": 1, "wide": 2}
"""How far from the wall each discrete ∇·a∇ begins."""

LARGEST_CONTRAST, LARGEST_DEVIATION = 1000.0, 1.75
"""Of the media that are drawn as "varied"."""


def mean_permeability(inputs: Tensor) -> Tensor:
    """√(min a · max a) of each sample over that of the paper's phases, 1 where networks know it."""
    low, high = inputs.flatten(1).amin(1).double(), inputs.flatten(1).amax(1).double()
    return low.sqrt() * high.sqrt() / REFERENCE_PERMEABILITY


def _varied(rng: np.random.Generator, field: Array, low: float, high: float) -> Array:
    kind, part = rng.random(2)
    if kind < 1 / 2:
        return two_phase(field, low, high)
    mean = np.sqrt(low * high)
    deviation = part * LARGEST_DEVIATION
    if kind < 3 / 4:
        deviation = part * np.log(LARGEST_CONTRAST) / 2
    draw = two_phase if kind < 3 / 4 else log_normal
    a = draw(field, np.exp(-deviation), np.exp(deviation))
    # in natural units, in which networks see every permeability
    a *= mean / np.sqrt(a.min() * a.max())
    return a


MEDIA: dict[str, Callable[[np.random.Generator, Array, float, float], Array]] = {
    "two-phase": lambda rng, field, low, high: two_phase(field, low, high),
    "log-normal": lambda rng, field, low, high: log_normal(field, low, high),
    "varied": _varied,
}


@dataclass(frozen=True)
class Darcy(Equation):
    """−∇·(a∇u) − f for a permeability a ∈ {`low`, `high`} and a constant `source` f.

    >>> import neuralsolver as ns
    >>> ns.Problem.random(ns.Darcy(source=1.0), 16, seed=1).inputs.unique().tolist()
    [3.0, 12.0]
    """

    source: float = 100.0
    low: float = 3.0
    high: float = 12.0
    stencil: str = "flux"
    medium: str = "two-phase"

    input_names: ClassVar[tuple[str, ...]] = ("permeability",)

    def __post_init__(self) -> None:
        check_finite("source", self.source)
        check_positive("low", self.low)
        check_positive("high", self.high)
        Choice(tuple(STENCILS)).read("stencil", self.stencil)
        Choice(tuple(MEDIA)).read("medium", self.medium)

    @property
    def linear(self) -> bool:
        return True

    @property
    def stencil_reach(self) -> int:
        return STENCILS[self.stencil]

    @property
    def self_adjoint(self) -> bool:
        return self.stencil == "flux"

    def definite_on(self, grid: Grid) -> bool:
        return grid.walled and self.self_adjoint

    @property
    def jacobian_depends_on(self) -> tuple[str, ...]:
        return ("inputs",)

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        grid = space.grid
        if self.stencil == "flux":
            outflow = grid.interior(-flux_divergence(inputs, u, grid))
            return grid.embed(outflow - self.source)
        if grid != self.grid(u.shape[-1]):
            raise InvalidInput("stencil", "flux on any grid but the unit square", self.stencil)
        width = self.stencil_reach  # −∇·(a∇u) − f, on the points where the stencil fits
        return from_interior(interior(-wide_divergence(inputs, u) - self.source, width), width)

    def smallest_singular_value(
        self, grid: Grid, inputs: Tensor, fixed_inside: bool = False
    ) -> Tensor | None:
        if self.stencil != "flux":
            return None
        # face means are at least min a, so −∇·a∇ ≥ min a · (−Δ) as quadratic forms
        least = inputs.flatten(1).amin(1).double().cpu()
        # known points strike rows and columns of a positive matrix: nothing falls by that
        return least * laplacian_eigenvalues(grid).min() / mirror_factor(grid)

    def in_lengths(self, length: float) -> tuple[Darcy, float]:
        return self, length**2

    def natural_units(self, inputs: Tensor, fixed: Tensor) -> Units | None:
        medium = mean_permeability(inputs).log2().round().long()
        source = torch.tensor([abs(plain(self.source))], dtype=torch.float64)
        factor = exponent_of(source)
        unit = with_fixed(factor - medium, source.log2() - medium, fixed)
        # the source is one number for all samples, and so is the unit of the residual
        changed = unit != factor - medium
        if bool(changed.any()):
            factor = (unit + medium)[changed].max()[None]
        if not bool(medium.any() or factor.any()):
            return None
        equation = replace(self, source=math.ldexp(plain(self.source), -int(factor)))
        permeability = scaled(inputs, -medium)
        return Units(equation, permeability, factor - medium, factor.expand_as(medium))

    def network_unit(self, inputs: Tensor) -> Tensor | None:
        return 1 / mean_permeability(inputs[:, :1])

    def conditioning(self, inputs: Tensor) -> Tensor:
        mean = mean_permeability(inputs).to(inputs).view(-1, *[1] * (inputs.dim() - 1))
        return torch.log2(inputs / (REFERENCE_PERMEABILITY * mean))

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return MEDIA[self.medium](rng, cosine_field(rng, resolution), self.low, self.high)[None]

    def check_inputs(self, inputs: Tensor) -> None:
        super().check_inputs(inputs)
        if not bool((inputs > 0).all()):
            raise InvalidInput("permeability", "positive values", float(torch.min(inputs)))


@dataclass(frozen=True)
class ForcedDarcy(Darcy):
    """−∇·(a∇u) − s f with a permeability a and a source f that both are fields, s in `source`.

    Networks see the permeability, as for a constant source: the same models serve.

    >>> import neuralsolver as ns, numpy as np
    >>> a, f = np.full((16, 16), 4.0), np.ones((16, 16))
    >>> ns.load("darcy").solve(ns.Problem(ns.ForcedDarcy(source=2.0), np.stack([a, f]))).good
    True
    """

    input_names: ClassVar[tuple[str, ...]] = ("permeability", "source")

    source: float = 1.0

    @property
    def conditioning_names(self) -> tuple[str, ...]:
        return ("permeability",)

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        grid = space.grid
        flow = Darcy(0.0, stencil=self.stencil).residual(space, u, inputs[:, :1])
        return flow - grid.embed(self.source * grid.interior(inputs[:, 1:]))

    def smallest_singular_value(
        self, grid: Grid, inputs: Tensor, fixed_inside: bool = False
    ) -> Tensor | None:
        return super().smallest_singular_value(grid, inputs[:, :1], fixed_inside)

    def in_lengths(self, length: float) -> tuple[ForcedDarcy, float]:
        return self, length**2

    def natural_units(self, inputs: Tensor, fixed: Tensor) -> Units | None:
        medium = mean_permeability(inputs[:, :1]).log2().round().long()
        scale = torch.tensor([abs(plain(self.source))], dtype=torch.float64)
        factor, source = exponent_of(scale), largest(inputs[:, 1:]).double()
        usual, size = factor + exponent_of(source) - medium, scale.log2() + source.log2() - medium
        unit = with_fixed(usual, size, fixed)
        total = unit + medium
        if not bool(medium.any() or factor.any() or total.any() or exponent_of(source).any()):
            return None
        parts = (scaled(inputs[:, :1], -medium), scaled(inputs[:, 1:], factor - total))
        equation = replace(self, source=math.ldexp(plain(self.source), -int(factor)))
        return Units(equation, torch.cat(parts, 1), unit, total)

    def conditioning(self, inputs: Tensor) -> Tensor:
        return super().conditioning(inputs[:, :1])

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        permeability = super().sample(rng, resolution)
        return np.concatenate(
            [permeability, SOURCE_AMPLITUDE * cosine_field(rng, resolution)[None]]
        )

    def check_inputs(self, inputs: Tensor) -> None:
        Equation.check_inputs(self, inputs)
        if not bool((inputs[:, :1] > 0).all()):
            raise InvalidInput("permeability", "positive values", float(inputs[:, :1].min()))
