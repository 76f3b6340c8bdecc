"""A shape: the field between a gear at one volt and a ring at zero, by default and with the
corrector that reads shapes; the picture is shape.png."""

from __future__ import annotations

import numpy as np

import neuralsolver as ns

POINTS = 64


def main() -> None:
    x, y = np.meshgrid(*2 * [np.linspace(-1, 1, POINTS)], indexing="ij")
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    gear, ring = radius < 0.4 + 0.1 * np.sign(np.cos(8 * angle)), radius > 0.9
    known = ns.FixedValues(gear | ring, np.where(gear, 1.0, 0.0))
    problem = ns.Problem(ns.Poisson(), np.zeros((POINTS, POINTS)), fixed=known)

    default = ns.load("poisson").solve(problem, tolerance=1e-10)
    print(default.summary())
    corrected = ns.load("shapes").solve(problem, tolerance=1e-10)
    print(corrected.summary())
    print(f"they differ by {np.abs(default.u - corrected.u).max():.1e}")
    corrected.plot("shape.png")


if __name__ == "__main__":
    main()
