"""Does the contractive recipe work every time? The same training from several seeds, on 32 × 32."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import EQUATIONS
from neuralsolver.experiments.run import Training, train
from neuralsolver.experiments.scales import SCALES
from neuralsolver.training import error_history, load_model

TARGET = 1e-10
STEPS = 40
TEST_SEED = 31


def measure(
    minutes: float = 2.0, seeds: int = 3, equations: tuple[str, ...] = ("helmholtz", "darcy")
) -> list[dict[str, Any]]:
    """Train each equation from each seed for some minutes on one thread; errors on 100 samples."""
    torch.set_num_threads(1)
    scale = replace(
        SCALES["desk"], resolution=32, budget_minutes=minutes, warm_start_resolution=None
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in equations:
            equation = EQUATIONS[name]
            spec = DatasetSpec(equation, 100, 32, "test", TEST_SEED)
            test = generate(spec, Path(folder))
            for seed in range(seeds):
                training = Training(equation, "contractive", scale, seed)
                model = train(training, Path(folder) / "runs", data=Path(folder))
                errors = error_history(load_model(model)[0], test, STEPS)
                rows.append(
                    {
                        "equation": name,
                        "seed": seed,
                        "minutes": minutes,
                        "samples": 100,
                        "errors": {step: errors[step] for step in (0, 5, 10, 20, STEPS)},
                        "target": TARGET,
                        "reached": errors[STEPS] <= TARGET,
                    }
                )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as aligned text."""
    lines = [f"{'equation':12} {'seed':>4} {'minutes':>7}  error after 0, 5, 10, 20, {STEPS} steps"]
    for row in rows:
        errors = "  ".join(f"{error:.1e}" for error in row["errors"].values())
        mark = "" if row["reached"] else "  MISSED"
        lines.append(f"{row['equation']:12} {row['seed']:4d} {row['minutes']:7.1f}  {errors}{mark}")
    return "\n".join(lines)
