"""Training of denoisers: instances that are drawn fresh for every batch, and what is minimised.

    L = E λ(σ) ‖D(y + σn; σ, sensors) − y‖²,      ln σ ~ N(0.4, 1.8²)

with λ = 1/c_out² of EDM. EDM itself has ln σ ~ N(−1.2, 1.2²), which suits photographs: a solution
is so smooth that its few large modes are still told apart under noise of σ = 20.

A share of the instances has no sensors, so that one network also knows the prior; the others have
50 to 1,000. The solution of an instance is that of the reference solver.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.data.truth import truth
from neuralsolver.equations import Equation, generator
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import (
    Conditions,
    Sizes,
    conditions,
    encode_inputs,
    random_positions,
)
from neuralsolver.samplers.edm import loss_weight

NOISE_MEAN, NOISE_DEVIATION = 0.4, 1.8
FEWEST, MOST = 50, 1000
DROPPED = 0.15
"""The share of instances without sensors."""
REPEATS = 2
"""Noise levels at which every instance is shown: drawing it costs as much as a third of a step."""


@dataclass
class NoisyBatch:
    """Clean pairs x, their noise levels, the noise, and what is told of the sensors."""

    clean: Tensor
    sigma: Tensor
    noise: Tensor
    told: Conditions


@dataclass(frozen=True)
class ObservedInstances:
    """Random instances of an equation under random sensors, as many as are asked for."""

    equation: Equation
    resolution: int
    sizes: Sizes
    noise_mean: float = NOISE_MEAN

    def draw(self, seed: int, number: int, share: Any) -> NoisyBatch:
        """The samples of batch `number` that `share` names, whenever it asks the same."""
        instances = sorted({int(i) // REPEATS for i in share})
        rngs = [generator(seed, 3, number, i) for i in instances]
        drawn = np.stack([self.equation.sample(rng, self.resolution) for rng in rngs])
        solved = truth(self.equation, drawn)
        sensors = [self._sensors(rng, field[0]) for rng, field in zip(rngs, drawn, strict=True)]
        told = conditions(self.equation, self.resolution, sensors, self.sizes)
        encoded = encode_inputs(self.equation, torch.from_numpy(solved.inputs))
        clean = told.encode(encoded, torch.from_numpy(solved.solution))
        clean, told = clean.repeat_interleave(REPEATS, 0), told.repeat(REPEATS)
        rng = generator(seed, 4, number, instances[0])
        levels = self.noise_mean + NOISE_DEVIATION * rng.standard_normal(len(clean))
        noise = rng.standard_normal(clean.shape)
        return NoisyBatch(clean, torch.from_numpy(np.exp(levels)), torch.from_numpy(noise), told)

    def _sensors(self, rng: np.random.Generator, field: Any) -> tuple[Any, Any]:
        if rng.random() < DROPPED:
            return np.zeros((0, 2)), np.zeros(0)
        most = min(MOST, self.resolution**2 // 4)
        fewest = min(FEWEST, most)
        count = round(math.exp(rng.uniform(math.log(fewest), math.log(most))))
        positions = random_positions(rng, self.resolution, count)
        index = np.rint(positions * (self.resolution - 1)).astype(np.int64)
        return positions, field[index[:, 0], index[:, 1]]


def denoising(model: Any, batch: NoisyBatch) -> Iterator[Tensor]:
    """EDM's loss."""
    if not hasattr(batch, "sigma"):
        expected = "a denoiser (--recipe palette or diffusion-ens)"
        raise InvalidInput("objective denoising", expected, type(model).__name__)
    sigma = batch.sigma.view(-1, 1, 1, 1)
    estimate = model(batch.clean + sigma * batch.noise, batch.sigma, batch.told)
    yield (loss_weight(sigma) * (estimate - batch.clean).square()).mean()
