"""What a trained row was given: minutes, batches and weights, read from the card of its model.

A budget counts CPU minutes of one core (`training/fit.py::busy_seconds`). The models of the first
release were trained by the clock on a machine that was shared, so they had less computing than
their minutes say; they are known by their weights.
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

# fmt: off
BY_THE_CLOCK = frozenset((
    "98dfe405", "10153af6", "38b2f581", "6a848bc6", "5378ec39", "19c633ff", "19311456", "f3511952",
    "e94298f9", "bb2156c5", "1f3b0cea", "3452506d", "fd2d48cc", "7c315c4c", "aafbb703", "a79e3d5f",
    "eaa1f54a", "723c6fd7",
))
# fmt: on
"""How the SHA-256 of those weights begin."""


def budget_of(model: Path) -> Budget:
    """The budget of one model folder."""
    card = read_card(model)
    # a denoiser has one training, a solver one or several stages
    stages = [*card.get("stages", {}).values(), *filter(None, [card.get("training")])]
    return {
        "minutes": _total(stage.get("minutes") for stage in stages),
        "batches": _total(stage.get("batches") for stage in stages),
        "weights": sum(math.prod(shape) for _, shape in read_header(model / WEIGHTS).values()),
        "clock": "wall" if str(card["sha256"])[:8] in BY_THE_CLOCK else "CPU",
    }


def budget_of_all(models: Iterable[Path]) -> Budget | None:
    """The budget of the models that one method uses, or None where it uses none."""
    found = [budget_of(model) for model in models]
    if not found:
        return None
    numbers = {key: _total(one[key] for one in found) for key in ("minutes", "batches", "weights")}
    return {**numbers, "clock": "wall" if any(b["clock"] == "wall" for b in found) else "CPU"}


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
