"""Palette: a denoiser that reads the sensors, followed from noise to a sample.

(Saharia et al. 2022; as in the paper only the conditioning is Palette's, the diffusion is EDM's.)
Nothing makes input and solution agree exactly: the pair has a residual. The network reads sensors
of the input only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import (
    CONDITION_CHANNELS,
    Conditions,
    Sizes,
    conditions,
    decode_inputs,
    input_sensors,
)
from neuralsolver.samplers.edm import Denoise, Schedule, heun_steps, initial_noise, precondition
from neuralsolver.samplers.samples import Drawn, Sampler, Told

PALETTE_CHANNELS = 2 + CONDITION_CHANNELS
LARGEST_BATCH = 16


class AnyDenoiser(Protocol):
    """Anything that takes noise off pairs and knows its units."""

    sizes: Sizes

    def __call__(self, x: Tensor, sigma: Tensor, told: Conditions) -> Tensor: ...


class Denoiser(nn.Module):
    """D(x; σ, sensors) for one equation and grid. Without sensors it denoises the prior."""

    def __init__(self, network: nn.Module, sizes: Sizes) -> None:
        super().__init__()
        self.network = network
        self.sizes = sizes

    def forward(self, x: Tensor, sigma: Tensor, told: Conditions) -> Tensor:
        """The mean of x before noise of size σ (a number or (B,)) was added, in the type of x."""
        level = sigma.to(x).expand(x.shape[0]).view(-1, 1, 1, 1)
        skip, out, scale, noise = precondition(level)
        read = torch.cat([scale * x, told.channels()], 1)
        parameter = next(self.network.parameters())
        answer: Tensor = self.network(read.to(parameter), noise.flatten().to(parameter))
        return skip * x + out * answer.to(x)


class Palette(Sampler):
    """Heun steps with a denoiser that reads the sensors of the input."""

    name = "palette"

    def __init__(self, denoiser: AnyDenoiser, schedule: Schedule | None = None) -> None:
        self.denoiser = denoiser
        self.schedule = schedule or Schedule()

    @torch.no_grad()
    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        first, n = observed[0], observed[0].resolution
        check_same(observed)
        read = [self._sensors(problem) for problem in observed]
        sets = [(sensors.positions, sensors.values) for sensors in read]
        known = conditions(first.equation, n, sets, self.denoiser.sizes).repeat(count)
        repeated = [problem for problem in observed for _ in range(count)]
        numbers = [sample_seed(seed, i) for seed in seeds for i in range(count)]
        states, total = [], -(-len(numbers) // LARGEST_BATCH) * self.schedule.steps
        done = 0
        for begin in range(0, len(numbers), LARGEST_BATCH):
            part = slice(begin, begin + LARGEST_BATCH)
            x = initial_noise((2, n, n), numbers[part], self.schedule)
            denoise = self._denoise(known.select(part), repeated[part])
            for state in heun_steps(denoise, x, self.schedule):
                x = state
                done += 1
                told(done / total)
            states.append(x)
        encoded, u = known.decode(torch.cat(states))
        inputs = decode_inputs(first.equation, encoded, True)
        return [(inputs[i : i + count], u[i : i + count], {}) for i in range(0, len(inputs), count)]

    def _sensors(self, observed: Observed) -> Sensors:
        """What the network reads of a problem."""
        return input_sensors(observed)

    def _denoise(self, known: Conditions, observed: Sequence[Observed]) -> Denoise:
        def denoise(x: Tensor, sigma: Tensor) -> Tensor:
            return self.denoiser(x, sigma, known)

        return denoise


def check_same(observed: Sequence[Observed]) -> None:
    """Raise InvalidInput unless all problems are of one equation on one grid."""
    kinds = {(problem.equation, problem.resolution) for problem in observed}
    if len(kinds) > 1:
        raise InvalidInput("problems", "one equation on one grid at a time", f"{len(kinds)} kinds")


def sample_seed(seed: int, number: int) -> int:
    """A seed for the noise of one sample, far from those of its neighbours."""
    return (seed * 1_000_003 + number * 7_919 + 17) % 2**63
