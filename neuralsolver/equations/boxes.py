"""Darcy flow in the unit cube, for training: media and sources are drawn in three dimensions.

    −∇·(a∇u) = s f  in Ω = (0, 1)³,   u = 0 on ∂Ω,   a ∈ {a₋, a₊}

One medium of four is uniform, of the geometric mean of the two phases: that is Poisson's equation,
and a corrector that has seen both serves both. To solve a problem in a box none of this is needed:
`Problem(ForcedDarcy(), …, lengths=(1, 1, 1))` is the same equation on a grid of three axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from neuralsolver.equations.base import Array
from neuralsolver.equations.darcy import ForcedDarcy
from neuralsolver.equations.poisson import SOURCE_AMPLITUDE
from neuralsolver.reference.random_fields import box_field, two_phase

UNIFORM = 0.25
"""The share of the media that have one phase."""


@dataclass(frozen=True)
class DarcyBox(ForcedDarcy):
    """`ForcedDarcy` stated on the unit cube; what is drawn are permeability and source.

    >>> import neuralsolver as ns
    >>> problem = ns.Problem.random(ns.DarcyBox(), 8)
    >>> tuple(problem.inputs.shape), problem.grid.dimension
    ((1, 2, 8, 8, 8), 3)
    """

    dimension: ClassVar[int] = 3

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        uniform = rng.random() < UNIFORM
        medium = two_phase(box_field(rng, resolution), self.low, self.high)
        if uniform:
            medium = np.full_like(medium, math.sqrt(self.low * self.high))
        return np.stack([medium, SOURCE_AMPLITUDE * box_field(rng, resolution)])
