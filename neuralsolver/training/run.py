"""Training one model: data, networks, the run that can be resumed, and the model with its card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import neuralsolver
from neuralsolver.data import Dataset, DatasetSpec, generate
from neuralsolver.data.dataset import canonical
from neuralsolver.data.shapes import ShapedExamples
from neuralsolver.equations import Equation
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

Report = Callable[[str, float, Record], None]


@dataclass(frozen=True)
class Training:
    """One model to be trained: everything that determines it.

    `changes` replace fields of its plans; `coarsening` divides the resolution of the scale. `start`
    is what it goes on from: a model of the same networks.
    """

    equation: Equation
    recipe: str
    scale: Scale
    seed: int = 0
    coarsening: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)
    start: str | Path | None = None

    @property
    def drawn(self) -> Equation:
        """The equation as its training data are drawn: the same residual, more varied inputs."""
        return replace(self.equation, **preset(self.recipe, self.equation).data)  # type: ignore[type-var]

    @property
    def beginning(self) -> Beginning | None:
        """The weights it goes on from."""
        kind = BEGINNINGS.get(self.recipe, Beginning)
        return None if self.start is None else kind(self.start)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """How it is trained, grid by grid."""
        begin, scale = self.beginning, self.scale
        changes = {"seed": self.seed, **({} if begin is None else begin.changes), **self.changes}
        scale = scale if begin is None else begin.scale(scale)
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
        return runs / self.equation.name / self.recipe / f"{self.scale.name}-{name}"


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
    model = folder / "model"
    if (model / CARD).exists():
        return model
    run = _Run(training, World.join(device), data, report)
    solver = training.solver()
    for stage in training.stages:
        place = folder if stage.name == "training" else folder / stage.name.split()[0]
        run.stage(solver, stage, place)
    if run.world.rank == 0:
        resolution = training.stages[-1].resolution
        errors = measured_errors(solver, training.equation, resolution, data)
        record = {**run.record(), "errors": errors}
        # three axes of wavenumbers are many weights, and half precision changes no number of steps
        half = training.equation.dimension == 3
        save_model(model, solver, Card(training.equation, resolution, record), half=half)
    run.world.leave()
    return model


def measured_errors(
    solver: NeuralSolver, equation: Equation, resolution: int, data: Path | None = None
) -> dict[str, Any]:
    """Mean relative L2 error of the plain iteration on fresh samples, for the card of a model."""
    samples = TEST_SAMPLES if equation.dimension == 2 else TEST_SAMPLES // BOX_SHARE
    spec = DatasetSpec(equation, samples, resolution, "test", TEST_SEED)
    history = error_history(solver, generate(spec, data), TEST_STEPS[-1])
    steps = [step for step in TEST_STEPS if step < len(history)]
    return {
        "samples": samples,
        "seed": TEST_SEED,
        "relative_l2": {str(step): history[step] for step in steps},
    }


class _Run:
    """The stages that were trained, and the record that goes on the card."""

    def __init__(
        self, training: Training, world: World, data: Path | None, report: Report | None
    ) -> None:
        self.training, self.world, self.data, self.report = training, world, data, report
        self.done: dict[str, Any] = {} if training.beginning is None else training.beginning.stages
        self.fingerprint = ""

    def stage(self, solver: NeuralSolver, stage: Stage, folder: Path) -> None:
        """Train on one grid."""
        name, resolution, plan = stage.name, stage.resolution, stage.plan
        examples = self._examples(self.training.samples, resolution, "train", 0)
        count = VALIDATION_SAMPLES // (1 if self.training.equation.dimension == 2 else BOX_SHARE)
        held_out = self._examples(count, resolution, "test", VALIDATION_SEED)
        report = self.report
        progress = None if report is None else (lambda done, record: report(name, done, record))
        record = fit(
            solver, examples, plan, folder, validation=held_out, progress=progress, world=self.world
        )
        self.fingerprint = (
            examples.fingerprint
            if isinstance(examples, ShapedExamples)
            else examples.spec.fingerprint
        )
        self.done[name] = {
            "resolution": resolution,
            "plan": asdict(plan),
            "batches": record.batches,
            "updates": record.updates,
            "skipped": record.skipped,
            "minutes": round(record.seconds / 60, 2),
            "validation": record.validation,
        }

    def record(self) -> dict[str, Any]:
        """How the model came about."""
        begin = self.training.beginning
        return {
            "recipe": self.training.recipe,
            "scale": self.training.scale.name,
            "seed": self.training.seed,
            "data": {
                "samples": self.training.samples,
                "constants": dict(self.training.drawn.constants()),
                "fingerprint": self.fingerprint,
            },
            **({} if begin is None else {"start": begin.digest}),
            "stages": self.done,
            "machine": machine(),
            "version": neuralsolver.__version__,
        }

    def _examples(
        self, count: int, resolution: int, split: str, seed: int
    ) -> Dataset | ShapedExamples:
        if preset(self.training.recipe, self.training.equation).reads == "shape":
            return ShapedExamples(count, resolution, seed)
        drawn = self.training.drawn if split == "train" else self.training.equation
        spec = DatasetSpec(drawn, count, resolution, split, seed)
        return self.world.first(lambda: generate(spec, self.data))
