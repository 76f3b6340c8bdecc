"""Random problems of nonlinear waves, for training and for the race.

Sources are beams, or points: Gaussian blobs of an eighth of a wavelength.

Sources are scaled so that the linear solution has a maximum of 1. Then ε is the largest relative
change of s² that the linear wave would cause. The range of ε is that of a box of 8 wavelengths and
falls with the length of the box, so that a beam gathers the same nonlinear phase on its way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from neuralsolver.data.wave_media import beam, random_medium
from neuralsolver.solvers.sparse_lu import SparseLU
from neuralsolver.solvers.wave_operator import LAYER_WAVELENGTHS, Complex, WaveOperator


@dataclass(frozen=True)
class WaveFamily:
    """What random problems are drawn from.

    Args:
        points: Points a side.
        media: Families of media, drawn with equal chances.
        contrast: Smallest and largest contrast.
        strength: Smallest and largest ε of a box of 8 wavelengths; a longer one has less.
        point_sources: Number of point sources, instead of beams where it is not zero.
        points_per_wavelength: Where s = 1.
        order: 2 or 4, of the stencil.
    """

    points: int = 64
    media: tuple[str, ...] = ("smooth",)
    contrast: tuple[float, float] = (0.2, 0.4)
    strength: tuple[float, float] = (0.3, 0.7)
    point_sources: int = 0
    points_per_wavelength: float = 8.0
    order: int = 4

    def draw(self, rng: np.random.Generator) -> tuple[WaveOperator, SparseLU, Complex]:
        """One problem.

        Args:
            rng: Random numbers; the same state gives the same problem.

        Returns:
            The problem, the factors of its linear part and its linear solution.
        """
        contrast = rng.uniform(*self.contrast)
        wavelengths = self.points / self.points_per_wavelength
        strength = rng.uniform(*self.strength) * 8.0 / wavelengths
        family = self.media[rng.integers(len(self.media))]
        slowness = random_medium(rng, self.points, family, contrast, self.points_per_wavelength)
        places = (self.points, self.points_per_wavelength)
        if self.point_sources:
            source = sum(point_source(rng, *places) for _ in range(self.point_sources))
        else:
            source = beam(rng, *places)
        wavenumber = 2 * math.pi * (self.points - 1) / self.points_per_wavelength
        problem = WaveOperator(slowness, np.asarray(source), wavenumber, strength, self.order)
        scaled, factor, linear, _ = problem.normalised()
        return scaled, factor, linear


def point_source(rng: np.random.Generator, points: int, points_per_wavelength: float) -> Complex:
    """A small Gaussian blob of random phase outside of the absorbing layer: (points, points)."""
    margin = (LAYER_WAVELENGTHS + 0.5) * points_per_wavelength
    row, column = rng.uniform(margin, points - 1 - margin, 2)
    rows, columns = np.meshgrid(np.arange(points), np.arange(points), indexing="ij")
    squared = (rows - row) ** 2 + (columns - column) ** 2
    blob = np.exp(-0.5 * squared / (points_per_wavelength / 8) ** 2)
    result: Complex = blob * np.exp(1j * rng.uniform(0, 2 * math.pi))
    return result
