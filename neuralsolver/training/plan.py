"""The plan of a training run, and the record of what it has done.

Every random choice (the order of the samples, where replay starts afresh, how many corrections) is
derived from (seed, position), never from a generator that carries state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralsolver.equations import generator
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Bool, Choice, Float, Int, Limit
from neuralsolver.training.objectives import OBJECTIVES

LIMITS: dict[str, Limit] = {
    "objective": Choice(OBJECTIVES),
    "batches": Int(1, 10**9),
    "budget_minutes": Float(above=0.0, most=1e6),
    "batch_size": Int(1, 10**6),
    "unroll": Int(0, 10_000),
    "shortest_unroll": Int(0, 10_000),
    "replay": Bool(),
    "restart": Float(0.0, 1.0),
    "learning_rate": Float(above=0.0, most=100.0),
    "weight_decay": Float(0.0, 100.0),
    "warmup": Int(0, 10**9),
    "clip": Float(above=0.0),
    "ema": Float(0.0, 0.9999999),
    "update_each_loss": Bool(),
    "seed": SEED,
    "bfloat16": Bool(),
    "compile": Bool(),
    "fixed_predictor": Bool(),
    "symmetries": Bool(),
    "checkpoint_seconds": Float(0.0, 1e6),
    "validate_seconds": Float(0.0, 1e6),
}
"""The type and range of every field of a plan."""


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

    objective: str = "contraction"
    batches: int | None = None
    budget_minutes: float | None = None
    batch_size: int = 16
    unroll: int = 5
    shortest_unroll: int = 5
    replay: bool = False
    restart: float = 0.125
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    warmup: int = 100
    clip: float = 1.0
    ema: float = 0.0
    update_each_loss: bool = False
    seed: int = 0
    bfloat16: bool = False
    compile: bool = False
    fixed_predictor: bool = False
    symmetries: bool = False
    checkpoint_seconds: float = 60.0
    validate_seconds: float = 60.0

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


@dataclass
class Record:
    """What a run has done so far."""

    batches: int = 0
    updates: int = 0
    skipped: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
