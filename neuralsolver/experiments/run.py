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
from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.recipes import Stage, described, make_solver, make_stages
from neuralsolver.experiments.rows import machine
from neuralsolver.experiments.trainings import Scale, preset
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.card import read_card
from neuralsolver.training.checkpoint import CARD, Card, save_model
from neuralsolver.training.distributed import World
from neuralsolver.training.fit import error_history, fit
from neuralsolver.training.library import load, locate
from neuralsolver.training.plan import Record

VALIDATION_SAMPLES = 32
VALIDATION_SEED = 1_000_003
"""Held-out samples that steer nothing but the eye; test data come from other seeds."""

TEST_SAMPLES = 100
TEST_SEED = 2_000_003
TEST_STEPS = (0, 1, 2, 5, 10, 20)

Report = Callable[[str, float, Record], None]


@dataclass(frozen=True)
class Training:
    """One model to be trained: everything that determines it.

    `changes` replace fields of its plans; `coarsening` divides the resolution of the scale. `start`
    is a model of the same networks, whose weights it goes on from: then nothing warms up.
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
        return replace(self.equation, **preset(self.recipe, self.equation).data)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """How it is trained, grid by grid."""
        changes = {"seed": self.seed, **self.changes}
        scale = self.scale if self.start is None else replace(self.scale, warm_resolution=None)
        return make_stages(self.recipe, self.equation, scale, coarsening=self.coarsening, **changes)

    def solver(self) -> NeuralSolver:
        """Its networks before any training."""
        solver = make_solver(self.recipe, self.equation, self.scale, self.seed)
        if self.start is not None:
            begin = load(self.start).network.state_dict()
            own = solver.state_dict()
            if {n: v.shape for n, v in begin.items()} != {n: v.shape for n, v in own.items()}:
                raise InvalidInput("start", "a model of the same networks", str(self.start))
            solver.load_state_dict(begin)
        return solver

    @property
    def began_from(self) -> str | None:
        """The SHA-256 of the weights it goes on from."""
        return None if self.start is None else str(self._card_before()["sha256"])

    @property
    def before(self) -> dict[str, Any]:
        """The stages that its first weights have behind them, which are part of its cost."""
        stages = {} if self.start is None else self._card_before().get("stages", {})
        return {f"before: {name}": stage for name, stage in stages.items()}

    def _card_before(self) -> dict[str, Any]:
        folder = None if self.start is None else locate(self.start)
        if folder is None:
            raise InvalidInput("start", "a shipped model or a folder", str(self.start))
        return read_card(folder)

    def folder(self, runs: Path) -> Path:
        """Where its run lives, under a name that changes whenever the run would."""
        determining = {
            "constants": canonical(self.equation),
            "solver": described(self.recipe, self.equation, self.scale),
            "samples": self.scale.samples,
            "stages": [asdict(stage) for stage in self.stages],
            "start": self.began_from,
        }
        text = json.dumps(determining, sort_keys=True)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:12]
        return runs / self.equation.name / self.recipe / f"{self.scale.name}-{fingerprint}"


def train(
    training: Training, runs: Path, *, data: Path | None = None, report: Report | None = None
) -> Path:
    """Train a model, or continue, or find it done; returns the model's folder.

    A warm start is on a coarser grid. The fields of both grids are the same functions, so the low
    modes are learnt where a step is cheap.
    """
    folder = training.folder(runs)
    model = folder / "model"
    if (model / CARD).exists():
        return model
    run = _Run(training, World.join(), data, report)
    solver = training.solver()
    for stage in training.stages:
        place = folder if stage.name == "training" else folder / stage.name.split()[0]
        run.stage(solver, stage, place)
    if run.world.rank == 0:
        resolution = training.stages[-1].resolution
        errors = measured_errors(solver, training.equation, resolution, data)
        record = {**run.record(), "errors": errors}
        save_model(model, solver, Card(training.equation, resolution, record))
    run.world.leave()
    return model


def measured_errors(
    solver: NeuralSolver, equation: Equation, resolution: int, data: Path | None = None
) -> dict[str, Any]:
    """Mean relative L2 error of the plain iteration on fresh samples, for the card of a model."""
    spec = DatasetSpec(equation, TEST_SAMPLES, resolution, "test", TEST_SEED)
    history = error_history(solver, generate(spec, data), TEST_STEPS[-1])
    steps = [step for step in TEST_STEPS if step < len(history)]
    return {
        "samples": TEST_SAMPLES,
        "seed": TEST_SEED,
        "relative_l2": {str(step): history[step] for step in steps},
    }


class _Run:
    """The stages that were trained, and the record that goes on the card."""

    def __init__(
        self, training: Training, world: World, data: Path | None, report: Report | None
    ) -> None:
        self.training, self.world, self.data, self.report = training, world, data, report
        self.done: dict[str, Any] = training.before
        self.fingerprint = ""

    def stage(self, solver: NeuralSolver, stage: Stage, folder: Path) -> None:
        """Train on one grid."""
        name, resolution, plan = stage.name, stage.resolution, stage.plan
        examples = self._examples(self.training.scale.samples, resolution, "train", 0)
        held_out = self._examples(VALIDATION_SAMPLES, resolution, "test", VALIDATION_SEED)
        report = self.report
        progress = None if report is None else (lambda done, record: report(name, done, record))
        record = fit(
            solver, examples, plan, folder, validation=held_out, progress=progress, world=self.world
        )
        self.fingerprint = examples.spec.fingerprint
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
        return {
            "recipe": self.training.recipe,
            "scale": self.training.scale.name,
            "seed": self.training.seed,
            "data": {
                "samples": self.training.scale.samples,
                "constants": dict(self.training.drawn.constants()),
                "fingerprint": self.fingerprint,
            },
            **({} if self.training.start is None else {"start": self.training.began_from}),
            "stages": self.done,
            "machine": machine(),
            "version": neuralsolver.__version__,
        }

    def _examples(self, count: int, resolution: int, split: str, seed: int) -> Dataset:
        drawn = self.training.drawn if split == "train" else self.training.equation
        spec = DatasetSpec(drawn, count, resolution, split, seed)
        return self.world.first(lambda: generate(spec, self.data))
