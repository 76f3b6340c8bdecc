"""Shapes of families that no network was trained on: gear, maze, letters, L, slit, comb.

The gaps of a comb are two points wide on every grid, and the walls of mazes, slits and combs one
or two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuralsolver.equations import Darcy, Equation, FixedValues, Poisson, Problem
from neuralsolver.reference.random_fields import cosine_field

Mask = npt.NDArray[np.bool_]

SEED = 20_264
FAMILIES = ("gear", "maze", "letters", "L", "slit", "comb")


def fresh(rng: np.random.Generator, n: int, family: str) -> Mask:
    """The points outside a random shape of a family; turned by a multiple of a right angle."""
    x, y = _plane(n)
    if family == "gear":
        teeth, radius, turn = rng.integers(5, 16), rng.uniform(0.6, 0.75), rng.uniform(0, 6)
        rim = radius + 0.15 * np.sign(np.cos(teeth * np.arctan2(y, x) + turn))
        outside = np.hypot(x, y) > rim
    elif family == "maze":
        outside = _maze(n, int(rng.integers(5, 11)) * max(1, n // 64), rng)
    elif family == "letters":
        outside = ~_letters(rng.uniform(0.95, 1.1) * x, rng.uniform(0.8, 1.1) * y)
    elif family == "L":
        right, top = rng.uniform(-0.5, 0.5, 2)
        outside = (x > right) & (y > top)
    elif family == "slit":
        height, left = rng.uniform(-0.5, 0.5), rng.uniform(-0.9, 0.0)
        outside = (np.abs(y - height) < 2 / n) & (x > left)
    else:
        outside = (np.arange(n)[:, None] % 3 == 0) & (np.abs(x) < rng.uniform(0.4, 0.9))
    return np.asarray(np.rot90(outside, int(rng.integers(4))).copy())


def fresh_problem(equation: str, n: int, number: int, seed: int = SEED) -> tuple[str, Problem]:
    """A random problem on a fresh shape and the family of it; every other one has values."""
    rng = np.random.default_rng([seed, number])
    family = FAMILIES[number % len(FAMILIES)]
    outside = fresh(rng, n, family)
    values = cosine_field(rng, n) if rng.random() < 0.5 else np.zeros((n, n))
    made: Equation = Poisson() if equation == "poisson" else Darcy()
    inputs = Problem.random(made, n, seed=int(rng.integers(2**31))).inputs
    return family, Problem(made, inputs, fixed=FixedValues(outside, values))


def _plane(n: int) -> tuple[Any, Any]:
    line = np.linspace(-1, 1, n)
    y, x = np.meshgrid(-line, line, indexing="ij")
    return x, y


def _maze(n: int, cell: int, rng: np.random.Generator) -> Mask:
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    gates = rng.integers(0, n // cell + 1, n // cell + 1)
    bars = (i % cell == 0) & (j // cell != gates[i // cell])
    posts = (j % (3 * cell) == 0) & (i % (2 * cell) > cell // 2)
    return np.asarray(bars | posts)


def _letters(x: Any, y: Any) -> Mask:
    """E, N and S in strokes, as one domain."""
    left = (np.abs(x + 0.85) < 0.06) & (np.abs(y) < 0.6)
    for height in (-0.54, 0.0, 0.54):
        left |= (np.abs(y - height) < 0.06) & (x > -0.91) & (x < -0.4)
    middle = ((np.abs(x + 0.2) < 0.06) | (np.abs(x - 0.2) < 0.06)) & (np.abs(y) < 0.6)
    middle |= (np.abs(y + 2.7 * x) < 0.16) & (np.abs(x) < 0.26) & (np.abs(y) < 0.6)
    ring = np.abs(np.hypot(x - 0.65, np.abs(y) - 0.3) - 0.24) < 0.06
    return np.asarray(left | middle | ring)
