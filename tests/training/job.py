"""A tiny training job as a program of its own, to be killed, resumed and distributed by the tests.

python -m tests.training.job FOLDER BATCHES [PAUSE]
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Equation, Helmholtz, Problem
from neuralsolver.training import Card, fit, save_model
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_plan, make_solver


class InMemory:
    """Examples drawn and solved on the spot."""

    def __init__(self, equation: Equation, count: int, resolution: int, seed: int = 0) -> None:
        drawn = Problem.random(equation, resolution, count, seed).inputs
        found = solve_reference(equation, drawn.numpy())
        self.equation = equation
        self.inputs = torch.from_numpy(found.inputs)
        self.solution = torch.from_numpy(found.solution)

    def __len__(self) -> int:
        return len(self.inputs)

    def tensors(self, index=slice(None), dtype=torch.float64):
        return self.inputs[index].to(dtype), self.solution[index].to(dtype)


def main(folder: Path, batches: int, pause: float = 0.0) -> None:
    torch.set_num_threads(1)
    equation = Helmholtz()
    solver = make_solver("contractive", equation, SCALES["tiny"], seed=3)
    plan = make_plan(
        "contractive",
        equation,
        SCALES["tiny"],
        batches=batches,
        ema=0.9,
        checkpoint_seconds=0.0,
        seed=5,
    )

    def progress(done, record):
        print(record.batches, flush=True)
        time.sleep(pause)

    fit(solver, InMemory(equation, 24, 16), plan, folder, progress=progress)
    # `fit` has left the group by now, so the group cannot be asked
    if os.environ.get("RANK", "0") != "0":
        return
    save_model(folder / "model", solver, Card(equation, 16, {}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
