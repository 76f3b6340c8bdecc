"""What a trained row was given: minutes, batches and weights, read from the card of its model.

A budget counts CPU minutes of one core (`training/fit.py::busy_seconds`). The models of the first
release were trained by the clock on a machine that was shared, so they had less computing than
their cards say. They are known by their weights, and what as many batches take on a core of its own
was measured since: `ens bench training`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from neuralsolver.training.card import CARD, read_card, read_header
from neuralsolver.training.checkpoint import WEIGHTS
from neuralsolver.training.library import SHIPPED

Budget = dict[str, Any]
"""`minutes`, `batches`, `weights` (how many numbers were learnt) and the `clock` of the minutes."""
CLOCKS = ("CPU", "again", "wall")
"""CPU minutes of the training, of as many batches timed again, minutes of the day."""

# fmt: off
TIMED_AGAIN = {
    "98dfe405": 10.5, "19c633ff": 11.4, "fd2d48cc": 6.7, "aafbb703": 8.6,
    "38b2f581": 9.1, "f3511952": 6.9, "7c315c4c": 8.8, "eaa1f54a": 6.7,
    "bb2156c5": 29.5, "cd5791ee": 39.4, "571b4683": 28.4, "4c8d24a2": 26.7,
    "1f3b0cea": 26.0, "3452506d": 18.9,
}
"""CPU minutes of the solvers trained by the clock, in part or all of it; the SHA-256 of their
weights begin so (results/desk/training.json)."""
BY_THE_CLOCK = frozenset((
    "6a848bc6", "19311456", "e94298f9", "a79e3d5f", "723c6fd7",
))
"""Those of denoisers, which no table compares by their minutes."""
# fmt: on


def budget_of(model: Path) -> Budget:
    """The budget of one model folder."""
    card = read_card(model)
    # a denoiser has one training, a solver one or several stages
    stages = [*card.get("stages", {}).values(), *filter(None, [card.get("training")])]
    known = str(card["sha256"])[:8]
    clock = "again" if known in TIMED_AGAIN else "wall" if known in BY_THE_CLOCK else "CPU"
    said = _total(stage.get("minutes") for stage in stages)
    return {
        "minutes": TIMED_AGAIN.get(known, said),
        "batches": _total(stage.get("batches") for stage in stages),
        "weights": sum(math.prod(shape) for _, shape in read_header(model / WEIGHTS).values()),
        "clock": clock,
    }


def budget_of_all(models: Iterable[Path]) -> Budget | None:
    """The budget of the models that one method uses, or None where it uses none."""
    found = [budget_of(model) for model in models]
    if not found:
        return None
    numbers = {key: _total(one[key] for one in found) for key in ("minutes", "batches", "weights")}
    return {**numbers, "clock": max((b["clock"] for b in found), key=CLOCKS.index)}


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if not known or None in known:
        return None
    total = math.fsum(value for value in known if value is not None)
    return int(total) if total == int(total) else round(total, 2)


@cache
def shipped_budgets() -> dict[str, Budget]:
    """The budgets of the models of the package by the SHA-256 of their weights.

    Rows that were measured before a row had its budget are looked up here.
    """
    return {
        str(read_card(c.parent)["sha256"]): budget_of(c.parent) for c in SHIPPED.glob(f"*/{CARD}")
    }
