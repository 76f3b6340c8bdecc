"""What a sampler returns: pairs (input, solution) that agree with the sensors, and their spread."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.norms import residual_norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Told = Callable[[float], None]
"""Is told the part of the work that is done, between 0 and 1."""


@dataclass(frozen=True, eq=False)
class Samples:
    """S samples of one observed problem: `inputs` and `solutions` (S, 1, n, n) in float64."""

    observed: Observed
    inputs: Tensor
    solutions: Tensor
    seconds: float
    method: str
    notes: dict[str, Any] = field(default_factory=dict)
    marginal: Tensor | None = None
    """The mean input (n, n) where the method knows it better than its samples do."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def problem(self) -> Problem:
        """The samples as ordinary problems, for every solver, residual and bound."""
        return self.observed.complete(self.inputs)

    @property
    def mean(self) -> tuple[Tensor, Tensor]:
        """The mean input and the mean solution, (n, n)."""
        inputs = self.inputs.mean(0)[0] if self.marginal is None else self.marginal
        return inputs, self.solutions.mean(0)[0]

    @property
    def deviation(self) -> tuple[Tensor, Tensor]:
        """The pointwise standard deviations of input and solution, (n, n)."""
        correction = int(len(self) > 1)
        deviations = [t.std(0, correction=correction)[0] for t in (self.inputs, self.solutions)]
        return deviations[0], deviations[1]

    def quantiles(self, levels: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Pointwise quantiles of input and solution, (levels, n, n)."""
        wanted = torch.tensor(levels, dtype=self.inputs.dtype)
        first, second = (t[:, 0].quantile(wanted, 0) for t in (self.inputs, self.solutions))
        return first, second

    @property
    def probability(self) -> Tensor | None:
        """P(the permeability is the high phase), (n, n), where the prior has two phases."""
        if "phases" not in self.notes:
            return None
        low, high = (float(value) for value in self.notes["phases"])
        if self.marginal is not None:
            return (self.marginal - low) / (high - low)
        return (self.inputs[:, 0] > math.sqrt(low * high)).double().mean(0)

    @property
    def relative_residual(self) -> Tensor:
        """The RMS residual of every sample over that of the zero field."""
        problem = self.problem
        of_zero = residual_norm(problem.residual(problem.zeros()))
        return residual_norm(problem.residual(self.solutions)) / of_zero

    @property
    def mismatch(self) -> Tensor:
        """The RMS difference from the sensors, over the RMS of their values, per sample."""
        missed = self.observed.mismatch(self.inputs, self.solutions)
        if not missed.shape[1]:
            return missed.new_zeros(len(missed))
        size = torch.from_numpy(self.observed.sensors.values).square().mean().sqrt()
        return missed.square().mean(1).sqrt() / size

    def summary(self) -> str:
        """How the answer was made, its fit, residual and spread."""
        n, count = self.observed.resolution, len(self)
        single = self.notes.get("single", False)
        known = f" (prior {self.notes['prior']})" if "prior" in self.notes else ""
        made = "one answer, without error bars," if single else f"{count} samples"
        lines = [
            f"{self.observed.equation.name} {n}x{n} from {self.observed.sensors.counted}: "
            f"{made} by {self.method}{known}, {self.seconds:.2f} s"
        ]
        if "misfit" in self.notes:
            middle = float(np.median(self.notes["misfit"]))
            lines.append(f"misfit {middle:.2f} times the noise (the median sample; 1 is ideal)")
        elif len(self.observed.sensors):
            worst = float(self.mismatch.max())
            lines.append(f"the samples miss the sensors by {worst:.1e} of their size (the worst)")
        lines.append(f"relative residual at most {float(self.relative_residual.max()):.1e}")
        if not single:
            for name, mean, deviation in zip(
                (self.observed.equation.input_names[0], "solution"),
                self.mean,
                self.deviation,
                strict=True,
            ):
                spread = float(deviation.square().mean().sqrt() / mean.square().mean().sqrt())
                lines.append(f"spread of the {name} {spread:.1%} of its size")
        return "\n".join(lines + [f"warning: {told}" for told in self.notes.get("warnings", [])])

    def plot(
        self,
        path: str | None = None,
        truth: tuple[Tensor, Tensor] | None = None,
        *,
        length: float = 1.0,
    ) -> Figure:
        """Draw sensors, mean, deviation (or probability), three samples and the misfit.

        Args:
            path: Of the picture; none is written without.
            truth: The true pair, drawn beside what was missed.
            length: Of the domain's sides, for the axes.
        """
        from neuralsolver.plotting.samples_picture import plot_samples

        return plot_samples(self, path, truth, length)


class Sampler(ABC):
    """Anything that turns an observed problem into samples."""

    name: str

    def sample(
        self, observed: Observed, count: int = 16, seed: int = 0, told: Told | None = None
    ) -> Samples:
        """`count` samples; the same seed gives the same ones."""
        return self.sample_each([observed], count, [seed], told)[0]

    def sample_each(
        self,
        observed: Sequence[Observed],
        count: int,
        seeds: Sequence[int],
        told: Told | None = None,
    ) -> list[Samples]:
        """`count` samples of each of several problems; seconds are shared out evenly."""
        if count < 1:
            raise InvalidInput("samples", "at least 1", count)
        begin = time.perf_counter()
        drawn = self._draw(observed, count, seeds, told or (lambda part: None))
        seconds = (time.perf_counter() - begin) / len(observed)
        return [
            Samples(problem, inputs, solutions, seconds, self.name, notes)
            for problem, (inputs, solutions, notes) in zip(observed, drawn, strict=True)
        ]

    @abstractmethod
    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        """Inputs and solutions of each problem, with notes."""


Drawn = tuple[Tensor, Tensor, dict[str, Any]]
