"""Two unknown fields: an activator u and an inhibitor v with u = v = 0 on ∂Ω,

d₁Δu − u³ − v = f,   d₂Δv + u − v = 0.
"""

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

import neuralsolver as ns


@dataclass(frozen=True)
class ReactionDiffusion(ns.Equation):
    """A FitzHugh-Nagumo pair at rest."""

    unknowns: ClassVar[tuple[str, ...]] = ("activator", "inhibitor")
    jacobian_depends_on = ("solution",)
    first: float = 1.0
    second: float = 0.1

    def residual(self, space: ns.Space, u: Tensor, inputs: Tensor) -> Tensor:
        a, b = u[:, :1], u[:, 1:]
        reaction = space.zero_boundary(torch.cat([-(a**3) - b - inputs, a - b], 1))
        diffusion = u.new_tensor([self.first, self.second]).view(2, 1, 1)
        return diffusion * ns.laplacian(u, space.grid) + reaction

    def sample(self, rng: np.random.Generator, resolution: int) -> np.ndarray:
        return 50.0 * ns.cosine_field(rng, resolution)[None]


equation = ns.register(ReactionDiffusion())
if __name__ == "__main__":
    ns.check_equation(equation)
    solver = ns.train(equation, scale="tiny", batches=50, runs=sys.argv[1], data=sys.argv[1])
    print(solver.solve(ns.Problem.random(equation, 16, 4, seed=9), tolerance=1e-8).summary())
