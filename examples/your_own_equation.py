"""A new equation from its definition to a solution: screened Poisson, Δu − s²u = f, u = 0 on ∂Ω."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import neuralsolver as ns
from neuralsolver.equations.base import Array
from neuralsolver.equations.stencils import from_interior, interior, laplacian
from neuralsolver.experiments.run import Training, train
from neuralsolver.experiments.trainings import scale_named
from neuralsolver.reference import cosine_field


@dataclass(frozen=True)
class ScreenedPoisson(ns.Equation):
    """Δu − s²u − f, with s in `screening`."""

    screening: float = 2.0

    @property
    def linear(self) -> bool:
        return True

    @property
    def jacobian_reads(self) -> tuple[str, ...]:
        return ()  # ∂F/∂u = Δ − s² depends on neither f nor u

    def residual(self, u: Tensor, inputs: Tensor) -> Tensor:
        return laplacian(u) - from_interior(self.screening**2 * interior(u) + interior(inputs))

    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        return 100.0 * cosine_field(rng, resolution)[None]


def main(folder: Path) -> None:
    trained_on = ScreenedPoisson(screening=2.0)
    ns.register(trained_on)

    scale = scale_named("tiny")
    training = Training(trained_on, "contractive", scale, changes={"batches": 400})
    model = train(training, folder / "runs", data=folder)
    solver = ns.load(model)

    for equation in (trained_on, ScreenedPoisson(screening=6.0)):
        spec = ns.DatasetSpec(equation, count=20, resolution=scale.resolution, split="test", seed=1)
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
