"""Darcy flow through a two-phase medium, or another, in the square or in the cube.

    −∇·(a∇u) = f  in Ω = (0, 1)ᵈ,   u = 0 on ∂Ω,   a ∈ {a₋, a₊}                   (Sec. C.1.3)

f is a constant, as in the paper, or a field: the second input.

    medium        the permeabilities that are drawn
    two-phase     a ∈ {a₋, a₊}, the paper's
    log-normal    ln a is Gaussian, in every field with the mean and the deviation σ = ½ ln(a₊/a₋)
                  of two phases of equal share
    varied        half of them two-phase as given, a quarter two-phase with contrasts 1 to 1,000,
                  a quarter log-normal with σ up to 1.75: what a solver learns from that is to serve
                  all of them

In the cube one medium of four is uniform, of the geometric mean of the two phases: that is
Poisson's equation, and a corrector that has seen both serves both.

Networks see the permeability a but not f. The `flux` stencil (face means) is the one of the
reference solver, so the residual of the true solution is zero. PINO's `wide` stencil is kept for
the physics-informed baselines: with a discontinuous a it is far from zero on the true solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, constant, plain
from neuralsolver.equations.poisson import SOURCE_AMPLITUDE
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Grid, unit_grid
from neuralsolver.fields.space import Space
from neuralsolver.fields.stencils import (
    flux_divergence,
    from_interior,
    interior,
    laplacian_eigenvalues,
    mirror_factor,
    wide_divergence,
)
from neuralsolver.fields.units import Units, exponent_of, largest, scaled, with_fixed
from neuralsolver.limits import Choice, Float, Int
from neuralsolver.reference.random_fields import box_field, cosine_field, log_normal, two_phase

REFERENCE_PERMEABILITY = 6.0
"""The geometric mean of the paper's two phases; networks see log₂(a/6), −1 and +1 for 3 and 12,
and other media relative to their own mean."""

STENCILS = {"flux": 1, "wide": 2}
"""How far from the wall each discrete ∇·a∇ begins."""

LARGEST_CONTRAST, LARGEST_DEVIATION = 1000.0, 1.75
"""Of the media that are drawn as "varied"."""

UNIFORM_BOXES = 0.25
"""The share of the media in the cube that have one phase."""

FIELD = "field"


def mean_permeability(inputs: Tensor) -> Tensor:
    """√(min a · max a) of each sample over that of the paper's phases, 1 where networks know it."""
    a = inputs[:, 0].flatten(1)
    low, high = a.amin(1).double(), a.amax(1).double()
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
    """−∇·(a∇u) − f for a permeability a and a source f.

    Args:
        source: f, or "field": then f is the second input.
        low: The lower of the two permeabilities that are drawn.
        high: The higher one.
        stencil: The discrete ∇·a∇, "flux" or "wide".
        medium: Which permeabilities are drawn, "two-phase", "log-normal" or "varied".
        dimension: The axes of the unit box that inputs are drawn on. A problem has those of its
            inputs.

    >>> import neuralsolver as ns
    >>> ns.Problem.random(ns.Darcy(source=1.0), 16, seed=1).inputs.unique().tolist()
    [3.0, 12.0]

    Networks see the permeability only, so that the same models serve a source that is a field:

    >>> import numpy as np
    >>> inputs = np.stack([np.full((16, 16), 4.0), np.ones((16, 16))])
    >>> ns.load("darcy").solve(ns.Problem(ns.Darcy(source="field"), inputs)).good
    True
    """

    linear: ClassVar[bool] = True
    jacobian_depends_on: ClassVar[tuple[str, ...]] = ("inputs",)

    source: float | str = constant(100.0, Float(words=(FIELD,)))
    low: float = constant(3.0, Float(above=0.0, most=1e100))
    high: float = constant(12.0, Float(above=0.0, most=1e100))
    stencil: str = constant("flux", Choice(tuple(STENCILS)))
    medium: str = constant("two-phase", Choice(tuple(MEDIA)))
    dimension: int = constant(2, Int(2, 3))

    @property
    def name(self) -> str:
        return "darcy-box" if self._box else "darcy"

    @property
    def _box(self) -> bool:
        return self.dimension == 3 and self.source == FIELD

    @property
    def input_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("permeability", "source") if self.source == FIELD else ("permeability",)

    @property
    def conditioning_names(self) -> tuple[str, ...]:
        return ("permeability",)

    def constants(self) -> dict[str, Any]:
        # the axes are named only where the name of the equation does not tell them
        values = super().constants()
        if self.dimension == 2 or self._box:
            del values["dimension"]
        return values

    @property
    def constant_source(self) -> float:
        """f as a number.

        Raises:
            InvalidInput: It is a field.
        """
        if isinstance(self.source, str):
            raise InvalidInput("source", "one number for all points", "a field")
        return self.source

    @property
    def stencil_reach(self) -> int:  # type: ignore[override]
        return STENCILS[self.stencil]

    @property
    def self_adjoint(self) -> bool:  # type: ignore[override]
        return self.stencil == "flux"

    def definite_on(self, grid: Grid) -> bool:
        return grid.walled and self.self_adjoint

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        grid, a = space.grid, inputs[:, :1]
        source = inputs[:, 1:] if self.source == FIELD else self.constant_source
        if self.stencil == "flux":
            return grid.zero_walls(-flux_divergence(a, u, grid) - source)
        if grid != unit_grid(False, *grid.shape[:1] * 2):
            raise InvalidInput("stencil", "flux on any grid but the unit square", self.stencil)
        width = self.stencil_reach  # −∇·(a∇u) − f, on the points where the stencil fits
        return from_interior(interior(-wide_divergence(a, u) - source, width), width)

    def smallest_singular_value(
        self, grid: Grid, inputs: Tensor, fixed_inside: bool = False
    ) -> Tensor | None:
        if self.stencil != "flux":
            return None
        # face means are at least min a, so −∇·a∇ ≥ min a · (−Δ) as quadratic forms
        least = inputs[:, 0].flatten(1).amin(1).double().cpu()
        # known points strike rows and columns of a positive matrix: nothing falls by that
        return least * laplacian_eigenvalues(grid).min() / mirror_factor(grid)

    def in_lengths(self, length: float) -> tuple[Darcy, float]:
        return self, length**2

    def natural_units(self, inputs: Tensor, fixed: Tensor) -> Units | None:
        medium, number = mean_permeability(inputs).log2().round().long(), self.source != FIELD
        if number:
            size = torch.tensor([abs(plain(self.source))], dtype=torch.float64)
        else:
            size = largest(inputs[:, 1:]).double()
        usual = exponent_of(size)
        unit = with_fixed(usual - medium, size.log2() - medium, fixed)
        total, changed = unit + medium, unit != usual - medium
        if number:
            # one number for all samples, and so is the unit of the residual
            total = total[changed].max()[None] if bool(changed.any()) else usual
        if not bool(medium.any() or total.any()):
            return None
        permeability, total = scaled(inputs[:, :1], -medium), total.expand_as(medium)
        if number:
            equation = replace(self, source=math.ldexp(plain(self.source), -int(total[0])))
            return Units(equation, permeability, total - medium, total)
        fields = torch.cat([permeability, scaled(inputs[:, 1:], -total)], 1)
        return Units(self, fields, unit, total)

    def network_unit(self, inputs: Tensor) -> Tensor | None:
        return 1 / mean_permeability(inputs)

    def conditioning(self, inputs: Tensor) -> Tensor:
        mean = mean_permeability(inputs).to(inputs).view(-1, *[1] * (inputs.dim() - 1))
        return torch.log2(inputs[:, :1] / (REFERENCE_PERMEABILITY * mean))

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        box = self.dimension == 3
        uniform = box and rng.random() < UNIFORM_BOXES
        draw: Callable[..., Array] = box_field if box else cosine_field
        medium = MEDIA[self.medium](rng, draw(rng, resolution), self.low, self.high)
        if uniform:
            medium = np.full_like(medium, math.sqrt(self.low * self.high))
        if self.source != FIELD:
            return medium[None]
        return np.stack([medium, SOURCE_AMPLITUDE * draw(rng, resolution)])

    def check_inputs(self, inputs: Tensor) -> None:
        super().check_inputs(inputs)
        if not bool((inputs[:, 0] > 0).all()):
            raise InvalidInput("permeability", "positive values", float(inputs[:, 0].min()))
