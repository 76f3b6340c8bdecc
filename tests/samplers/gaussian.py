"""The exact denoiser of a Gaussian prior on a small grid: what a network would learn at best."""

from __future__ import annotations

import numpy as np
import torch

from neuralsolver.reference.posterior import field_prior
from neuralsolver.samplers.edm import SIGMA_DATA
from neuralsolver.samplers.exact import linear_map
from paper.denoiser_training import measure_sizes


class GaussianDenoiser:
    """D(x; σ) = C (C + σ²)⁻¹ x with the covariance C of the pair (f, u) in units of x."""

    def __init__(self, equation, resolution):
        self.sizes = measure_sizes(equation, resolution)
        prior = field_prior(resolution, equation.source_amplitude)
        modes = resolution**2
        unit = np.eye(modes).reshape(modes, resolution, resolution)
        fields = prior.field(unit)
        solutions = linear_map(equation)(fields)
        pairs = [
            fields.reshape(modes, -1) / self.sizes.prior[0],
            solutions.reshape(modes, -1) / self.sizes.prior[1],
        ]
        self.root = SIGMA_DATA * torch.from_numpy(np.concatenate(pairs, 1)).T
        self.values, self.vectors = torch.linalg.eigh(self.root @ self.root.T)

    def __call__(self, x, sigma, told):
        level = torch.as_tensor(sigma, dtype=x.dtype)
        gains = self.values.clamp_min(0) / (self.values.clamp_min(0) + level**2)
        return ((x.flatten(1) @ self.vectors) * gains @ self.vectors.T).view_as(x)
