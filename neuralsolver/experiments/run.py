"""Training one model: data, networks, the run that can be resumed, and the model with its card."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import neuralsolver
from neuralsolver.data import Dataset, DatasetSpec, generate
from neuralsolver.data.dataset import canonical
from neuralsolver.equations import Equation
from neuralsolver.experiments.recipes import finishing, make_plan, make_solver, recipe_named
from neuralsolver.experiments.scales import Scale
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.checkpoint import CARD, Card, save_model
from neuralsolver.training.distributed import World
from neuralsolver.training.fit import error_history, fit
from neuralsolver.training.plan import Plan, Record

VALIDATION_SAMPLES = 32
VALIDATION_SEED = 1_000_003
"""Held-out samples that steer nothing but the eye; test data come from other seeds."""

TEST_SAMPLES = 100
TEST_SEED = 2_000_003
TEST_STEPS = (0, 1, 2, 5, 10, 20)

COMPUTE = ("budget_minutes", "batches", "batches_of", "ablation_batches", "effort")
"""Fields of a scale that determine a run only through its plan, if at all."""
FLOWS_ONLY = ("transformer", "space_time", "flow")

Report = Callable[[str, float, Record], None]


@dataclass(frozen=True)
class Training:
    """One model to be trained: everything that determines it. `changes` replace plan fields."""

    equation: Equation
    recipe: str
    scale: Scale
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self.scale.of(self.equation))

    @property
    def plan(self) -> Plan:
        """How it is trained."""
        flow = self.equation.frames > 0
        return make_plan(self.recipe, self.scale, flow=flow, seed=self.seed, **self.changes)

    def folder(self, runs: Path) -> Path:
        """Where its run lives, under a name that changes whenever the run would."""
        left_out = COMPUTE if self.equation.frames else (*COMPUTE, *FLOWS_ONLY)
        sizes = {name: v for name, v in asdict(self.scale).items() if name not in left_out}
        described = {
            "constants": canonical(self.equation),
            "scale": sizes,
            "plan": asdict(self.plan),
        }
        text = json.dumps(described, sort_keys=True)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:12]
        return runs / self.equation.name / self.recipe / f"{self.scale.name}-{fingerprint}"


def train(
    training: Training, runs: Path, *, data: Path | None = None, report: Report | None = None
) -> Path:
    """Train a model, or continue, or find it done; returns the model's folder.

    A scale with `warm_start_resolution` trains on that coarser grid first. The fields of both grids
    are the same functions, so the low modes are learnt where a step is cheap. A recipe may have a
    last stage of its own.
    """
    folder = training.folder(runs)
    model = folder / "model"
    if (model / CARD).exists():
        return model
    scale = training.scale
    run = _Stages(training, World.join(), data, report)
    solver = make_solver(training.recipe, training.equation, scale, training.seed)
    plan = training.plan
    share = recipe_named(training.recipe).warm_start
    if scale.warm_start_resolution and share:
        first, plan = _split(plan, share)
        run.stage("warm start", solver, scale.warm_start_resolution, first, folder / "warm")
    run.stage("training", solver, scale.resolution, plan, folder)
    last = finishing(training.recipe, plan, flow=training.equation.frames > 0)
    if last is not None:
        run.stage("finish", solver, scale.resolution, last, folder / "finish")
    if run.world.rank == 0:
        errors = measured_errors(solver, training.equation, scale.resolution, data)
        record = {**run.record(), "errors": errors}
        save_model(model, solver, Card(training.equation, scale.resolution, record))
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


class _Stages:
    """The stages of a training run, and the record that goes on the card."""

    def __init__(
        self, training: Training, world: World, data: Path | None, report: Report | None
    ) -> None:
        self.training, self.world, self.data, self.report = training, world, data, report
        self.done: dict[str, Any] = {}
        self.fingerprint = ""

    def stage(
        self, name: str, solver: NeuralSolver, resolution: int, plan: Plan, folder: Path
    ) -> None:
        """Train on one grid."""
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
            "data": {"samples": self.training.scale.samples, "fingerprint": self.fingerprint},
            "stages": self.done,
            "machine": machine(),
            "version": neuralsolver.__version__,
        }

    def _examples(self, count: int, resolution: int, split: str, seed: int) -> Dataset:
        spec = DatasetSpec(self.training.equation, count, resolution, split, seed)
        return self.world.first(lambda: generate(spec, self.data))


def _split(plan: Plan, share: float) -> tuple[Plan, Plan]:
    """The plan of a warm start with a share of the compute, and of what remains."""
    if plan.batches is not None:
        early = max(1, round(share * plan.batches))
        return replace(plan, batches=early), replace(plan, batches=plan.batches - early)
    assert plan.budget_minutes is not None
    early_minutes = share * plan.budget_minutes
    return (
        replace(plan, budget_minutes=early_minutes),
        replace(plan, budget_minutes=plan.budget_minutes - early_minutes),
    )


def machine() -> str:
    """Where a number was measured, in a few words."""
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
