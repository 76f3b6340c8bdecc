"""Steady advection and diffusion with reaction, and what one implicit time step solves.

    c u + v·∇u − ∇·(a∇u) = f      a(r) > 0, f(r),  v and c ≥ 0 constant

Fluxes of a are those of Darcy flow; ∇u is a central difference, of second order, which oscillates
where the cell Péclet number |v|h/a exceeds 2. On a Neumann side ∂u/∂n = 0, so what arrives there
with v leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from neuralsolver.equations.base import Array, Equation, check_constant, constant
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Grid
from neuralsolver.fields.space import Space
from neuralsolver.fields.stencils import central_difference, flux_divergence
from neuralsolver.limits import FINITE, Float
from neuralsolver.reference.random_fields import cosine_field


@dataclass(frozen=True)
class AdvectionDiffusion(Equation):
    """c u + v·∇u − ∇·(a∇u) − f, with a diffusivity a and a source f as inputs.

    Attributes:
        velocity: v, one number per axis; () is zero.
        reaction: c, at least zero.

    >>> import neuralsolver as ns, numpy as np
    >>> from neuralsolver.equations.advection_diffusion import AdvectionDiffusion
    >>> inputs = np.stack([np.full((33, 33), 0.1), np.ones((33, 33))])
    >>> ns.solve(ns.Problem(AdvectionDiffusion(velocity=(1.0, 0.0)), inputs)).good
    True
    """

    input_names: ClassVar[tuple[str, ...]] = ("diffusivity", "source")
    linear: ClassVar[bool] = True
    jacobian_depends_on: ClassVar[tuple[str, ...]] = ("inputs",)

    velocity: tuple[float, ...] = ()
    reaction: float = constant(0.0, Float(0.0))

    def __post_init__(self) -> None:
        velocity = self.velocity
        if not isinstance(velocity, Sequence) or isinstance(velocity, str):
            raise InvalidInput("velocity", "one number per axis", velocity)
        for part in velocity:
            check_constant("velocity", part, FINITE)
        object.__setattr__(self, "velocity", tuple(float(part) for part in velocity))
        super().__post_init__()

    @property
    def self_adjoint(self) -> bool:  # type: ignore[override]
        return not any(self.velocity)

    def definite_on(self, grid: Grid) -> bool:
        return grid.walled and self.self_adjoint

    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        grid = space.grid
        if self.velocity and len(self.velocity) != grid.dimension:
            raise InvalidInput("velocity", f"{grid.dimension} numbers", self.velocity)
        change = grid.interior(self.reaction * u - inputs[:, 1:])
        total = grid.embed(change) - flux_divergence(inputs[:, :1], u, grid)
        for axis, speed in enumerate(self.velocity):
            if speed:
                total = total + speed * central_difference(u, axis, grid)
        return total

    def in_lengths(self, length: float) -> tuple[AdvectionDiffusion, float]:
        velocity = tuple(part * length for part in self.velocity)
        return replace(self, velocity=velocity, reaction=self.reaction * length**2), length**2

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        exponent, source = cosine_field(rng, resolution), cosine_field(rng, resolution)
        return np.stack([np.exp(exponent), source])

    def check_inputs(self, inputs: Tensor) -> None:
        super().check_inputs(inputs)
        if not bool((inputs[:, :1] > 0).all()):
            raise InvalidInput("diffusivity", "positive values", float(inputs[:, :1].min()))

    def largest_cell_peclet(self, grid: Grid, diffusivity: Tensor) -> float:
        """The largest |v|h/a over the axes and points of a grid."""
        steps = zip(self.velocity, grid.spacing, strict=True) if self.velocity else ()
        least = float(diffusivity.min())
        return max((abs(speed) * h / least for speed, h in steps), default=0.0)
