"""Does a recipe work every time? The same training from several seeds, on 32 × 32 points.

`ens evaluate seeds` trains the models among the runs, each for the same minutes of one core, and
appends rows to seeds.jsonl: the plain iteration without acceleration, on fresh samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import Darcy, Equation, Helmholtz
from neuralsolver.experiments.evaluate import Evaluation, Progress
from neuralsolver.experiments.paper import DIAGONAL
from neuralsolver.experiments.rows import Row, ledger, machine
from neuralsolver.experiments.run import Training, train
from neuralsolver.training import error_history, load_model
from neuralsolver.training.checkpoint import CARD, read_card


@dataclass(frozen=True)
class Case:
    """A training that is repeated, and the error it is meant to reach in `STEPS` corrections."""

    equation: Equation
    recipe: str
    target: float | None = None


# a flow of 32 points is cut from one of 64 and has all modes below n/2: the 3/2 rule is its own
COARSE_FLOW = replace(DIAGONAL, dealiasing="3/2")
CASES = (
    Case(Helmholtz(), "contractive", 1e-10),
    Case(Helmholtz(), "paper"),
    Case(Darcy(), "contractive", 1e-10),
    Case(COARSE_FLOW, "contractive"),
    Case(COARSE_FLOW, "paper"),
)
SEEDS, GRID = 3, 32
MINUTES = 3.0
STEPS = 40
SHOWN = (0, 5, 10, 20, STEPS)
SAMPLES, TEST_SEED = 100, 31
VERSION = 1


def run(evaluation: Evaluation, progress: Progress | None = None) -> list[Row]:
    """One row for each case and seed: errors on fresh samples after some minutes of training.

    A scale with a number of batches trains for these instead of minutes.
    """
    torch.set_num_threads(1)
    scale = replace(evaluation.scale, resolution=GRID, warm_resolution=None)
    minutes = None if scale.minutes is None else MINUTES
    changes = {} if minutes is None else {"budget_minutes": minutes}
    here = replace(evaluation, scale=scale)
    cases = [(case, seed) for case in CASES for seed in range(SEEDS)]
    rows = []
    with ledger(here.results / scale.name / "seeds.jsonl", here.tell) as written:
        for position, (case, seed) in enumerate(cases):
            name = case.equation.name
            if progress is not None:
                progress(position / len(cases), f"{name}, {case.recipe}, seed {seed}")
            training = Training(case.equation, case.recipe, scale, seed, changes=changes)
            key = {"equation": name, "recipe": case.recipe, "seed": seed, "minutes": minutes}
            card = training.folder(here.runs) / "model" / CARD
            weights = str(read_card(card.parent)["sha256"]) if card.is_file() else None
            measured = partial(_measured, here, training, key, case.target)
            rows.append(written.settle(key, VERSION, weights, measured))
    return rows


def _measured(here: Evaluation, training: Training, key: Row, target: float | None) -> Row:
    model: Path = train(training, here.runs, data=here.data, report=here.report)
    spec = DatasetSpec(training.equation, SAMPLES, GRID, "test", TEST_SEED)
    errors = error_history(load_model(model)[0], generate(spec, here.data), STEPS)
    return {
        **key,
        "samples": SAMPLES,
        "errors": {str(step): errors[step] for step in SHOWN},
        "target": target,
        "reached": target is None or errors[STEPS] <= target,
        "machine": machine(),
        "weights": str(read_card(model)["sha256"]),
        "version": VERSION,
    }


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    steps = ", ".join(map(str, SHOWN))
    lines = [f"{'equation':14} {'recipe':12} {'seed':>4} {'minutes':>7}  error after {steps} steps"]
    for row in rows:
        errors = "  ".join(f"{error:.1e}" for error in row["errors"].values())
        minutes = "" if row["minutes"] is None else f"{row['minutes']:.1f}"
        mark = "" if row["reached"] else "  MISSED"
        name = f"{row['equation']:14} {row['recipe']:12}"
        lines.append(f"{name} {row['seed']:4d} {minutes:>7}  {errors}{mark}")
    return "\n".join(lines)
