"""Problems on random shapes with their solutions: what a corrector that reads shapes learns from.

    −∇·(a∇u) = f  where u is free,    u = g  where it is held

a is constant, of two phases, or smooth with a contrast of up to some thirty; f is one or a smooth
field, g zero or a smooth field. Solutions are those of a sparse factorisation. They are drawn when
asked for, and kept in memory: sample i depends on (seed, i) only. Shapes inside the unit square:

    blobs       r(φ) < R (1 + Σₖ aₖ cos(kφ + φₖ)), k = 1 … 4: a union of them is the domain
    polygons    three to seven corners around a centre, flattened and turned: the same
    clouds      where a smooth Gaussian field exceeds a level: many blobs that have grown together
    holes       blobs and polygons that are taken out of the square, or of one of the above

and single points that are held. Gears, mazes, letters, slits and combs are not among them: those
are for tests.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations import Darcy, FixedValues, Problem, generator
from neuralsolver.equations.base import Array
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.reference.random_fields import cosine_field, two_phase
from neuralsolver.solvers.sparse_newton import factorised

Mask = npt.NDArray[np.bool_]

KEY = 41
CHUNK = 50
FEWEST_FREE = 30
"""Of points: a smaller domain has nothing to teach."""


class ShapedExamples:
    """`count` random problems on a grid of n × n points.

    >>> examples = ShapedExamples(2, 16)
    >>> problem, solution = examples.posed([0, 1])
    >>> float(problem.residual(solution).abs().max()) < 1e-8
    True
    """

    equation = Darcy(source="field")

    def __init__(self, count: int, resolution: int, seed: int = 0) -> None:
        drawn = [_draw(generator(seed, KEY, i), resolution) for i in range(count)]
        inputs, held, values = (np.stack(part) for part in zip(*drawn, strict=True))
        self.inputs, self.held = torch.from_numpy(inputs), torch.from_numpy(held)[:, None]
        self.values = torch.from_numpy(values)[:, None]
        self.solutions = torch.zeros_like(self.values)
        for first in range(0, count, CHUNK):
            chosen = slice(first, first + CHUNK)
            self.solutions[chosen] = _solved(self._problem(chosen))

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def fingerprint(self) -> str:
        """The hash of everything that was drawn."""
        digest = hashlib.sha256()
        for part in (self.inputs, self.held, self.values):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()

    def posed(self, index: Any) -> tuple[Problem, Tensor]:
        """The samples at `index` as a problem, and their solutions."""
        return self._problem(index), self.solutions[index]

    def _problem(self, index: Any) -> Problem:
        known = FixedValues(self.held[index], self.values[index])
        return Problem(self.equation, self.inputs[index], fixed=known)


def _draw(rng: np.random.Generator, resolution: int) -> tuple[Any, Any, Any]:
    """(a, f), the held points, and g."""
    held = random_shape(rng, resolution)

    def smooth() -> Any:
        return _unit(cosine_field(rng, resolution, inverse_length=rng.uniform(2, 15)))

    kind = rng.integers(3)
    if kind == 0:
        a = np.full((resolution, resolution), 6.0)
    elif kind == 1:
        a = two_phase(cosine_field(rng, resolution), 3.0, 12.0)
    else:
        a = 6.0 * np.exp(rng.uniform(0.2, 1.0) * smooth().clip(-1.7, 1.7))
    f = np.ones_like(a) if rng.random() < 0.3 else smooth()
    g = np.zeros_like(a)
    if rng.random() < 0.5:
        # beside values of size one a source of size one would not be seen
        g, f = smooth(), rng.uniform(0, 100) * f
    return np.stack([a, f]), held, np.where(held, g, 0.0)


def _unit(field: Any) -> Any:
    return field / field.std()


def _solved(problem: Problem) -> Tensor:
    guess, grid = problem.zeros(), problem.grid
    right = -grid.flatten(problem.residual(guess)).numpy()
    matrices = sparse_jacobian(problem, guess)
    change = np.stack([factorised(m)(r) for m, r in zip(matrices, right, strict=True)])
    return problem.impose(guess + grid.unflatten(torch.from_numpy(change), guess))


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
