"""Values on the walls: a plate heated on one side, and the same answer from a formula."""

from __future__ import annotations

import math

import numpy as np
import torch

import neuralsolver as ns


def temperature(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """sin(πx) sinh(πy) / sinh π: harmonic, and zero on all walls but the upper one."""
    return torch.sin(math.pi * x) * torch.sinh(math.pi * y) / math.sinh(math.pi)


def main() -> None:
    solver = ns.load("poisson")
    for points in (64, 128, 256):
        problem = ns.Problem(ns.Poisson(), np.zeros((points, points)), walls=temperature)
        solution = solver.solve(problem, tolerance=1e-10)
        exact = temperature(*problem.grid.points()).numpy()
        error = np.linalg.norm(solution.u - exact) / np.linalg.norm(exact)
        print(f"{points} points a side: {int(solution.steps[0])} steps, off by {error:.1e}")


if __name__ == "__main__":
    main()
