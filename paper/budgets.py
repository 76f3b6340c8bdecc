"""What a trained row was given: minutes, batches and weights, read from the card of its model.

A budget counts CPU minutes of one core (`training/fit.py::busy_seconds`). The models of the first
release were trained by the clock on a machine that was shared, so they had less computing than
their cards say. They are known by their weights, and what as many batches take on a core of its own
was measured since and is read from results/desk/training.json.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from neuralsolver.errors import FileDamaged
from neuralsolver.training.card import read_card
from neuralsolver.training.checkpoint import WEIGHTS
from neuralsolver.training.library import SHIPPED, shipped, shipped_denoisers

Budget = dict[str, Any]
"""`minutes`, `batches`, `weights` (how many numbers were learnt) and the `clock` of the minutes."""
CLOCKS = ("CPU", "again")
"""CPU minutes of the training, or of as many batches timed again."""

TIMED = Path(__file__).parents[1] / "results" / "desk" / "training.json"
"""Stages of the models that were trained by the clock, timed again once."""


@cache
def timed_again() -> dict[str, float]:
    """CPU minutes of the solvers trained by the clock, by the start of their weights' SHA-256."""
    minutes: dict[str, float] = {}
    for stage in json.loads(TIMED.read_text()) if TIMED.is_file() else []:
        minutes[stage["sha256"]] = minutes.get(stage["sha256"], 0.0) + stage["minutes"]
    return {digest: round(total, 1) for digest, total in minutes.items()}


def tensor_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a safetensors file; none of them is read."""
    try:
        with safe_open(file, framework="np") as stored:
            names = list(stored.keys())
            return {name: tuple(stored.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError) as error:
        raise FileDamaged(str(file), "a whole safetensors file", str(error)[:100]) from None


def budget_of(model: Path) -> Budget:
    """The budget of one model folder."""
    card = read_card(model)
    # a denoiser has one training, a solver one or several stages
    stages = [*card.get("stages", {}).values(), *filter(None, [card.get("training")])]
    known = str(card["sha256"])[:8]
    said = _total(stage.get("minutes") for stage in stages)
    return {
        "minutes": timed_again().get(known, said),
        "batches": _total(stage.get("batches") for stage in stages),
        "weights": sum(math.prod(shape) for shape in tensor_shapes(model / WEIGHTS).values()),
        "clock": "again" if known in timed_again() else "CPU",
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
    folders = [SHIPPED / name for name in (*shipped(), *shipped_denoisers())]
    return {str(read_card(folder)["sha256"]): budget_of(folder) for folder in folders}
