"""Sensors and equation as constraints on the state of a denoiser that was told of no sensor.

With the state x in units of the prior (see `conditions`), a batch of observed problems asks for

    m(x) = ½ (what the sensors would see − what they saw) / s = 0        (B, N), in units of x
    F(û; f̂) = 0                                                          (B, 1, n, n)

where (f̂, û) is the pair that x stands for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import Sizes, conditions, decode_inputs, encode_inputs
from neuralsolver.samplers.edm import SIGMA_DATA
from neuralsolver.samplers.palette import LARGEST_BATCH, AnyDenoiser, check_same, sample_seed
from neuralsolver.samplers.samples import Drawn, Sampler, Told


class PointValues:
    """What equally many sensors of each of B problems see of pairs (B, 2, n, n)."""

    def __init__(self, observed: Sequence[Observed]) -> None:
        counts = {len(problem.sensors) for problem in observed}
        if len(counts) > 1:
            raise InvalidInput("sensors", "equally many in every problem", sorted(counts))
        self.resolution = observed[0].resolution
        places = [problem._places for problem in observed]
        self.channel, corners, self.shares = (
            torch.stack(part) for part in zip(*places, strict=True)
        )
        self.index = self.channel[:, :, None] * self.resolution**2 + corners
        self.values = torch.stack(
            [torch.from_numpy(problem.sensors.values) for problem in observed]
        )

    @property
    def of_solution(self) -> Tensor:
        """Which sensors see the solution, (B, N)."""
        return self.channel == 1

    def read(self, pairs: Tensor) -> Tensor:
        """What the sensors would see, (B, N)."""
        seen = pairs.flatten(1).gather(1, self.index.flatten(1)).view(self.index.shape)
        return (seen * self.shares.to(seen)).sum(-1)

    def spread(self, rows: Tensor) -> Tensor:
        """The transpose of `read`."""
        n, values = self.resolution, (rows[..., None] * self.shares).flatten(1)
        flat = values.new_zeros(len(rows), 2 * n * n)
        return flat.scatter_add(1, self.index.flatten(1), values).view(-1, 2, n, n)


class Measurement:
    """Problems of one equation on one grid, with equally many sensors each."""

    def __init__(self, observed: Sequence[Observed], sizes: Sizes) -> None:
        first = observed[0]
        self.equation, self.resolution = first.equation, first.resolution
        self.sensors = PointValues(observed)
        nothing = (np.zeros((0, 2)), np.zeros(0))
        self.told = conditions(first.equation, first.resolution, [nothing] * len(observed), sizes)
        values = self.sensors.values
        inputs = encode_inputs(first.equation, values[:, None, :, None])[:, 0, :, 0]
        seen = torch.where(self.of_solution, values / sizes.prior[1], inputs / sizes.prior[0])
        self.values = SIGMA_DATA * seen

    @property
    def of_solution(self) -> Tensor:
        """Which sensors see the solution, (B, N)."""
        return self.sensors.of_solution

    def mismatch(self, x: Tensor) -> Tensor:
        """m(x)."""
        return self.sensors.read(x) - self.values.to(x)

    def pair(self, x: Tensor, final: bool = False) -> tuple[Tensor, Tensor]:
        """The input and the solution of x."""
        encoded, u = self.told.decode(x)
        return decode_inputs(self.equation, encoded, final), u

    def residual(self, x: Tensor) -> Tensor:
        """F of the pair."""
        inputs, u = self.pair(x)
        return Problem(self.equation, inputs).residual(u)


class Constrained(Sampler):
    """A sampler whose network is told of no sensor: it is led to them from outside."""

    denoiser: AnyDenoiser

    @abstractmethod
    def _states(self, measurement: Measurement, numbers: list[int], told: Told) -> Tensor:
        """A state x for each problem of the measurement and its random number."""

    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        check_same(observed)
        repeated = [problem for problem in observed for _ in range(count)]
        numbers = [sample_seed(seed, i) for seed in seeds for i in range(count)]
        pairs = []
        for begin in range(0, len(repeated), LARGEST_BATCH):
            part = slice(begin, begin + LARGEST_BATCH)
            measurement = Measurement(repeated[part], self.denoiser.sizes)

            def share(done: float, begin: int = begin) -> None:
                told(min(1.0, (begin + done * LARGEST_BATCH) / len(repeated)))

            pairs.append(measurement.pair(self._states(measurement, numbers[part], share), True))
        inputs, solutions = (torch.cat(fields) for fields in zip(*pairs, strict=True))
        return [
            (inputs[i : i + count], solutions[i : i + count], {})
            for i in range(0, len(repeated), count)
        ]
