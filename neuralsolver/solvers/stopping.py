"""When to stop: what is asked for, and rules that answer by the residuals of each sample so far.

A rule is a function of the history (k+1, B) of measured residuals and of their unit, the residual
of the first guess; None means go on. It has no memory, so it may serve any number of solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import check_positive
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.solution import Status

SINGLE = 1e-5
"""Below this tolerance float64 is needed: float32 resolves the residual of a flow to 1e-6."""

LEFT_THE_START = 0.3
"""A residual that stops improving above this part of that of the first guess has told nothing."""


@dataclass(frozen=True)
class SolveOptions:
    """The options of `TrainedSolver.solve`."""

    steps: int | None = None
    tolerance: float | None = None
    accelerate: bool | None = None
    polish: bool | None = None
    precision: torch.dtype | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        if self.steps is not None and self.tolerance is not None:
            got = f"{self.steps} steps and a tolerance of {self.tolerance}"
            raise InvalidInput("steps", "either steps or a tolerance", got)


class StoppingRule(Protocol):
    """Looks at the residual history (k+1, B) and answers for each sample; None: go on."""

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]: ...


@dataclass(frozen=True)
class FixedSteps:
    """Stop after a number of steps.

    >>> from neuralsolver.solvers import FixedSteps
    >>> FixedSteps(5).steps
    5
    """

    steps: int

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int | np.integer) or self.steps < 0:
            raise InvalidInput("steps", "a whole number, zero or more", self.steps)

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        done = len(norms) - 1 >= self.steps
        return [Status.FINISHED if done else None] * norms.shape[1]


@dataclass(frozen=True)
class ResidualPlateau:
    """The paper's rule: stop when `window` steps improved the residual by less than `rtol`.

    A residual that has not left the first guess, above `stalled` of it, is no answer.

    >>> from neuralsolver.solvers import ResidualPlateau
    >>> ResidualPlateau().window
    10
    """

    max_steps: int = 120
    window: int = 10
    rtol: float = 1e-2
    stalled: float = LEFT_THE_START

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        if len(norms) - 1 >= self.max_steps:
            return [Status.FINISHED] * norms.shape[1]
        if len(norms) <= self.window:
            return [None] * norms.shape[1]
        before = norms[: -self.window].amin(0)
        recent = norms[-self.window :].amin(0)
        flat = recent > (1 - self.rtol) * before
        far = before.minimum(recent) > self.stalled * scale
        ends = (Status.PLATEAU, Status.STALLED)
        return [ends[bool(f)] if stop else None for stop, f in zip(flat, far, strict=True)]


@dataclass(frozen=True)
class ResidualBelow:
    """Stop when the residual is below `tolerance` times that of the first guess.

    With a `patience`, a sample ends as STALLED when that many steps have not halved its residual.

    >>> from neuralsolver.solvers import ResidualBelow
    >>> ResidualBelow(1e-6).tolerance
    1e-06
    """

    tolerance: float
    max_steps: int = 150
    patience: int | None = None

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        late: Status | None = Status.STEP_LIMIT if len(norms) > self.max_steps else None
        below = norms[-1] <= self.tolerance * scale
        verdicts: list[Status | None] = [Status.TOLERANCE if reached else late for reached in below]
        if self.patience is None or len(norms) <= self.patience:
            return verdicts
        best_before = norms[: -self.patience].amin(0)
        stuck = norms[-self.patience :].amin(0) > 0.5 * best_before
        return [
            Status.STALLED if verdict is None and still else verdict
            for verdict, still in zip(verdicts, stuck, strict=True)
        ]
