"""PCFM (Utkarsh et al. 2025): flow matching whose end point is projected on the constraints.

A denoiser is also a velocity. On the straight path x_t = (1−t) n + t x from noise to a sample,
x_t / t is x under noise of σ = (1−t)/t, so that the end point of the velocity at (x_t, t) is
D(x_t / t; (1−t)/t). Each step takes that end point, moves it by one Gauss-Newton step of least norm
towards the constraints (sensors and equation, `measurement`), and goes on along the straight line
from the same noise to it. Where all sensors see the input, they move the input and the residual the
solution, as in a forward problem; one step for both together lets a wrong smooth û pull f̂ after it
between the sensors. Sensors of the solution need the joint step. Nothing is differentiated through
the network, and no Jacobian is formed: `projection` does with products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from neuralsolver.equations import Darcy, Problem
from neuralsolver.equations.darcy import REFERENCE_PERMEABILITY
from neuralsolver.fields.stencils import from_interior, interior
from neuralsolver.samplers.edm import SIGMA_DATA, Schedule, initial_noise
from neuralsolver.samplers.palette import AnyDenoiser
from neuralsolver.samplers.samples import Told
from paper.baselines.measurement import Constrained, Measurement
from paper.baselines.projection import EPSILON, least_norm_step, project, sine_table

CG_ITERATIONS = 60
SIGMA_MAX = Schedule().sigma_max


class PCFM(Constrained):
    """Physics-constrained flow matching with `steps` network calls."""

    name = "pcfm"

    def __init__(self, denoiser: AnyDenoiser, steps: int = 50, epsilon: float = EPSILON) -> None:
        self.denoiser, self.steps, self.epsilon = denoiser, steps, epsilon

    @torch.no_grad()
    def _states(self, measurement: Measurement, numbers: list[int], told: Told) -> Tensor:
        n = measurement.resolution
        noise = initial_noise((2, n, n), numbers, Schedule()) / SIGMA_MAX
        x, end = noise, noise
        for step in range(self.steps):
            time = max(step / self.steps, 1 / (1 + SIGMA_MAX))
            sigma = torch.tensor((1 - time) / time, dtype=torch.float64)
            end = self.denoiser(x / time if step else sigma * noise, sigma, measurement.told)
            end = end - self._projection(measurement, end)
            later = (step + 1) / self.steps
            x = (1 - later) * noise + later * end
            told(later)
        return end

    def _projection(self, measurement: Measurement, end: Tensor) -> Tensor:
        """By how much the end point is to move."""
        if bool(measurement.of_solution.any()):
            return self._joint(measurement, end)
        seen = end - project(measurement.mismatch, end, lambda rows: rows, self.epsilon)
        inputs, u = measurement.pair(seen)
        u = least_norm_step(Problem(measurement.equation, inputs), u, self.epsilon)
        solved = torch.cat([seen[:, :1], SIGMA_DATA * u / measurement.told.scale[:, 1:]], 1)
        return end - solved

    def _joint(self, measurement: Measurement, end: Tensor) -> Tensor:
        """Jᵀ(JJᵀ + ε)⁻¹h for residual and sensors together, in input and solution at once."""
        n = measurement.resolution
        points = n * n
        size = SIGMA_DATA / measurement.told.prior[0]

        def constraint(x: Tensor) -> Tensor:
            # the residual in units of x: those of the input it is compared with
            rows = size * measurement.residual(x).flatten(1)
            return torch.cat([rows, measurement.mismatch(x)], 1)

        stiffness = measurement.told.prior[1] / measurement.told.prior[0]
        if isinstance(measurement.equation, Darcy):
            stiffness *= REFERENCE_PERMEABILITY

        def precondition(rows: Tensor) -> Tensor:
            field = rows[:, :points].view(-1, 1, n, n)
            sines, symbol = sine_table(n, field.dtype)
            modes = sines @ interior(field) @ sines / ((stiffness * symbol) ** 2 + 1.0)
            smooth = from_interior(sines @ modes @ sines)
            return torch.cat([smooth.flatten(1), rows[:, points:]], 1)

        return project(
            constraint, end, precondition, self.epsilon, iterations=CG_ITERATIONS, tolerance=1e-6
        )
