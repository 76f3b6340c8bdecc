"""What the training of a shipped model costs on a quiet core.

The models of the first release were trained for minutes of the clock on a machine that was shared,
so their cards say too much. Each stage of theirs is trained here once more for a moment, and

    CPU minutes = Σ over the stages of  its batches × what a batch takes now

is what `experiments/budgets.py` states for them. Nothing of the trained weights matters for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import Equation
from neuralsolver.experiments.budgets import TIMED_AGAIN
from neuralsolver.experiments.recipes import make_solver
from neuralsolver.experiments.rows import machine
from neuralsolver.experiments.trainings import scale_named
from neuralsolver.training import fit, load, shipped
from neuralsolver.training.card import read_card
from neuralsolver.training.library import SHIPPED
from neuralsolver.training.plan import Plan

Row = dict[str, Any]

SAMPLES = 16
"""Examples: what a batch takes does not depend on how many there are."""
MINUTES = 0.2


def timed_models() -> list[str]:
    """The solvers of the package that were trained by the clock."""
    return [n for n in shipped() if str(read_card(SHIPPED / n)["sha256"])[:8] in TIMED_AGAIN]


def measure(
    models: Sequence[str] | None = None,
    minutes: float = MINUTES,
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per stage of each model: its batches, milliseconds of one, minutes of all."""
    torch.set_num_threads(1)
    names = timed_models() if models is None else list(models)
    rows = []
    for position, name in enumerate(names):
        if tell is not None:
            tell(position / len(names), name)
        rows += _rows(name, minutes)
    return rows


def _rows(name: str, minutes: float) -> list[Row]:
    card, trained = read_card(SHIPPED / name), load(name)
    rows = []
    for stage, done in card["stages"].items():
        plan = replace(Plan(**done["plan"]), batches=None, budget_minutes=minutes)
        milliseconds = _milliseconds(trained.equation, card["recipe"], done["resolution"], plan)
        rows.append(
            {
                "model": name,
                "sha256": str(card["sha256"])[:8],
                "stage": stage,
                "resolution": done["resolution"],
                "batches": done["batches"],
                "milliseconds": round(milliseconds, 1),
                "minutes": round(done["batches"] * milliseconds / 60e3, 2),
                "machine": machine(),
            }
        )
    return rows


def _milliseconds(equation: Equation, recipe: str, resolution: int, plan: Plan) -> float:
    """What a batch takes."""
    solver = make_solver(recipe, equation, scale_named("desk"))
    with TemporaryDirectory() as folder:
        examples = generate(DatasetSpec(equation, SAMPLES, resolution, "train", 0), Path(folder))
        record = fit(solver, examples, plan, Path(folder) / "run")
    return 1e3 * record.seconds / record.batches


def table(rows: list[Row]) -> str:
    """The rows as aligned text, with the sum for each model."""
    lines = [
        f"{'model':32} {'stage':11} {'points':>6} {'batches':>8} {'ms each':>8} {'minutes':>8}"
    ]
    for row in rows:
        lines.append(
            f"{row['model']:32} {row['stage']:11} {row['resolution']:6d} {row['batches']:8,d} "
            f"{row['milliseconds']:8.0f} {row['minutes']:8.1f}"
        )
    for name in dict.fromkeys(row["model"] for row in rows):
        total = sum(row["minutes"] for row in rows if row["model"] == name)
        lines.append(f"{name:32} together {total:46.1f}")
    return "\n".join(lines)
