"""A new equation from its definition to a solution: screened Poisson, Δu − s²u = f, u = 0 on ∂Ω."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

import neuralsolver as ns


@dataclass(frozen=True)
class ScreenedPoisson(ns.Equation):
    """Δu − s²u − f, with s in `screening`."""

    linear: ClassVar[bool] = True
    jacobian_depends_on: ClassVar[tuple[str, ...]] = ()  # ∂F/∂u = Δ − s²: neither on f nor on u

    screening: float = 2.0

    def residual(self, space: ns.Space, u: Tensor, inputs: Tensor) -> Tensor:
        inside = space.zero_boundary(self.screening**2 * u + inputs)
        return ns.laplacian(u, space.grid) - inside

    def sample(self, rng: np.random.Generator, resolution: int) -> np.ndarray:
        return 100.0 * ns.cosine_field(rng, resolution)[None]


def main(folder: Path) -> None:
    trained_on = ScreenedPoisson(screening=2.0)
    ns.check_equation(trained_on)  # says what is wrong with a declaration, if anything is
    ns.register(trained_on)
    solver = ns.train(trained_on, scale="tiny", batches=400, runs=folder / "runs", data=folder)

    for equation in (trained_on, ScreenedPoisson(screening=6.0)):
        spec = ns.DatasetSpec(
            equation, count=20, resolution=solver.resolution, split="test", seed=1
        )
        fresh = ns.generate(spec, folder)
        _, truth = fresh.tensors()
        print(f"screening {equation.screening:g}")
        for steps in (0, 8, 40):
            solution = solver.solve(fresh.problem(), steps=steps)
            error = torch.linalg.vector_norm(solution.tensor - truth, dim=(1, 2, 3))
            error /= torch.linalg.vector_norm(truth, dim=(1, 2, 3))
            print(f"  {steps:2d} corrections: relative L2 error {float(error.mean()):.1e}")
        print(" ", solver.solve(fresh.problem(), tolerance=1e-10).summary())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
