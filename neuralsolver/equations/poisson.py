"""Poisson equation.

    Δu = a f  in Ω = (0, 1)²,   u = 0 on ∂Ω                                     (Sec. C.1.2)

Networks see f but not a: the residual is the only way in which a reaches them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, check_finite, check_positive
from neuralsolver.equations.grid import Grid
from neuralsolver.equations.stencils import laplacian, laplacian_eigenvalues, mirror_factor
from neuralsolver.equations.units import Units, extraordinary, largest, per_sample, unit_of
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

    any_grid: ClassVar[bool] = True

    scale: float = 2.0
    source_amplitude: float = SOURCE_AMPLITUDE

    def __post_init__(self) -> None:
        check_finite("scale", self.scale)
        check_positive("source_amplitude", self.source_amplitude)

    @property
    def linear(self) -> bool:
        return True

    @property
    def self_adjoint(self) -> bool:
        return True

    def definite_on(self, grid: Grid) -> bool:
        return grid.walled

    @property
    def jacobian_reads(self) -> tuple[str, ...]:
        return ()

    def residual(self, u: Tensor, inputs: Tensor) -> Tensor:
        return self.residual_on(self.grid(u.shape[-1]), u, inputs)

    def residual_on(self, grid: Grid, u: Tensor, inputs: Tensor) -> Tensor:
        return laplacian(u, grid) - grid.embed(self.scale * grid.interior(inputs))

    def smallest_singular_value(self, inputs: Tensor) -> Tensor:
        return laplacian_eigenvalues(inputs.shape[-1]).min().expand(inputs.shape[0])

    def smallest_singular_value_on(self, grid: Grid, inputs: Tensor) -> Tensor:
        # known points strike rows and columns of −Δ, and its least eigenvalue cannot fall by that
        least = laplacian_eigenvalues(grid).min() / mirror_factor(grid)
        return least.expand(inputs.shape[0])

    def in_lengths(self, length: float) -> tuple[Poisson, float]:
        return self, length**2

    def natural_units(self, inputs: Tensor) -> Units | None:
        size, scale = largest(inputs), torch.tensor([abs(self.scale)], dtype=torch.float64)
        if not bool(extraordinary(size).any() or extraordinary(scale)):
            return None
        # a may be anything, even where a f would not fit: it goes into the unit of u
        unit, factor = unit_of(size), float(unit_of(scale))
        equation = replace(self, scale=self.scale / factor)
        return Units(equation, inputs / per_sample(unit, inputs), factor * unit, factor * unit)

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return self.source_amplitude * cosine_field(rng, resolution)[None]
