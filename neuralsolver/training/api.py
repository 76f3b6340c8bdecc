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
from neuralsolver.equations import Equation, equation_named
from neuralsolver.equations.contract import check_equation
from neuralsolver.errors import InvalidInput
from neuralsolver.progress import Progress
from neuralsolver.solvers import TrainedSolver
from neuralsolver.training import Record, load
from neuralsolver.training.checkpoint import CARD, Card, save_model
from neuralsolver.training.distributed import World
from neuralsolver.training.fit import error_history, fit
from neuralsolver.training.presets import Scale, scale_named
from neuralsolver.training.run import Report, Training
from neuralsolver.training.run import train as train_model

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
    device: str | None = None,
    callback: Report | None = None,
    **plan: Any,
) -> TrainedSolver:
    """Train a solver of an equation of the package or of your own.

    The same call continues an interrupted run and finds a finished one.

    >>> import neuralsolver as ns, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> solver = ns.train(ns.Poisson(), scale="tiny", runs=folder, data=folder, batches=2)
    >>> solver.resolution
    16

    Args:
        equation: The equation.
        recipe: How; `ens list` shows all, `register_backbone` adds some.
        scale: "tiny", "desk" or "paper", or one of your own.
        runs: Folder of the runs.
        data: Folder of the datasets; $ENS_DATA or ./data unless given.
        seed: Seed of weights and batches.
        progress: Whether to show on stderr how far it is.
        start: The model to go on from, of the same networks.
        device: cpu, cuda or cuda:N; a GPU if there is one unless given.
        callback: Called after every batch with the name of the stage, the part of it that is done
            (0 to 1), and the record so far: `losses` of the last batches, `validation`, `updates`.
        **plan: Fields of `Plan` to replace, such as `batches`.

    Returns:
        The trained solver.
    """
    check_equation(equation)
    equation_named(equation.name, equation.constants())  # as a loaded model will ask for it
    size = scale_named(scale) if isinstance(scale, str) else scale
    training = Training(equation, recipe, size, seed, changes=plan, start=start)
    with ExitStack() as shown:
        told = [] if callback is None else [callback]
        if progress:
            told.append(reporting(shown.enter_context(Progress(f"{equation.name} {recipe}"))))

        def report(stage: str, done: float, record: Record) -> None:
            for tell in told:
                tell(stage, done, record)

        place = None if data is None else Path(data)
        folder = train_model(training, Path(runs), data=place, report=report, device=device)
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
    device: str | None = None,
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
    world = World.join(device)
    record = fit(
        solver, examples, plan, folder, validation=held_out, progress=progress, world=world
    )
    world.leave()
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
