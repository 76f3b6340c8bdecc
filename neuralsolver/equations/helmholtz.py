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
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, check_finite, check_positive, plain
from neuralsolver.equations.grid import Grid
from neuralsolver.equations.poisson import SOURCE_AMPLITUDE
from neuralsolver.equations.stencils import laplacian, laplacian_eigenvalues, mirror_factor
from neuralsolver.equations.units import Units, largest, per_sample, unit_of
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
    any_grid: ClassVar[bool] = True

    wavenumber: float = 1.0
    nonlinearity: float = 0.0
    source_amplitude: float = 0.0

    def __post_init__(self) -> None:
        check_finite("wavenumber", self.wavenumber)
        check_finite("nonlinearity", self.nonlinearity)
        if self.source_amplitude == 0.0:
            amplitude = SOURCE_AMPLITUDE if self.linear else NONLINEAR_SOURCE_AMPLITUDE
            object.__setattr__(self, "source_amplitude", amplitude)
        check_positive("source_amplitude", self.source_amplitude)

    @property
    def name(self) -> str:
        return "helmholtz" if self.linear else "nonlinear-helmholtz"

    @property
    def linear(self) -> bool:
        return bool(plain(self.nonlinearity) == 0.0)

    @property
    def self_adjoint(self) -> bool:
        return True

    def definite_on(self, grid: Grid) -> bool:
        if not (grid.walled and self.linear):
            return False
        # below the first resonance Δ + κ² is negative
        return float(plain(self.wavenumber)) ** 2 < float(laplacian_eigenvalues(grid).min())

    @property
    def jacobian_reads(self) -> tuple[str, ...]:
        return () if self.linear else ("solution",)

    def residual(self, u: Tensor, inputs: Tensor) -> Tensor:
        return self.residual_on(self.grid(u.shape[-1]), u, inputs)

    def residual_on(self, grid: Grid, u: Tensor, inputs: Tensor) -> Tensor:
        centre = grid.interior(u)
        reaction = self.wavenumber**2 * centre - grid.interior(inputs)
        if not self.linear:
            reaction = reaction + self.nonlinearity * centre**3
        return laplacian(u, grid) + grid.embed(reaction)

    def smallest_singular_value(self, inputs: Tensor) -> Tensor | None:
        if not self.linear:
            return None
        distances = (laplacian_eigenvalues(inputs.shape[-1]) - self.wavenumber**2).abs()
        return distances.min().expand(inputs.shape[0])

    def smallest_singular_value_on(self, grid: Grid, inputs: Tensor) -> Tensor | None:
        least = laplacian_eigenvalues(grid).min() - float(self.wavenumber) ** 2
        # an indefinite operator may become singular when points of it are known
        if not self.linear or least <= 0:
            return None
        return (least / mirror_factor(grid)).expand(inputs.shape[0])

    def in_lengths(self, length: float) -> tuple[Helmholtz, float]:
        constants = {
            "wavenumber": self.wavenumber * length,
            "nonlinearity": self.nonlinearity * length**6,
        }
        return replace(self, **constants), length**2

    def natural_units(self, inputs: Tensor) -> Units | None:
        size = largest(inputs)
        # with λu³ the unit of u is a constant of the equation: that of the largest field
        unit = unit_of(size if self.linear else size.max().expand_as(size))
        strength = 0.0 if self.linear else self.nonlinearity * float(unit[0].square())
        if not (bool((unit != 1).any()) and math.isfinite(strength)):
            return None
        equation = replace(self, nonlinearity=strength)
        return Units(equation, inputs / per_sample(unit, inputs), unit, unit)

    @property
    def unique_where_definite(self) -> bool:
        # where −J = −Δ − κ² − 3λu² > 0 is a convex set, F is injective on it (reference.semilinear)
        return self.nonlinearity > 0 and self.wavenumber**2 < 2 * math.pi**2

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return self.source_amplitude * cosine_field(rng, resolution)[None]
