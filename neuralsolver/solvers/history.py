"""What was seen of a solve: some quantity of every sample after every step, as an observer.

Some solvers run all samples side by side, others one after another. A sample that has stopped keeps
its last value, and one whose value is no number counts as infinitely wrong from there on: a mean
over the samples that happen to be left would make a solver look better the more of them it loses.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from neuralsolver.solvers.loop import Observation
from neuralsolver.solvers.norms import relative_error

Quantity = Callable[[Observation], Tensor | None]


class History:
    """Named quantities of `count` samples; those of a start on another grid are not for it."""

    def __init__(self, count: int, **quantities: Quantity) -> None:
        self.count, self.quantities = count, quantities
        self.seen: dict[int, Tensor] = {}

    @classmethod
    def of_errors(cls, exact: Tensor) -> History:
        """The relative errors against known solutions."""
        return cls(len(exact), error=lambda seen: relative_error(seen.u, exact[seen.samples]))

    def __call__(self, seen: Observation) -> None:
        if seen.stage == "start":
            return
        unseen = torch.full((len(self.quantities), self.count), math.nan, dtype=torch.float64)
        table = self.seen.setdefault(seen.step, unseen)
        for row, quantity in zip(table, self.quantities.values(), strict=True):
            values = quantity(seen)
            if values is not None:
                row[seen.samples] = values.double().cpu().nan_to_num(math.inf)

    @property
    def steps(self) -> list[int]:
        """The steps that were seen."""
        return sorted(self.seen)

    def table(self, steps: list[int] | None = None) -> Tensor:
        """The values (steps, quantities, samples); what has stopped keeps its last ones."""
        last = torch.full((len(self.quantities), self.count), math.nan, dtype=torch.float64)
        rows = []
        for step in self.steps if steps is None else steps:
            now = self.seen.get(step, last)
            last = torch.where(now.isnan(), last, now)
            rows.append(last)
        return torch.stack(rows)

    def means(self) -> list[float]:
        """The mean of the first quantity over all samples after each step."""
        return [float(value) for value in self.table()[:, 0].mean(1)]
