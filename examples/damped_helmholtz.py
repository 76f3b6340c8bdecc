"""A complex unknown: damped waves, Δu + κ²(1 + iη) m u = f with a variable m, u = 0 on ∂Ω."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

import neuralsolver as ns


@dataclass(frozen=True)
class DampedHelmholtz(ns.Equation):
    """Damped waves in a medium m."""

    input_names: ClassVar[tuple[str, ...]] = ("medium", *ns.complex_field("source"))
    unknowns: ClassVar[tuple[str, ...]] = ns.complex_field("pressure")
    linear, jacobian_depends_on = True, ("inputs",)
    wavenumber: float = 6.0
    damping: float = 0.2

    def residual(self, space: ns.Space, u: Tensor, inputs: Tensor) -> Tensor:
        medium, source = inputs[:, :1], inputs[:, 1:]
        shift = u.new_tensor([1.0, self.damping]).view(1, 2, 1, 1) * self.wavenumber**2
        reaction = ns.complex_product(shift, u) * medium - source
        return ns.laplacian(u, space.grid) + space.zero_boundary(reaction)

    def sample(self, rng: np.random.Generator, resolution: int) -> np.ndarray:
        fields = [ns.cosine_field(rng, resolution) for _ in range(3)]
        return np.stack([np.exp(0.3 * fields[0]), 50 * fields[1], 50 * fields[2]])


equation = ns.register(DampedHelmholtz())
if __name__ == "__main__":
    ns.check_equation(equation)
    solver = ns.train(equation, scale="tiny", batches=50, runs=sys.argv[1], data=sys.argv[1])
    medium, source = np.ones((16, 16)), 10j * np.ones((16, 16))
    solution = solver.solve(ns.Problem(equation, np.stack([medium, source])), tolerance=1e-8)
    print(solution.summary(), solution.u.dtype, solution.u.shape)
