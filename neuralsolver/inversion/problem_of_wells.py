"""An observed Darcy problem with its prior, in the form every inversion method reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from neuralsolver.inversion.forward import HeadModel
from neuralsolver.inversion.priors import Prior

Array = npt.NDArray[np.float64]

FLOOR = 1e-3
"""The smallest noise a method assumes, in units of the rms head: heads are never exact."""


@dataclass(frozen=True, eq=False)
class WellData:
    """Heads in wells, cells of known permeability, and the prior.

    Args:
        prior: The distribution of permeabilities before any measurement.
        resolution: Vertices a side.
        source: The constant f.
        positions: Of the wells, (m, 2).
        heads: What they saw, (m,).
        noise: Standard deviation of each, (m,).
        known: (k, 2) grid indices of cells whose permeability was measured.
        values: Their permeability, (k,).
    """

    prior: Prior
    resolution: int
    source: float
    positions: Array
    heads: Array
    noise: Array
    known: npt.NDArray[np.int64]
    values: Array

    @cached_property
    def model(self) -> HeadModel:
        """Heads and derivatives."""
        return HeadModel(self.positions, self.resolution, self.source)

    @property
    def size(self) -> float:
        """The rms head."""
        size = float(np.sqrt(np.mean(self.heads**2))) if len(self.heads) else 0.0
        return size or 1.0

    @property
    def safe_noise(self) -> Array:
        """The noise, at least FLOOR of the rms head."""
        return np.maximum(self.noise, FLOOR * self.size)

    def misfit(self, permeability: Array) -> Array:
        """The rms of (heads − G(a)) / noise of permeabilities (S, n, n), (S,)."""
        if not len(self.heads):
            return np.zeros(len(permeability))
        missed = (self.heads - self.model.heads(permeability)) / self.safe_noise
        values: Array = np.sqrt(np.mean(missed**2, axis=1))
        return values

    def fix(self, permeability: Array) -> Array:
        """Fields (S, n, n) with the known cells set."""
        if len(self.known):
            permeability = permeability.copy()
            permeability[:, self.known[:, 0], self.known[:, 1]] = self.values
        return permeability
