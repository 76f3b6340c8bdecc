"""Heat in time with a trained corrector: every implicit step is a problem that the network solves.

One step of backward Euler, u⁺ = u + τ ∇·(a∇u⁺), is the static problem c u⁺ − ∇·(a∇u⁺) = c u with
c = 1/τ. A solver is trained on random a and u for some seconds. It then makes all steps to a
residual of 1e-8, in a medium it has not seen. `ns.evolve` is the classical way, and faster.
"""

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

import neuralsolver as ns
from neuralsolver.fields.stencils import flux_divergence

POINTS, STEPS = 16, 10


@dataclass(frozen=True)
class HeatStep(ns.Equation):
    """u⁺ as the unknown, a and u as inputs."""

    input_names: ClassVar[tuple[str, ...]] = ("diffusivity", "before")
    linear, jacobian_depends_on = True, ("inputs",)
    step: float = 0.01

    def residual(self, space: ns.Space, u: Tensor, inputs: Tensor) -> Tensor:
        a, before = inputs[:, :1], inputs[:, 1:]
        return space.zero_boundary((u - before) / self.step) - flux_divergence(a, u, space.grid)

    def sample(self, rng: np.random.Generator, resolution: int) -> np.ndarray:
        fields = [ns.cosine_field(rng, resolution) for _ in range(2)]
        return np.stack([np.exp(fields[0]), fields[1]])


equation = ns.register(HeatStep())


def main(folder: str) -> None:
    ns.check_equation(equation)
    solver = ns.train(equation, scale="tiny", batches=300, runs=folder, data=folder)
    x, y = np.meshgrid(*2 * [np.linspace(0, 1, POINTS)], indexing="ij")
    a, u = np.exp(np.sin(6 * x) * np.cos(4 * y)), np.sin(np.pi * x) * np.sin(np.pi * y)
    time = equation.step * STEPS
    exact = ns.evolve(u, time, diffusivity=a, frames=STEPS, tolerance=1e-5).u
    for number in range(1, STEPS + 1):
        solution = solver.solve(ns.Problem(equation, np.stack([a, u])), tolerance=1e-8)
        (u,) = solution.u
        error = np.abs(u - exact[number]).max() / np.abs(exact[0]).max()
        now = f"t = {number * equation.step:.2f}: {solution.status[0].name}"
        print(f"{now} after {solution.steps[0]} corrections, error of backward Euler {error:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
