"""Training and measuring on what is yours: an equation, or a dataset that you already have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import neuralsolver
from neuralsolver.data import Dataset, read
from neuralsolver.equations import Equation, Problem
from neuralsolver.equations.contract import check_equation
from neuralsolver.errors import InvalidInput
from neuralsolver.evaluation.measure import Subject, measure
from neuralsolver.experiments.run import Report, Training
from neuralsolver.experiments.run import train as train_model
from neuralsolver.experiments.trainings import Scale, scale_named
from neuralsolver.progress import Progress
from neuralsolver.solvers import TrainedSolver
from neuralsolver.training import Record, load
from neuralsolver.training.checkpoint import CARD, Card, save_model
from neuralsolver.training.fit import error_history, fit

HELD_OUT = 10
"""Of a user's samples the last tenth is never trained on."""
LEAST_SAMPLES = 2
MEASURED_STEPS = 20


def train(
    equation: Equation,
    *,
    recipe: str = "contractive",
    scale: str | Scale = "desk",
    runs: str | Path = "runs",
    data: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
    start: str | Path | None = None,
    **plan: Any,
) -> TrainedSolver:
    """Train a solver of an equation of the package or of your own.

    `scale` is "tiny", "desk" or "paper"; `plan` replaces fields of `Plan`, such as `batches`. The
    run lives under `runs` and the data under `data`: the same call continues an interrupted run and
    finds a finished one. `progress` shows on stderr how far it is. `start` is the model to go on
    from, or a file of published weights that the recipe "poseidon" fine-tunes.

    >>> import neuralsolver as ns, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> solver = ns.train(ns.Poisson(), scale="tiny", runs=folder, data=folder, batches=2)
    >>> solver.resolution
    16
    """
    check_equation(equation)
    size = scale_named(scale) if isinstance(scale, str) else scale
    training = Training(equation, recipe, size, seed, changes=plan, start=start)
    with ExitStack() as shown:
        report = None
        if progress:
            report = reporting(shown.enter_context(Progress(f"{equation.name} {recipe}")))
        folder = train_model(
            training, Path(runs), data=None if data is None else Path(data), report=report
        )
    return load(folder)


def reporting(progress: Progress) -> Report:
    """What `train` calls to show how it stands."""

    def report(stage: str, done: float, record: Record) -> None:
        loss = sum(record.losses) / max(1, len(record.losses))
        text = f"{stage}, batch {record.batches}, loss {loss:.2e}"
        if record.validation:
            text += f", validation {record.validation[0]:.1e} to {record.validation[-1]:.1e}"
        progress.fraction(done, text)

    return report


def train_on(
    file: str | Path,
    training: Callable[[Equation], Training],
    runs: Path,
    report: Report | None = None,
    equation: Equation | None = None,
) -> Path:
    """Train on the samples of a dataset file, of ours or of a known layout, on their own grid.

    `training` describes how for the equation that the file holds. The last tenth of the samples is
    held out and measured. The folder of the run is named by the description and the file's hash.
    """
    dataset = read(file, equation)
    if len(dataset) < LEAST_SAMPLES:
        raise InvalidInput("--dataset", f"at least {LEAST_SAMPLES} samples", len(dataset))
    chosen = training(dataset.equation)
    plan, recipe = chosen.stages[-1].plan, chosen.recipe
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    start = [] if chosen.beginning is None else [chosen.beginning.digest]
    text = json.dumps([asdict(plan), digest, chosen.scale.name, *start], sort_keys=True)
    name = f"own-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder = runs / dataset.equation.name / recipe / name
    if (folder / "model" / CARD).exists():
        return folder / "model"
    solver = chosen.solver()
    kept = max(1, len(dataset) // HELD_OUT)
    examples, held_out = _Part(dataset, 0, len(dataset) - kept), _Part(dataset, -kept, len(dataset))
    progress = None if report is None else (lambda done, record: report("training", done, record))
    record = fit(solver, examples, plan, folder, validation=held_out, progress=progress)
    errors = error_history(solver, held_out, MEASURED_STEPS)
    described = {
        "recipe": recipe,
        "scale": chosen.scale.name,
        "seed": chosen.seed,
        "data": {"samples": len(examples), "sha256": digest},
        "stages": {"training": {"plan": asdict(plan), "batches": record.batches}},
        "errors": {
            "samples": kept,
            "relative_l2": {str(step): error for step, error in enumerate(errors)},
        },
        "version": neuralsolver.__version__,
    }
    card = Card(dataset.equation, dataset.resolution, described)
    save_model(folder / "model", solver, card)
    return folder / "model"


class _Part:
    """Consecutive samples of a dataset."""

    def __init__(self, dataset: Dataset, first: int, last: int) -> None:
        self.dataset, self.equation = dataset, dataset.equation
        self.rows = range(len(dataset))[first:last]

    def __len__(self) -> int:
        return len(self.rows)

    def tensors(self, index: Any, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and solutions of the samples at `index`."""
        chosen = [self.rows[i] for i in torch.arange(len(self)).numpy()[index]]
        return self.dataset.tensors(chosen, dtype)


def evaluate_on(
    file: str | Path,
    solver: TrainedSolver,
    samples: int | None = None,
    equation: Equation | None = None,
) -> dict[str, Any]:
    """The row of a trained solver on the samples of a dataset file: errors against its solutions,
    residual, steps, seconds."""
    dataset = read(file, equation)
    count = len(dataset) if samples is None else min(samples, len(dataset))
    inputs, exact = dataset.tensors(slice(0, count))
    problem = Problem(dataset.equation, inputs)
    solver.check(problem)
    measured = measure(solver, Subject(problem, problem, exact))
    return {
        "experiment": Path(file).name,
        "regime": dataset.equation.name,
        "method": str(solver.record.get("recipe", "own")),
        "resolution": problem.resolution,
        **measured,
    }
