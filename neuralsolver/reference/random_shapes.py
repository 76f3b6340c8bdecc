"""Random shapes inside the unit square: which points of a grid are held, for training.

    blobs       r(φ) < R (1 + Σₖ aₖ cos(kφ + φₖ)), k = 1 … 4: a union of them is the domain
    polygons    three to seven corners around a centre, flattened and turned: the same
    clouds      where a smooth Gaussian field exceeds a level: many blobs that have grown together
    holes       blobs and polygons that are taken out of the square, or of one of the above

and single points that are held. Gears, mazes, letters, slits and combs are not among them: those
are for tests.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.reference.random_fields import cosine_field

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FEWEST_FREE = 30
"""Of points: a smaller domain has nothing to teach."""


def random_shape(rng: np.random.Generator, resolution: int) -> Mask:
    """The held points of one shape, (n, n); the walls of the square are held in any case.

    >>> import numpy as np
    >>> held = random_shape(np.random.default_rng(0), 32)
    >>> held.shape, bool(held.all())
    ((32, 32), False)
    """
    line = np.linspace(-1.0, 1.0, resolution)
    x, y = np.meshgrid(line, line, indexing="ij")
    while True:
        held = _domain(rng, x, y)
        if rng.random() < 0.3:
            share = np.exp(rng.uniform(np.log(1e-3), np.log(0.03)))
            held = held | (rng.random(held.shape) < share)
        if np.count_nonzero(~held[1:-1, 1:-1]) >= FEWEST_FREE:
            return held


def _domain(rng: np.random.Generator, x: Array, y: Array) -> Mask:
    """Blobs, polygons, clouds or the square, most of them with holes."""
    held = np.zeros(x.shape, dtype=bool)
    kind = rng.choice(
        ["square", "holes", "blobs", "polygons", "clouds"], p=[0.05, 0.4, *3 * [0.55 / 3]]
    )
    if kind == "square":
        return held
    if kind == "clouds":
        field = cosine_field(rng, len(x), smoothness=4.0, inverse_length=rng.uniform(5, 45))
        held = field > rng.uniform(-0.3, 1.2) * field.std()
    elif kind != "holes":
        part = _blob if kind == "blobs" else _polygon
        held = ~np.any([part(rng, x, y) for _ in range(rng.integers(1, 5))], axis=0)
    if kind == "holes" or rng.random() < 0.4:
        for _ in range(rng.integers(1, 9)):
            held = held | (_blob if rng.random() < 0.5 else _polygon)(rng, x, y)
    return np.asarray(held)


def _blob(rng: np.random.Generator, x: Array, y: Array) -> Mask:
    first, second = rng.uniform(-0.7, 0.7, 2)
    angle, distance = np.arctan2(y - second, x - first), np.hypot(x - first, y - second)
    radius = np.exp(rng.uniform(np.log(0.06), np.log(0.6)))
    waves = [rng.uniform(-0.2, 0.2) * np.cos(k * angle + rng.uniform(0, 7)) for k in range(1, 5)]
    return np.asarray(distance < radius * (1 + sum(waves)))


def _polygon(rng: np.random.Generator, x: Array, y: Array) -> Mask:
    count = int(rng.integers(3, 8))
    angles = np.sort(rng.uniform(0, 2 * np.pi, count))
    radii = rng.uniform(0.3, 1.0, count) * rng.uniform(0.15, 1.0)
    flat = np.exp(rng.uniform(np.log(0.15), 0.0))
    corners = radii * np.exp(1j * angles)
    corners = (corners.real + 1j * flat * corners.imag) * np.exp(1j * rng.uniform(0, np.pi))
    corners += complex(*rng.uniform(-0.7, 0.7, 2))
    inside = np.zeros(x.shape, dtype=bool)
    # a point is inside if a ray from it meets an odd number of edges
    for a, b in zip(corners, np.roll(corners, -1), strict=True):
        if a.imag == b.imag:
            continue
        meets = a.real + (b.real - a.real) * (y - a.imag) / (b.imag - a.imag)
        inside ^= ((a.imag > y) != (b.imag > y)) & (x < meets)
    return inside
