"""Samplers that only the tables need, registered with those of the library on import.

A sampler is also a solver of the forward problem: the whole input is seen, and one sample is the
answer. DiffusionPDE and PCFM come into the tables of solvers this way. The problem may be of
another equation than the denoiser knows: what is sampled is then its prior under the residual of
the problem, as for any other method that is asked to extrapolate.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.samplers import Schedule
from neuralsolver.samplers.methods import METHODS
from neuralsolver.samplers.samples import Sampler
from neuralsolver.solvers.wrappers import Answer
from paper.baselines.diffusion_pde import GUIDANCE, DiffusionPDE
from paper.baselines.guidance import Guided
from paper.baselines.mismatch_correction import STEPS, Correction
from paper.baselines.pcfm import PCFM
from paper.baselines.projection import LeastNormENS

METHODS |= {
    "diffusion-ens+gn": lambda equation, steps, denoiser, solver: LeastNormENS(
        denoiser(f"{equation}-diffusion-ens"), Schedule(steps or 50)
    ),
    "diffusion-ens-guided": lambda equation, steps, denoiser, solver: Guided(
        denoiser(f"{equation}-diffusion-ens"), Schedule(steps or 50)
    ),
    "correction": lambda equation, steps, denoiser, solver: Correction(
        solver(equation), steps or STEPS
    ),
    "diffusion-pde": lambda equation, steps, denoiser, solver: DiffusionPDE(
        denoiser(f"{equation}-palette"), Schedule(steps or 1000), GUIDANCE[equation]
    ),
    "pcfm": lambda equation, steps, denoiser, solver: PCFM(
        denoiser(f"{equation}-palette"), steps or 50
    ),
}


class ForwardSampler(Answer):
    """One sample for each problem, given its input at every point of the grid."""

    def __init__(self, sampler: Sampler, seed: int = 0) -> None:
        super().__init__(self.sampled)
        self.sampler, self.seed = sampler, seed

    def sampled(self, problem: Problem) -> Tensor:
        """The solutions of the samples."""
        seen = fully_observed(problem)
        drawn = self.sampler.sample_each(seen, 1, [self.seed + i for i in range(len(seen))])
        return torch.cat([samples.solutions for samples in drawn]).to(problem.inputs)


def fully_observed(problem: Problem) -> list[Observed]:
    """Problems whose input is seen at all points of the grid."""
    n = problem.resolution
    places = np.stack(np.divmod(np.arange(n * n), n), 1) / (n - 1)
    name = problem.equation.input_names[0]
    return [
        Observed(problem.equation, n, Sensors(places, name, field[0].double().numpy().ravel()))
        for field in problem.inputs
    ]
