"""How far a mean over test samples can be trusted: its 95 % interval.

bootstrap    the 2.5 % and 97.5 % quantiles of the means of `RESAMPLES` samples drawn with
             replacement, always the same draws, so the same errors have the same interval
normal       mean ± t s/√(n − 1), s² = Σ(eᵢ − mean)²/n, t the quantile of Student's distribution
             with n − 1 degrees of freedom: for rows that have kept the spread and not the errors

Errors of solvers have long tails, which only the bootstrap sees. Below `FEWEST` samples neither is
worth its ink: a bootstrap of two errors knows nothing between and beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.special import stdtrit

Interval = tuple[float, float]

RESAMPLES = 2000
FEWEST = 8


def bootstrap_interval(errors: Sequence[float | None]) -> Interval | None:
    """The interval of the mean of some errors; None where they are too few or not all finite."""
    values = np.array([math.nan if error is None else error for error in errors], dtype=np.float64)
    if len(values) < FEWEST or not np.isfinite(values).all():
        return None
    low, high = np.quantile(values[_draws(len(values))].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


@cache
def _draws(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).integers(count, size=(RESAMPLES, count))


def normal_interval(mean: float, spread: float, count: int) -> Interval | None:
    """The interval of a mean over `count` errors whose standard deviation is `spread`."""
    if count < FEWEST or not math.isfinite(mean) or not math.isfinite(spread):
        return None
    half = float(stdtrit(count - 1, 0.975)) * spread / math.sqrt(count - 1)
    return mean - half, mean + half
