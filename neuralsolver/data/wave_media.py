"""Random media and beams for waves.

A medium is a slowness s between 1 − contrast and 1, of one of three families:

    smooth      a Gaussian random field with a correlation length of about one wavelength
    blocky      its four quartiles, each of one slowness
    ellipses    3 to 8 ellipses of random slowness in a background

A beam enters from one of the sides, at the edge of the absorbing layer, with a Gaussian profile and
a tilt of at most 30 degrees; it is modulated along its way so that it radiates only inwards. Its
waist is 0.75 to 1.5 wavelengths in a box of 8 and grows with the square root of the box, so that
the beam spreads over the same part of every box. Lengths are in wavelengths of a medium of slowness
1, so that a box of more points is a larger box of the same kind of medium.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import ndimage

from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.wave_operator import (
    LAYER_WAVELENGTHS,
    Complex,
    Real,
)

FAMILIES = ("smooth", "blocky", "ellipses")


def random_medium(
    rng: np.random.Generator,
    points: int,
    family: str,
    contrast: float,
    points_per_wavelength: float = 8.0,
) -> Real:
    """A slowness field between 1 − contrast and 1: (points, points)."""
    if family not in FAMILIES:
        raise InvalidInput("family", f"one of {', '.join(FAMILIES)}", family)
    if family == "ellipses":
        level = _ellipses(rng, points, points_per_wavelength)
    else:
        length = rng.uniform(0.6, 1.4) * points_per_wavelength
        noise = ndimage.gaussian_filter(rng.standard_normal((points, points)), length, mode="wrap")
        ranks = noise.ravel().argsort().argsort().reshape(noise.shape) / noise.size
        level = np.floor(4 * ranks) / 3 if family == "blocky" else _stretched(noise)
    return 1.0 - contrast * level


def beam(rng: np.random.Generator, points: int, points_per_wavelength: float) -> Complex:
    """The source of a tilted beam from a random side: (points, points)."""
    centre = points * rng.uniform(0.35, 0.65)
    waist = math.sqrt(points * points_per_wavelength) * rng.uniform(0.27, 0.53)
    angle = math.radians(rng.uniform(-30, 30))
    phase = np.exp(-2j * math.pi * rng.uniform())
    source = phase * beam_source((points, points), points_per_wavelength, centre, waist, angle)
    return np.ascontiguousarray(np.rot90(source, int(rng.integers(4))))


def beam_source(
    shape: tuple[int, int],
    points_per_wavelength: float,
    centre: float,
    waist: float,
    angle: float = 0.0,
) -> Complex:
    """The source of a beam that enters at the first row, a quarter wavelength inside of the layer.

    Args:
        shape: (n, m), points along both axes.
        points_per_wavelength: Where s = 1.
        centre: Of the beam on the first row, in points.
        waist: Where its amplitude is 1/e, in points from the centre.
        angle: To the first axis, in radians.

    Returns:
        f at the points: (n, m).
    """
    wavenumber = 2 * math.pi / points_per_wavelength
    depth, across = np.meshgrid(*map(np.arange, shape), indexing="ij")
    edge = (LAYER_WAVELENGTHS + 0.25) * points_per_wavelength
    profile = np.exp(-(((across - centre) / waist) ** 2))
    profile = profile * np.exp(-0.5 * ((depth - edge) / (points_per_wavelength / 4)) ** 2)
    # with 1 - iγ in the equation, waves that leave the source are exp(-ikr)
    phase = wavenumber * (math.cos(angle) * depth + math.sin(angle) * (across - centre))
    source: Complex = profile * np.exp(-1j * phase)
    return source


def _stretched(noise: Real) -> Real:
    lowest, highest = np.quantile(noise, [0.02, 0.98])
    stretched: Real = np.clip((noise - lowest) / (highest - lowest), 0.0, 1.0)
    return stretched


def _ellipses(rng: np.random.Generator, points: int, points_per_wavelength: float) -> Real:
    level = np.full((points, points), rng.uniform(0.0, 1.0))
    wavelengths = points / points_per_wavelength
    rows, columns = np.meshgrid(np.arange(points), np.arange(points), indexing="ij")
    for _ in range(round(rng.uniform(3, 8) * (wavelengths / 8) ** 2)):
        row, column = rng.uniform(0, points, 2)
        axes = points_per_wavelength * rng.uniform(0.4, 1.6, 2)
        angle = rng.uniform(0, math.pi)
        along = math.cos(angle) * (rows - row) + math.sin(angle) * (columns - column)
        across = math.cos(angle) * (columns - column) - math.sin(angle) * (rows - row)
        level[(along / axes[0]) ** 2 + (across / axes[1]) ** 2 < 1.0] = rng.uniform(0.0, 1.0)
    return level
