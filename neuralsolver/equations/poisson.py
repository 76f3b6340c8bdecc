"""Poisson equation.

    Δu = a f  in Ω = (0, 1)²,   u = 0 on ∂Ω                                     (Sec. C.1.2)

Networks see f but not a: the residual is the only way in which a reaches them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, constant, plain
from neuralsolver.fields.grid import Grid
from neuralsolver.fields.space import Space
from neuralsolver.fields.stencils import laplacian, laplacian_eigenvalues, mirror_factor
from neuralsolver.fields.units import Units, exponent_of, largest, scaled, with_fixed
from neuralsolver.limits import FINITE, Float
from neuralsolver.reference.random_fields import cosine_field

SOURCE_AMPLITUDE = 100.0
"""f is this multiple of the Gaussian field. The paper does not say; its residual tables imply an
rms of 25-30, and the field has rms 0.28."""


@dataclass(frozen=True)
class Poisson(Equation):
    """Δu − a f, with the factor a in `scale`.

    >>> import neuralsolver as ns
    >>> problem = ns.Problem.random(ns.Poisson(scale=2.0), 16)
    >>> tuple(problem.residual(problem.zeros()).shape)
    (1, 1, 16, 16)
    """

    linear: ClassVar[bool] = True
    self_adjoint: ClassVar[bool] = True
    jacobian_depends_on: ClassVar[tuple[str, ...]] = ()

    scale: float = constant(2.0, FINITE)
    source_amplitude: float = constant(SOURCE_AMPLITUDE, Float(above=0.0, most=1e150))

    def definite_on(self, grid: Grid) -> bool:
        return grid.walled

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        grid = space.grid
        return laplacian(u, grid) - grid.embed(self.scale * grid.interior(inputs))

    def smallest_singular_value(
        self, grid: Grid, inputs: Tensor, fixed_inside: bool = False
    ) -> Tensor:
        # known points strike rows and columns of −Δ, and its least eigenvalue cannot fall by that
        least = laplacian_eigenvalues(grid).min() / mirror_factor(grid)
        return least.expand(inputs.shape[0])

    def in_lengths(self, length: float) -> tuple[Poisson, float]:
        return self, length**2

    def natural_units(self, inputs: Tensor, fixed: Tensor) -> Units | None:
        scale = torch.tensor([abs(plain(self.scale))], dtype=torch.float64)
        # a may be anything, even where a f would not fit: it goes into the unit of u
        factor, source = exponent_of(scale), largest(inputs).double()
        unit = with_fixed(factor + exponent_of(source), scale.log2() + source.log2(), fixed)
        if not bool(factor.any() or unit.any() or exponent_of(source).any()):
            return None
        equation = replace(self, scale=math.ldexp(plain(self.scale), -int(factor)))
        return Units(equation, scaled(inputs, factor - unit), unit, unit)

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return self.source_amplitude * cosine_field(rng, resolution)[None]
