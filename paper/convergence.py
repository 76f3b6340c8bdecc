"""Whether an iteration has come to rest, from the history of its errors and residuals.

With y the mean error or the root of the mean square residual after each of K steps, K/3 of them
the last third:

    diverged             some sample left, or y is not finite
    rising               y_K > (1 + θ) y_{2K/3}
    not left its start   y_K > y_0 / 2
    still falling        y_K < (1 − θ) y_{2K/3}
    converged            none of these, for the error and for the residual, θ = `REST`

A method that always makes K steps ends as FINISHED whatever it did; this looks at what it did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

REST = 0.05
BEGUN = 0.5
CONVERGED = "yes"


def convergence(
    history: Mapping[str, Sequence[float | None]] | None, diverged: int = 0, samples: int = 0
) -> str:
    """ "yes", or "no" and why; `diverged` of the `samples` left the iteration."""
    if diverged:
        return f"no, {diverged} of {samples} diverged"
    curves = [_curve(history or {}, quantity) for quantity in ("error", "residual")]
    if any(len(curve) < 4 for curve in curves):
        return "no, too few steps"
    if not all(math.isfinite(value) for curve in curves for value in curve):
        return "no, diverged"
    before = [curve[-1 - math.ceil((len(curve) - 1) / 3)] for curve in curves]
    pairs = list(zip(curves, before, strict=True))
    if any(curve[-1] > (1 + REST) * then for curve, then in pairs):
        return "no, rising"
    if any(curve[-1] > BEGUN * curve[0] for curve in curves):
        return "no, not left its start"
    falling = any(curve[-1] < (1 - REST) * then for curve, then in pairs)
    return "no, still falling" if falling else CONVERGED


def _curve(history: Mapping[str, Sequence[float | None]], quantity: str) -> list[float]:
    values = [math.nan if value is None else value for value in history.get(quantity) or ()]
    return values if quantity == "error" else [math.sqrt(value) for value in values]
