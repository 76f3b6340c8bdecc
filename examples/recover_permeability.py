"""A permeability from 64 measured heads, by gradient descent through the solver."""

from __future__ import annotations

import torch

import neuralsolver as ns
from neuralsolver.equations import Grid

POINTS = 64


def permeability(coefficients: torch.Tensor) -> torch.Tensor:
    """log a is a sum of the nine smoothest cosines of the unit square."""
    x, y = Grid.between_walls(POINTS, POINTS).points()
    waves = [torch.cos(torch.pi * (p * x)) * torch.cos(torch.pi * (q * y)) for p, q in MODES]
    return 6.0 * torch.exp(sum(c * wave for c, wave in zip(coefficients, waves, strict=True)))


MODES = [(p, q) for p in range(3) for q in range(3)]


def main() -> None:
    solver = ns.load("darcy")
    torch.manual_seed(0)
    truth = 0.4 * torch.randn(9, dtype=torch.float64)
    sensors = (..., slice(4, None, 8), slice(4, None, 8))
    measured = solver.solve(ns.Problem(ns.Darcy(), permeability(truth))).u[sensors]

    guess = torch.zeros(9, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([guess], lr=0.05)
    for step in range(101):
        heads = solver.solve(ns.Problem(ns.Darcy(), permeability(guess))).u[sensors]
        misfit = (heads - measured).square().mean() / measured.square().mean()
        optimiser.zero_grad()
        misfit.backward()
        optimiser.step()
        if step % 25 == 0:
            change = permeability(guess.detach()) / permeability(truth) - 1
            print(
                f"step {step:3d}: misfit {float(misfit.detach()):.1e}, permeability off by", end=" "
            )
            print(f"{float(change.square().mean().sqrt()):.1e}")


if __name__ == "__main__":
    main()
