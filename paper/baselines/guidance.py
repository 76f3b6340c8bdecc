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

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.samplers.conditions import Conditions
from neuralsolver.samplers.edm import SIGMA_DATA, Denoise
from neuralsolver.samplers.palette import Palette
from paper.baselines.measurement import PointValues
from paper.baselines.projection import least_residual

ITERATIONS = 8
REGULAR = 1e-3
"""ε over c_out²: what is trusted of a covariance that comes from a network."""


class Guided(Palette):
    """Diffusion ENS (or any denoiser) that is also led to sensors of the solution."""

    name = "diffusion-ens"

    def _sensors(self, observed: Observed) -> Sensors:
        return observed.sensors.of(observed.equation.input_names[0])

    def _denoise(self, known: Conditions, observed: Sequence[Observed]) -> Denoise:
        of_solution = [replace(o, sensors=o.sensors.of("solution")) for o in observed]
        return led(super()._denoise(known, observed), known, PointValues(of_solution))


def led(denoise: Denoise, known: Conditions, sensors: PointValues) -> Denoise:
    """A denoiser that also knows the sensors of the solution."""
    if not sensors.values.shape[1]:
        return denoise
    unit = known.scale[:, 1, 0] / SIGMA_DATA
    start = torch.cat([known.fill, known.filled_solution], 1)
    goal = (sensors.values - sensors.read(start)) / unit

    def corrected(x: Tensor, sigma: Tensor) -> Tensor:
        with torch.enable_grad():
            variable = x.detach().requires_grad_(True)
            estimate = denoise(variable, sigma)
            seen = sensors.read(estimate)
        floor = REGULAR * sigma**2 * SIGMA_DATA**2 / (sigma**2 + SIGMA_DATA**2)

        def covariance(rows: Tensor) -> Tensor:
            (change,) = torch.autograd.grad(seen, variable, rows, retain_graph=True)
            return sigma**2 * change

        def product(rows: Tensor) -> Tensor:
            return sensors.read(covariance(rows)) + floor * rows

        missed = goal - seen.detach()
        weights = least_residual(product, missed, ITERATIONS, 1e-3)
        return estimate.detach() + covariance(weights)

    return corrected
