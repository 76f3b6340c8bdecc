"""DiffusionPDE (Huang et al. 2024): an unconditional denoiser led to the sensors by gradients.

After every Heun step from x the estimate D of its last network call is compared with sensors and
equation, and the state is moved against the gradient with respect to x, through both calls:

    x' ← x' − ζ_f ∇‖m_f‖ − ζ_u ∇‖m_u‖                            first 80 % of the steps
    x' ← x' − 0.1 (the same) − ζ_pde ∇‖F‖/n²                     afterwards

The norms are neither squared nor averaged and are taken in the units of the authors' networks, in
which their weights ζ hold. They take 2,000 steps; the number of steps is stated wherever fewer are
taken. Their residual of Darcy flow leaves out a factor 1/h² before 1 is added, so that a true
solution does not make it small; here it has that factor.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from neuralsolver.equations import Darcy
from neuralsolver.samplers.edm import SIGMA_DATA, Schedule, initial_noise
from neuralsolver.samplers.palette import AnyDenoiser
from neuralsolver.samplers.samples import Told
from paper.baselines.measurement import Constrained, Measurement


@dataclass(frozen=True)
class Guidance:
    """Weights of sensors of the input, of the solution and of the residual; `units` are the
    authors' input and solution per unit of x."""

    inputs: float
    solution: float
    residual: float
    units: tuple[float, float]


GUIDANCE = {
    "helmholtz": Guidance(0.8, 60.0, 1.0, (2.15, 0.028)),
    "poisson": Guidance(0.8, 40.0, 1.0, (2.15, 1 / 36.5)),
    # their permeability is linear in x, 9 per unit between the two phases at x = ±½
    "darcy": Guidance(5.0, 5000.0, 100.0, (9.0, 1 / 115)),
}


class DiffusionPDE(Constrained):
    """Guided sampling with the weights of the equation that the denoiser knows, or of the problem
    where that is not said."""

    name = "diffusion-pde"

    def __init__(
        self,
        denoiser: AnyDenoiser,
        schedule: Schedule | None = None,
        guidance: Guidance | None = None,
    ) -> None:
        self.denoiser, self.guidance = denoiser, guidance
        self.schedule = schedule or Schedule(200)

    def _weights(self, measurement: Measurement) -> Guidance:
        return self.guidance or GUIDANCE[measurement.equation.name]

    def _states(self, measurement: Measurement, numbers: list[int], told: Told) -> Tensor:
        n = measurement.resolution
        x = initial_noise((2, n, n), numbers, self.schedule)
        levels = self.schedule.levels()
        late = int(0.8 * self.schedule.steps)
        for step, (now, then) in enumerate(itertools.pairwise(levels)):
            x = x.detach().requires_grad_(True)
            with torch.enable_grad():
                estimate = self.denoiser(x, now, measurement.told)
                slope = (x - estimate) / now
                proposal = x + (then - now) * slope
                if then > 0:
                    estimate = self.denoiser(proposal, then, measurement.told)
                    second = (proposal - estimate) / then
                    proposal = x + (then - now) * 0.5 * (slope + second)
                aim = self._aim(measurement, estimate, step > late)
                (gradient,) = torch.autograd.grad(aim, x)
            x = proposal.detach() - gradient
            told((step + 1) / self.schedule.steps)
        return x.detach()

    def _aim(self, measurement: Measurement, estimate: Tensor, late: bool) -> Tensor:
        """Σ ζ‖…‖ over the batch; samples do not see each other."""
        weights = self._weights(measurement)
        missed = measurement.mismatch(estimate)
        total = estimate.new_zeros(())
        for zeta, unit, chosen in (
            (weights.inputs, weights.units[0], ~measurement.of_solution),
            (weights.solution, weights.units[1], measurement.of_solution),
        ):
            part = torch.where(chosen, missed, 0.0)
            if bool(chosen.any()):
                total = total + zeta * unit * _norms(part).sum()
        if not late:
            return total
        cells = (measurement.resolution - 1) ** 2
        residual = self._residual(measurement, estimate)
        return 0.1 * total + weights.residual * _norms(residual).sum() / cells

    def _residual(self, measurement: Measurement, estimate: Tensor) -> Tensor:
        """F in the authors' units: those in which f is 2.15 x, or the source of Darcy flow is 1."""
        equation = measurement.equation
        if isinstance(equation, Darcy):
            return measurement.residual(estimate) / equation.constant_source
        unit = self._weights(measurement).units[0] * SIGMA_DATA
        return measurement.residual(estimate) * unit / measurement.told.prior[0]


def _norms(values: Tensor) -> Tensor:
    """‖·‖ per sample; its derivative at zero is zero."""
    return (values.flatten(1).square().sum(1) + 1e-24).sqrt()
