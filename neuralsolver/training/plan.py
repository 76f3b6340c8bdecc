"""The plan of a training run, and the record of what it has done.

Every random choice (the order of the samples, where replay starts afresh, how many corrections) is
derived from (seed, position), never from a generator that carries state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from neuralsolver.equations import generator
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Bool, Choice, Float, Int, Limit
from neuralsolver.training.objectives import OBJECTIVES


def _within(limit: Limit, default: Any) -> Any:
    """A field of a plan with its type and range."""
    return field(default=default, metadata={"limit": limit})


CHANCES = 4
"""Numbers that an objective has for each sample."""


@dataclass(frozen=True)
class Plan:
    """How to train. Either `batches` or `budget_minutes` says when to stop.

    A budget is in minutes that each thread is busy, so that what else runs takes nothing from it.

    >>> Plan(batches=100, batch_size=8).learning_rate
    0.002

    With `replay`, the last iterate of every sample is remembered and the next visit goes on from
    it, or with probability `restart` from the prediction again. A batch then mixes early and late
    iterates of different samples, as many corrections deep as the corrector has become good for.

    With `fixed_predictor` only the corrector learns. With `symmetries` every visit sees a sample
    moved by one that the equation has (`Equation.moved`); remembered iterates would not follow.
    With `update_each_loss` every correction of a batch is followed by an update of its own.
    """

    objective: str = _within(Choice(OBJECTIVES), "contraction")
    batches: int | None = _within(Int(1, 10**9), None)
    budget_minutes: float | None = _within(Float(above=0.0, most=1e6), None)
    batch_size: int = _within(Int(1, 10**6), 16)
    unroll: int = _within(Int(0, 10_000), 5)
    shortest_unroll: int = _within(Int(0, 10_000), 5)
    replay: bool = _within(Bool(), False)
    restart: float = _within(Float(0.0, 1.0), 0.125)
    learning_rate: float = _within(Float(above=0.0, most=100.0), 2e-3)
    weight_decay: float = _within(Float(0.0, 100.0), 1e-4)
    warmup: int = _within(Int(0, 10**9), 100)
    clip: float = _within(Float(above=0.0), 1.0)
    ema: float = _within(Float(0.0, 0.9999999), 0.0)
    update_each_loss: bool = _within(Bool(), False)
    seed: int = _within(SEED, 0)
    bfloat16: bool = _within(Bool(), False)
    compile: bool = _within(Bool(), False)
    fixed_predictor: bool = _within(Bool(), False)
    symmetries: bool = _within(Bool(), False)
    checkpoint_seconds: float = _within(Float(0.0, 1e6), 60.0)
    validate_seconds: float = _within(Float(0.0, 1e6), 60.0)

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            value = getattr(self, name)
            if value is not None or name not in ("batches", "budget_minutes"):
                object.__setattr__(self, name, limit.read(name, value))
        if (self.batches is None) == (self.budget_minutes is None):
            got = f"batches {self.batches} and budget_minutes {self.budget_minutes}"
            raise InvalidInput("plan", "either batches or budget_minutes", got)
        if self.replay and self.symmetries:
            raise InvalidInput("symmetries", "False where iterates are replayed", True)
        if not 0 <= self.shortest_unroll <= self.unroll:
            raise InvalidInput("shortest_unroll", f"0 to {self.unroll}", self.shortest_unroll)

    def samples(self, batch: int, count: int) -> np.ndarray[Any, Any]:
        """The indices of a batch: the samples are dealt out anew in every epoch."""
        size = min(self.batch_size, count)
        per_epoch = count // size
        epoch, position = divmod(batch, per_epoch)
        order = generator(self.seed, 0, epoch).permutation(count)
        return order[position * size : (position + 1) * size]

    def restarts(self, batch: int, size: int) -> np.ndarray[Any, Any]:
        """Which samples of a batch start from the prediction again."""
        return generator(self.seed, 2, batch).random(size) < self.restart

    def chances(self, batch: int, size: int) -> np.ndarray[Any, Any]:
        """For each sample of a batch numbers in [0, 1), for what an objective leaves to chance."""
        return generator(self.seed, 5, batch).random((size, CHANCES))

    def corrections(self, batch: int) -> int:
        """The number of corrections of a batch."""
        chosen = generator(self.seed, 1, batch).integers(self.shortest_unroll, self.unroll + 1)
        return int(chosen)

    def rate(self, updates: int, progress: float) -> float:
        """Linear warm-up, then a half cosine to zero."""
        warm = min(1.0, (updates + 1) / max(1, self.warmup))
        return self.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


LIMITS: dict[str, Limit] = {field.name: field.metadata["limit"] for field in fields(Plan)}
"""The type and range of every field of a plan."""


@dataclass
class Record:
    """What a run has done so far."""

    batches: int = 0
    updates: int = 0
    skipped: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
