"""Palette: a denoiser that is told about the sensors, followed from noise to a sample.

(Saharia et al. 2022; as in the paper only the conditioning is Palette's, the diffusion is EDM's.)
Nothing makes input and solution agree exactly: the pair has a residual. Sensors of the solution,
of which the network is not told, lead it by its own derivative (`guidance`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import Conditions, conditions, decode_inputs
from neuralsolver.samplers.denoiser import AnyDenoiser
from neuralsolver.samplers.edm import Denoise, Schedule, heun_steps, initial_noise
from neuralsolver.samplers.guidance import SolutionSensors, led
from neuralsolver.samplers.samples import Drawn, Sampler, Told

LARGEST_BATCH = 16


class Palette(Sampler):
    """Heun steps with a denoiser that is told of the sensors of the input."""

    name = "palette"

    def __init__(self, denoiser: AnyDenoiser, schedule: Schedule | None = None) -> None:
        self.denoiser = denoiser
        self.schedule = schedule or Schedule()

    @torch.no_grad()
    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        first = observed[0]
        check_same(observed)
        told_of = [problem.sensors.of(first.equation.input_names[0]) for problem in observed]
        sets = [(sensors.positions, sensors.values) for sensors in told_of]
        known = conditions(first.equation, first.resolution, sets, self.denoiser.sizes)
        known, others = known.repeat(count), SolutionSensors.of(observed).repeat(count)
        n = first.resolution
        numbers = [sample_seed(seed, i) for seed in seeds for i in range(count)]
        states, total = [], -(-len(numbers) // LARGEST_BATCH) * self.schedule.steps
        done = 0
        for begin in range(0, len(numbers), LARGEST_BATCH):
            part = slice(begin, begin + LARGEST_BATCH)
            x = initial_noise((2, n, n), numbers[part], self.schedule)
            denoise = self._denoise(known.select(part))
            denoise = led(denoise, known.select(part), others.select(part))
            for state in heun_steps(denoise, x, self.schedule):
                x = state
                done += 1
                told(done / total)
            states.append(x)
        encoded, u = known.decode(torch.cat(states))
        inputs = decode_inputs(first.equation, encoded, True)
        return [(inputs[i : i + count], u[i : i + count], {}) for i in range(0, len(inputs), count)]

    def _denoise(self, known: Conditions) -> Denoise:
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
