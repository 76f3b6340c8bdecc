"""Rectangles of any number of points: a plate of 2 by 1, and what the summary says of the way."""

from __future__ import annotations

import numpy as np

import neuralsolver as ns


def main() -> None:
    solver = ns.load("helmholtz")
    for points, lengths in (((96, 70), (1.2, 0.8)), ((128, 64), (2.0, 1.0)), ((30, 150), (1, 5))):
        source = np.random.default_rng(0).standard_normal(points)
        problem = ns.Problem(ns.Helmholtz(wavenumber=1.0), source, lengths=lengths)
        print(solver.solve(problem, tolerance=1e-8).summary())


if __name__ == "__main__":
    main()
