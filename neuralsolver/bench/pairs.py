"""Two things timed against each other on a machine that does other things meanwhile.

CPU seconds do not count waiting, but what else runs takes cache and memory: the same call has been
seen at 6.6 and at 14.7 ms within minutes. Two calls one after the other have nearly the same
neighbours, so the ratio of a pair is steadier than its seconds:

    a₁ b₁  b₂ a₂  a₃ b₃ …       ratios bᵢ/aᵢ: their median, and the quarter points around it

The order within a pair alternates, because the first to come warms the cache for the second.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of some ratios, and the quarter points between which half of them lie.

    >>> from neuralsolver.bench.pairs import Ratio
    >>> str(Ratio(2.5, 2.25, 3.0))
    '2.5 (2.2 to 3.0)'
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2g} ({self.low:.1f} to {self.high:.1f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """How many times longer theirs took, from seconds that were measured in pairs.

    >>> from neuralsolver.bench.pairs import ratio
    >>> ratio([1.0, 2.0, 1.0], [2.0, 4.0, 6.0]).median
    2.0
    """
    every = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    if len(every) < 2:
        return Ratio(every[0], every[0], every[0])
    low, median, high = statistics.quantiles(every, n=4, method="inclusive")
    return Ratio(median, low, high)


def interleaved(
    first: Callable[[], object], second: Callable[[], object], pairs: int = 9
) -> tuple[list[float], list[float]]:
    """CPU seconds of two calls that take turns, after one of each that does not count."""
    calls = (first, second)
    seconds: tuple[list[float], list[float]] = ([], [])
    for call in calls:
        call()
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            begin = time.process_time()
            calls[which]()
            seconds[which].append(time.process_time() - begin)
    return seconds
