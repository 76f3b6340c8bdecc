"""Solve random problems and one of your own with a shipped model, and draw the answer."""

from __future__ import annotations

import numpy as np

import neuralsolver as ns


def main() -> None:
    solver = ns.load("helmholtz")
    print(f"trained on {solver.equation} with {solver.resolution} points per side")

    # random instances of the equation that the model was trained on
    random = ns.Problem.random(solver.equation, solver.resolution, count=4, seed=7)
    print(solver.solve(random).summary())

    # a source of your own, for another wavenumber, on a finer grid; numpy in, numpy out
    wavenumber, n = 1.5, 2 * solver.resolution + 1
    r = np.linspace(0, 1, n)
    exact = np.outer(np.sin(np.pi * r), np.sin(2 * np.pi * r))
    source = (wavenumber**2 - 5 * np.pi**2) * exact
    problem = ns.Problem(ns.Helmholtz(wavenumber=wavenumber), source)
    solution = solver.solve(problem, tolerance=1e-10)
    print(solution.summary())
    # what is left here is the error of the five-point stencil, not of the solver
    print(f"distance from sin πr₁ sin 2πr₂: {np.abs(solution.u - exact).max():.1e}")

    solution.plot("solution.png")
    print("wrote solution.png")
    if not solution.good:
        raise SystemExit(3)


if __name__ == "__main__":
    main()
