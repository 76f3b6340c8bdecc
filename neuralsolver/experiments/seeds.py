"""Does the contractive recipe work every time? The same training from several seeds, on 32 × 32.

`ens evaluate seeds` trains the models among the runs and appends rows to seeds.jsonl.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import EQUATIONS
from neuralsolver.experiments.evaluate import Evaluation, Progress
from neuralsolver.experiments.rows import Row, ledger, machine
from neuralsolver.experiments.run import Training, train
from neuralsolver.training import error_history, load_model
from neuralsolver.training.checkpoint import CARD, read_card

EQUATIONS_TRIED, SEEDS, GRID = ("helmholtz", "darcy"), 3, 32
MINUTES = 3.0
TARGET = 1e-10
STEPS = 40
SHOWN = (0, 5, 10, 20, STEPS)
SAMPLES, TEST_SEED = 100, 31
VERSION = 1


def run(evaluation: Evaluation, progress: Progress | None = None) -> list[Row]:
    """One row for each equation and seed: errors on fresh samples after some minutes of training.

    A scale with a number of batches trains for these instead of minutes.
    """
    torch.set_num_threads(1)
    scale = replace(evaluation.scale, resolution=GRID, warm_resolution=None)
    if scale.minutes is not None:
        scale = replace(scale, minutes=MINUTES)
    here = replace(evaluation, scale=scale)
    cases = [(name, seed) for name in EQUATIONS_TRIED for seed in range(SEEDS)]
    rows = []
    with ledger(here.results / scale.name / "seeds.jsonl", here.tell) as written:
        for position, (name, seed) in enumerate(cases):
            if progress is not None:
                progress(position / len(cases), f"{name}, seed {seed}")
            training = Training(EQUATIONS[name], "contractive", scale, seed)
            key = {"equation": name, "seed": seed, "minutes": scale.minutes}
            card = training.folder(here.runs) / "model" / CARD
            weights = str(read_card(card.parent)["sha256"]) if card.is_file() else None
            rows.append(
                written.settle(key, VERSION, weights, partial(_measured, here, training, key))
            )
    return rows


def _measured(here: Evaluation, training: Training, key: Row) -> Row:
    model: Path = train(training, here.runs, data=here.data, report=here.report)
    spec = DatasetSpec(training.equation, SAMPLES, GRID, "test", TEST_SEED)
    errors = error_history(load_model(model)[0], generate(spec, here.data), STEPS)
    return {
        **key,
        "samples": SAMPLES,
        "errors": {str(step): errors[step] for step in SHOWN},
        "target": TARGET,
        "reached": errors[STEPS] <= TARGET,
        "machine": machine(),
        "weights": str(read_card(model)["sha256"]),
        "version": VERSION,
    }


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    steps = ", ".join(map(str, SHOWN))
    lines = [f"{'equation':12} {'seed':>4} {'minutes':>7}  error after {steps} steps"]
    for row in rows:
        errors = "  ".join(f"{error:.1e}" for error in row["errors"].values())
        minutes = "" if row["minutes"] is None else f"{row['minutes']:.1f}"
        mark = "" if row["reached"] else "  MISSED"
        lines.append(f"{row['equation']:12} {row['seed']:4d} {minutes:>7}  {errors}{mark}")
    return "\n".join(lines)
