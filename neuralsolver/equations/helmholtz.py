"""Helmholtz equation, linear (λ = 0) and nonlinear.

    Δu + κ²u + λu³ = f  in Ω = (0, 1)²,   u = 0 on ∂Ω                           (Sec. C.1.1)

The first resonance lies at κ = √2 π ≈ 4.44; beyond it the operator is indefinite. With λ > 0 the
equation is focusing: past a fold in the amplitude of f there is no solution near zero. The solution
meant here is the branch continued from f = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, constant, plain
from neuralsolver.equations.poisson import SOURCE_AMPLITUDE
from neuralsolver.fields.grid import Grid
from neuralsolver.fields.space import Space
from neuralsolver.fields.stencils import laplacian, laplacian_eigenvalues, mirror_factor
from neuralsolver.fields.units import Units, exponent_of, largest, scaled
from neuralsolver.limits import FINITE, Float
from neuralsolver.reference.random_fields import cosine_field

NONLINEAR_SOURCE_AMPLITUDE = 50.0
"""Half the linear amplitude: at 100 the shifted regime κ = 3, λ = 4 has no solution for half of the
fields, at 50 for fewer than one in ten."""


@dataclass(frozen=True)
class Helmholtz(Equation):
    """Δu + κ²u + λu³ − f, with κ in `wavenumber` and λ in `nonlinearity`.

    A `source_amplitude` of zero stands for the amplitude that suits the equation.

    >>> import neuralsolver as ns
    >>> ns.Helmholtz(wavenumber=3.0).linear, ns.Helmholtz(nonlinearity=1.0).name
    (True, 'nonlinear-helmholtz')
    """

    dependent: ClassVar[tuple[str, ...]] = ("source_amplitude",)
    self_adjoint: ClassVar[bool] = True

    # the square of a larger one is infinite
    wavenumber: float = constant(1.0, Float(-1e150, 1e150))
    nonlinearity: float = constant(0.0, FINITE)
    source_amplitude: float = constant(0.0, Float(0.0, 1e150))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source_amplitude == 0.0:
            amplitude = SOURCE_AMPLITUDE if self.linear else NONLINEAR_SOURCE_AMPLITUDE
            object.__setattr__(self, "source_amplitude", amplitude)

    @property
    def name(self) -> str:
        return "helmholtz" if self.linear else "nonlinear-helmholtz"

    @property
    def linear(self) -> bool:  # type: ignore[override]
        return bool(plain(self.nonlinearity) == 0.0)

    def definite_on(self, grid: Grid) -> bool:
        if not (grid.walled and self.linear):
            return False
        # below the first resonance Δ + κ² is negative
        return float(plain(self.wavenumber)) ** 2 < float(laplacian_eigenvalues(grid).min())

    def wavelengths_on(self, grid: Grid) -> float:
        return abs(float(plain(self.wavenumber))) * max(grid.lengths) / (2 * math.pi)

    @property
    def jacobian_depends_on(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.linear else ("solution",)

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        grid = space.grid
        centre = grid.interior(u)
        reaction = self.wavenumber**2 * centre - grid.interior(inputs)
        if not self.linear:
            reaction = reaction + self.nonlinearity * centre**3
        return laplacian(u, grid) + grid.embed(reaction)

    def smallest_singular_value(
        self, grid: Grid, inputs: Tensor, fixed_inside: bool = False
    ) -> Tensor | None:
        if not self.linear:
            return None
        distances = laplacian_eigenvalues(grid) - self.wavenumber**2
        if grid.walled and not fixed_inside:
            return distances.abs().min().expand(inputs.shape[0])
        # an indefinite operator may become singular when points of it are known
        least = distances.min()
        return None if least <= 0 else (least / mirror_factor(grid)).expand(inputs.shape[0])

    def in_lengths(self, length: float) -> tuple[Helmholtz, float]:
        constants = {
            "wavenumber": self.wavenumber * length,
            "nonlinearity": self.nonlinearity * length**6,
        }
        return replace(self, **constants), length**2

    def natural_units(self, inputs: Tensor, fixed: Tensor) -> Units | None:
        size = torch.maximum(largest(inputs).double(), fixed.double())
        # with λu³ the unit of u is a constant of the equation: that of the largest field
        unit = exponent_of(size if self.linear else size.max().expand_as(size))
        factor = torch.ldexp(torch.ones(1, dtype=torch.float64), 2 * unit[:1].cpu()).item()
        strength = 0.0 if self.linear else self.nonlinearity * factor
        if not (bool(unit.any()) and math.isfinite(plain(strength))):
            return None
        equation = replace(self, nonlinearity=strength)
        return Units(equation, scaled(inputs, -unit), unit, unit)

    @property
    def unique_where_definite(self) -> bool:  # type: ignore[override]
        # where −J = −Δ − κ² − 3λu² > 0 is a convex set, F is injective on it (reference.semilinear)
        return self.nonlinearity > 0 and self.wavenumber**2 < 2 * math.pi**2

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return self.source_amplitude * cosine_field(rng, resolution)[None]
