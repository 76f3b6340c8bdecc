"""Training one model: data, networks, the run that can be resumed, and the model with its card."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

import neuralsolver
from neuralsolver.data import Dataset, DatasetSpec, generate
from neuralsolver.data.dataset import canonical
from neuralsolver.equations import Equation
from neuralsolver.experiments.recipes import make_plan, make_solver
from neuralsolver.experiments.scales import Scale
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.checkpoint import CARD, Card, save_model
from neuralsolver.training.fit import Plan, Record, fit

VALIDATION_SAMPLES = 32
VALIDATION_SEED = 1_000_003
"""Held-out samples that steer nothing but the eye; test data come from other seeds."""

Report = Callable[[str, float, Record], None]


def train(
    equation: Equation,
    recipe: str,
    scale: Scale,
    folder: Path,
    *,
    seed: int = 0,
    changes: dict[str, Any] | None = None,
    data: Path | None = None,
    report: Report | None = None,
) -> Path:
    """Train a model, or continue, or find it done; returns the model's folder.

    A scale with `warm_start_resolution` trains on that coarser grid first. The fields of both grids
    are the same functions, so the low modes are learnt where a step is cheap.
    """
    model = folder / "model"
    if (model / CARD).exists():
        return model
    solver = make_solver(recipe, equation, scale, seed)
    examples = generate(DatasetSpec(equation, scale.samples, scale.resolution, "train", 0), data)
    plan = make_plan(recipe, scale, seed=seed, **(changes or {}))
    stages: dict[str, Any] = {}
    if scale.warm_start_resolution and recipe == "contractive":
        spec = DatasetSpec(equation, scale.samples, scale.warm_start_resolution, "train", 0)
        first, plan = _split(plan, scale.warm_start_share)
        stages["warm start"] = _stage(
            "warm start",
            solver=solver,
            examples=generate(spec, data),
            plan=first,
            folder=folder / "warm",
            report=report,
            data=data,
        )
    stages["training"] = _stage(
        "training",
        solver=solver,
        examples=examples,
        plan=plan,
        folder=folder,
        report=report,
        data=data,
    )
    record = {
        "recipe": recipe,
        "scale": scale.name,
        "seed": seed,
        "data": {"fingerprint": examples.spec.fingerprint, **examples.spec.describe()},
        "stages": stages,
        "machine": machine(),
        "version": neuralsolver.__version__,
    }
    if int(os.environ.get("RANK", "0")) == 0:
        save_model(model, solver, Card(equation, scale.resolution, record))
    return model


def _stage(
    name: str,
    *,
    solver: NeuralSolver,
    examples: Dataset,
    plan: Plan,
    folder: Path,
    report: Report | None,
    data: Path | None,
) -> dict[str, Any]:
    resolution = examples.resolution
    held_out = generate(
        DatasetSpec(examples.equation, VALIDATION_SAMPLES, resolution, "test", VALIDATION_SEED),
        data,
    )
    progress = None if report is None else (lambda done, record: report(name, done, record))
    record = fit(solver, examples, plan, folder, validation=held_out, progress=progress)
    return {
        "plan": asdict(plan),
        "resolution": resolution,
        "batches": record.batches,
        "updates": record.updates,
        "skipped": record.skipped,
        "minutes": round(record.seconds / 60, 2),
        "validation": record.validation,
    }


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


def run_folder(
    runs: Path, equation: Equation, recipe: str, scale: Scale, *, seed: int, changes: dict[str, Any]
) -> Path:
    """The folder of a run, named by everything that determines it."""
    described = {
        "constants": canonical(equation),
        "scale": {**asdict(scale)},
        "plan": changes,
        "seed": seed,
    }
    text = json.dumps(described, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:12]
    return runs / equation.name / recipe / f"{scale.name}-{fingerprint}"


def machine() -> str:
    """Where a number was measured, in a few words."""
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
