"""A network of your own inside an error-conditioned solver: any torch module will do.

It is trained for a few seconds here; `budget_minutes=10` trains it as long as the shipped models.
"""

import torch
from torch import nn

import neuralsolver as ns
from neuralsolver.solvers import FixedSteps


class Residual(nn.Module):
    """Dilated convolutions: it sees 31 points around each, and knows nothing of any equation."""

    def __init__(self, in_channels: int, out_channels: int, width: int = 16) -> None:
        super().__init__()
        self.lift = nn.Conv2d(in_channels, width, 1)
        self.layers = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=d, dilation=d) for d in (1, 2, 4, 8)
        )
        self.project = nn.Conv2d(width, out_channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lift(x)
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x))
        return self.project(x)


def main() -> None:
    recipes = ns.register_backbone("dilated", Residual)
    print("recipes:", ", ".join(recipes))
    losses = []
    solver = ns.train(
        ns.Poisson(),
        recipe="contractive-dilated",
        scale="tiny",
        batches=300,
        callback=lambda stage, done, record: losses.append(record.losses[-1]),
    )
    print(f"loss {losses[0]:.2e} to {losses[-1]:.2e}")
    problem = ns.Problem.random(ns.Poisson(), 16, count=4, seed=7)
    print(solver.network.solve(problem, stop=FixedSteps(20)))
    print(solver.solve(problem, tolerance=1e-8))


if __name__ == "__main__":
    main()
