"""Leading a denoiser to sensors of the solution, which it was not told of.

A denoiser knows more than a mean. Its derivative is the covariance of what it does not know
(Tweedie's formula of second order),

    D(x) = E[y | x],      σ² ∂D/∂x = Cov[y | x],

and sensors of the solution see a linear form Hy. Taking what is left of y as Gaussian, the mean
given their values v as well is

    D + C Hᵀ (H C Hᵀ + ε)⁻¹ (v − HD),      C = σ² ∂D/∂x

which is exact for a Gaussian prior. Products with C are derivatives of one call of the network
(C is symmetric, up to its errors), and the system is solved by a few conjugate residuals. The
network is told of the sensors of the input as ever, or of none: the mismatch of the solution is an
error signal of its own, beside the residual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import Conditions
from neuralsolver.samplers.edm import SIGMA_DATA, Denoise
from neuralsolver.samplers.projection import least_residual

ITERATIONS = 8
REGULAR = 1e-3
"""ε over c_out²: what is trusted of a covariance that comes from a network."""


@dataclass(frozen=True, eq=False)
class SolutionSensors:
    """N sensors of the solution of each of B problems: four grid points (B, N, 4), their shares,
    and the values (B, N)."""

    corners: Tensor
    shares: Tensor
    values: Tensor

    @classmethod
    def of(cls, observed: Sequence[Observed]) -> SolutionSensors:
        """Those of several problems, which have equally many."""
        parts: list[tuple[Tensor, ...]] = []
        for problem in observed:
            channel, corners, shares = problem._places
            chosen = channel == len(problem.equation.input_names)
            values = torch.from_numpy(problem.sensors.values)
            parts.append((corners[chosen], shares[chosen], values[chosen]))
        counts = {len(values) for _, _, values in parts}
        if len(counts) > 1:
            got = ", ".join(map(str, sorted(counts)))
            raise InvalidInput("sensors of the solution", "equally many in every problem", got)
        return cls(*(torch.stack(part) for part in zip(*parts, strict=True)))

    def __len__(self) -> int:
        return self.values.shape[1]

    def repeat(self, count: int) -> SolutionSensors:
        """Those of each problem `count` times in a row."""
        return self._each(lambda part: part.repeat_interleave(count, 0))

    def select(self, index: slice) -> SolutionSensors:
        """Those of some of the problems."""
        return self._each(lambda part: part[index])

    def _each(self, change: Callable[[Tensor], Tensor]) -> SolutionSensors:
        return SolutionSensors(change(self.corners), change(self.shares), change(self.values))

    def read(self, fields: Tensor) -> Tensor:
        """What they would see of solutions (B, 1, n, n)."""
        flat = fields.flatten(1).gather(1, self.corners.flatten(1)).view(self.corners.shape)
        return (flat * self.shares.to(flat)).sum(-1)


def led(denoise: Denoise, known: Conditions, sensors: SolutionSensors) -> Denoise:
    """A denoiser that also knows the sensors of the solution."""
    if len(sensors) == 0:
        return denoise
    unit = known.scale[:, 1, 0] / SIGMA_DATA
    goal = (sensors.values - sensors.read(known.filled_solution)) / unit

    def corrected(x: Tensor, sigma: Tensor) -> Tensor:
        with torch.enable_grad():
            variable = x.detach().requires_grad_(True)
            estimate = denoise(variable, sigma)
            seen = sensors.read(estimate[:, 1:])
        floor = REGULAR * sigma**2 * SIGMA_DATA**2 / (sigma**2 + SIGMA_DATA**2)

        def covariance(rows: Tensor) -> Tensor:
            (change,) = torch.autograd.grad(seen, variable, rows, retain_graph=True)
            return sigma**2 * change

        def product(rows: Tensor) -> Tensor:
            return sensors.read(covariance(rows)[:, 1:]) + floor * rows

        missed = goal - seen.detach()
        weights = least_residual(product, missed, ITERATIONS, 1e-3)
        return estimate.detach() + covariance(weights)

    return corrected
