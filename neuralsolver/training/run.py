"""Training one model: data, networks, the run that can be resumed, and the model with its card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import neuralsolver
from neuralsolver.data import Dataset, DatasetSpec, generate, read
from neuralsolver.data.dataset import canonical
from neuralsolver.data.random_shapes import ShapedExamples
from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.card import machine
from neuralsolver.training.checkpoint import CARD, Card, save_model
from neuralsolver.training.distributed import World
from neuralsolver.training.fit import error_history, fit
from neuralsolver.training.plan import Record
from neuralsolver.training.presets import Scale, preset
from neuralsolver.training.recipes import Stage, described, make_solver, make_stages
from neuralsolver.training.warm_start import BEGINNINGS, Beginning

VALIDATION_SAMPLES = 32
VALIDATION_SEED = 1_000_003
"""Held-out samples that steer nothing but the eye; test data come from other seeds."""

TEST_SAMPLES = 100
TEST_SEED = 2_000_003
TEST_STEPS = (0, 1, 2, 5, 10, 20)
BOX_SHARE = 4
"""A box has so many times the points of a square that this part of the samples has to do."""
HELD_OUT = 10
"""Of a user's samples the last tenth is never trained on."""
LEAST_SAMPLES = 2

Report = Callable[[str, float, Record], None]


@dataclass(frozen=True)
class Training:
    """One model to be trained: everything that determines it.

    `changes` replace fields of its plans; `coarsening` divides the resolution of the scale. `start`
    is a model of the same networks, from whose weights it continues.
    """

    equation: Equation
    recipe: str
    scale: Scale
    seed: int = 0
    coarsening: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)
    start: str | Path | None = None

    @property
    def beginning(self) -> Beginning | None:
        """The weights it continues from."""
        kind = BEGINNINGS.get(self.recipe, Beginning)
        return None if self.start is None else kind(self.start)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """How it is trained, grid by grid."""
        begin, scale = self.beginning, self.scale
        changes = {"seed": self.seed, **({} if begin is None else begin.changes), **self.changes}
        scale = scale if begin is None else replace(scale, warm_resolution=None)
        return make_stages(self.recipe, self.equation, scale, coarsening=self.coarsening, **changes)

    @property
    def samples(self) -> int:
        """The number of examples it is trained on."""
        return self.scale.samples * preset(self.recipe, self.equation).examples

    def solver(self) -> NeuralSolver:
        """Its networks before any training of ours."""
        make = make_solver if self.beginning is None else self.beginning.solver
        return make(self.recipe, self.equation, self.scale, self.seed)

    def folder(self, runs: Path) -> Path:
        """Where its run lives, under a name that changes whenever the run would."""
        determining = {
            "constants": canonical(self.equation),
            "solver": described(self.recipe, self.equation, self.scale),
            "samples": self.samples,
            "stages": [asdict(stage) for stage in self.stages],
        }
        if self.beginning is not None:
            determining["start"] = self.beginning.digest
        text = json.dumps(determining, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        return runs / self.equation.name / self.recipe / f"{self.scale.written}-{name}"


def train(
    training: Training,
    runs: Path,
    *,
    data: Path | None = None,
    report: Report | None = None,
    device: str | None = None,
) -> Path:
    """Train a model, or continue, or find it done.

    A warm start is on a coarser grid. The fields of both grids are the same functions, so the low
    modes are learnt where a step is cheap.

    Args:
        training: What to train.
        runs: Folder of the runs.
        data: Folder of the datasets.
        report: Called with the stage, the part of it that is done, and the record so far.
        device: cpu, cuda or cuda:N; a GPU if there is one unless given.

    Returns:
        The folder of the model.
    """
    folder = training.folder(runs)
    if (folder / "model" / CARD).exists():
        return folder / "model"
    world, solver = World.join(device), training.solver()
    equation, begin = training.equation, training.beginning
    stages = {} if begin is None else begin.stages
    share = 1 if equation.dimension == 2 else BOX_SHARE
    shapes = preset(training.recipe, equation).reads == "shape"

    def drawn(count: int, split: str, seed: int) -> Any:
        if shapes:
            return ShapedExamples(count, stage.resolution, seed)
        spec = DatasetSpec(equation, count, stage.resolution, split, seed)
        return world.first(lambda: generate(spec, data))

    for stage in training.stages:
        examples = drawn(training.samples, "train", 0)
        held_out = drawn(VALIDATION_SAMPLES // share, "test", VALIDATION_SEED)
        place = folder if stage.name == "training" else folder / stage.name.split()[0]
        told = None if report is None else partial(report, stage.name)
        record = fit(
            solver, examples, stage.plan, place, validation=held_out, progress=told, world=world
        )
        stages[stage.name] = _stage_record(stage, record)
    if world.rank == 0:
        resolution = training.stages[-1].resolution
        tested = DatasetSpec(equation, TEST_SAMPLES // share, resolution, "test", TEST_SEED)
        errors = error_history(solver, generate(tested, data), TEST_STEPS[-1])
        used = {
            "samples": training.samples,
            "constants": dict(equation.constants()),
            "fingerprint": getattr(examples, "spec", examples).fingerprint,
        }
        measured = {"samples": tested.count, "seed": TEST_SEED, "relative_l2": _some(errors)}
        described = _record(training, used, stages, measured)
        # three axes of wavenumbers are many weights, and half precision changes no number of steps
        half = equation.dimension == 3
        save_model(folder / "model", solver, Card(equation, resolution, described), half=half)
    world.leave()
    return folder / "model"


def train_on(
    file: str | Path,
    training: Callable[[Equation], Training],
    runs: Path,
    report: Report | None = None,
    equation: Equation | None = None,
    device: str | None = None,
) -> Path:
    """Train on the samples of a dataset file, of ours or of a known layout, on their own grid.

    The last tenth of the samples is held out and measured. The folder of the run is named by the
    description and the file's hash.

    Args:
        file: The dataset.
        training: Describes how, for the equation that the file holds.
        runs: Folder of the runs.
        report: Called with the stage, the part of it that is done, and the record so far.
        equation: Of a file that does not say it.
        device: cpu, cuda or cuda:N; a GPU if there is one unless given.

    Returns:
        The folder of the model.
    """
    dataset = read(file, equation)
    if len(dataset) < LEAST_SAMPLES:
        raise InvalidInput("--dataset", f"at least {LEAST_SAMPLES} samples", len(dataset))
    chosen = training(dataset.equation)
    stage = replace(chosen.stages[-1], name="training", resolution=dataset.resolution)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    start = [] if chosen.beginning is None else [chosen.beginning.digest]
    text = json.dumps([asdict(stage.plan), digest, chosen.scale.written, *start], sort_keys=True)
    name = f"own-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder = runs / dataset.equation.name / chosen.recipe / name
    if (folder / "model" / CARD).exists():
        return folder / "model"
    world, solver = World.join(device), chosen.solver()
    kept = max(1, len(dataset) // HELD_OUT)
    examples, held_out = _Part(dataset, 0, len(dataset) - kept), _Part(dataset, -kept, len(dataset))
    progress = None if report is None else partial(report, stage.name)
    record = fit(
        solver, examples, stage.plan, folder, validation=held_out, progress=progress, world=world
    )
    world.leave()
    used = {"samples": len(examples), "sha256": digest}
    errors = error_history(solver, held_out, TEST_STEPS[-1])
    measured = {"samples": kept, "relative_l2": _some(errors)}
    described = _record(chosen, used, {stage.name: _stage_record(stage, record)}, measured)
    save_model(folder / "model", solver, Card(dataset.equation, dataset.resolution, described))
    return folder / "model"


def _some(errors: list[float]) -> dict[str, float]:
    """The mean relative L2 errors of the steps that a card has."""
    return {str(step): errors[step] for step in TEST_STEPS if step < len(errors)}


def _stage_record(stage: Stage, record: Record) -> dict[str, Any]:
    return {
        "resolution": stage.resolution,
        "plan": asdict(stage.plan),
        "batches": record.batches,
        "updates": record.updates,
        "skipped": record.skipped,
        "minutes": round(record.seconds / 60, 2),
        "validation": record.validation,
    }


def _record(
    training: Training, data: dict[str, Any], stages: dict[str, Any], errors: dict[str, Any]
) -> dict[str, Any]:
    """How a model came about, for its card."""
    begin = training.beginning
    return {
        "recipe": training.recipe,
        "scale": training.scale.name,
        "seed": training.seed,
        "data": data,
        **({} if begin is None else {"start": begin.digest}),
        "stages": stages,
        "machine": machine(),
        "version": neuralsolver.__version__,
        "errors": errors,
    }


class _Part:
    """Consecutive samples of a dataset."""

    def __init__(self, dataset: Dataset, first: int, last: int) -> None:
        self.dataset, self.equation = dataset, dataset.equation
        self.rows = torch.arange(len(dataset))[first:last]

    def __len__(self) -> int:
        return len(self.rows)

    def tensors(self, index: Any, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and solutions of the samples at `index`."""
        return self.dataset.tensors(self.rows[index].tolist(), dtype)
