"""What the shipped models reach on samples nobody has trained on, against what we aimed at.

Errors are relative L2 errors of u against the reference solver, mean over the samples; "steps" is
the first step at which the mean is at the target, or the number of steps made.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from neuralsolver.data.truth import truth
from neuralsolver.equations import Darcy, Equation, Helmholtz, Poisson, Problem
from neuralsolver.evaluation.metrics import relative_error
from neuralsolver.experiments.evaluate import SEED as DEFAULT_SEED
from neuralsolver.experiments.evaluate import Evaluation, Progress
from neuralsolver.experiments.rows import Row, ledger, machine
from neuralsolver.solvers.history import History
from neuralsolver.training import load
from neuralsolver.training.checkpoint import read_card
from neuralsolver.training.library import DEFAULT_RECIPE, SHIPPED

SAMPLES = 100
SEED = 20_261
VERSION = 1
KEY = 7
"""Instances here are keyed (seed, 7, index); training and test datasets use other keys."""


@dataclass(frozen=True)
class Regime:
    """A model, what it is asked to solve and how, and the error aimed at.

    With `steps` the plain iteration, with `tolerance` the accelerated solver.
    """

    group: str
    model: str
    label: str
    equation: Equation
    target: float
    steps: int | None = None
    tolerance: float | None = None
    dtype: torch.dtype = torch.float64
    resolution: int | None = None


TRAINED: dict[str, tuple[str, Equation]] = {
    "poisson": ("a = 2", Poisson()),
    "helmholtz": ("kappa = 1", Helmholtz()),
    "darcy": ("f = 100", Darcy()),
}
SHIFTS: list[tuple[str, str, Equation]] = [
    ("helmholtz", "kappa 1 -> 3", Helmholtz(wavenumber=3.0)),
    ("poisson", "a 2 -> 1", Poisson(scale=1.0)),
    ("darcy", "f 100 -> 200", Darcy(source=200.0)),
    ("helmholtz", "Helmholtz -> Poisson", Poisson()),
]
NONLINEAR = [
    ("kappa 2, lambda 1", Helmholtz(wavenumber=2.0, nonlinearity=1.0), 40, 1e-5),
    ("kappa 3, lambda 4", Helmholtz(wavenumber=3.0, nonlinearity=4.0), 100, 1e-3),
]

REGIMES: list[Regime] = [
    *(
        Regime("float32", model, label, equation, 1e-6, steps=25, dtype=torch.float32)
        for model, (label, equation) in TRAINED.items()
    ),
    *(
        Regime("refined", model, label, equation, 1e-10, steps=30)
        for model, (label, equation) in TRAINED.items()
    ),
    *(Regime("shift", model, label, equation, 1e-6, steps=40) for model, label, equation in SHIFTS),
    *(
        Regime("nonlinear", "nonlinear-helmholtz", label, equation, target, steps=steps)
        for label, equation, steps, target in NONLINEAR
    ),
    *(
        Regime("resolution", model, label, equation, 1e-8, tolerance=1e-9, resolution=resolution)
        for model, (label, equation) in TRAINED.items()
        for resolution in (128, 256, 512)
    ),
    *(
        # where the operator is nearly singular, an error of 1e-8 asks for a smaller residual
        Regime("accelerated", "helmholtz", f"kappa {k:g}", Helmholtz(k), 1e-8, tolerance=1e-11)
        for k in (4.2, 4.4, 4.5, 6.0, 10.0)
    ),
    *(
        Regime("accelerated", "nonlinear-helmholtz", label, equation, 1e-8, tolerance=1e-11)
        for label, equation, _, _ in NONLINEAR
    ),
]


def run(evaluation: Evaluation, progress: Progress | None = None) -> list[Row]:
    """One row per regime, in `<results>/<scale>/targets.jsonl`."""
    seed = SEED if evaluation.seed == DEFAULT_SEED else evaluation.seed
    asked, rows = evaluation.samples or SAMPLES, []
    file = evaluation.results / evaluation.scale.name / "targets.jsonl"
    with ledger(file, evaluation.tell) as written:
        for position, regime in enumerate(REGIMES):
            if progress is not None:
                progress(position / len(REGIMES), f"{regime.group}, {regime.model} {regime.label}")
            # a fine grid gets fewer samples
            samples = max(1, min(asked, 1024 // regime.resolution)) if regime.resolution else asked
            card = read_card(SHIPPED / f"{regime.model}-{DEFAULT_RECIPE}")
            key: Row = {"group": regime.group, "model": regime.model, "label": regime.label}
            key["resolution"] = regime.resolution or card["resolution"]
            key |= {"seed": seed, "samples": samples}
            measure = partial(measure_regime, regime, samples, seed)
            rows.append(written.settle(key, VERSION, str(card["sha256"]), measure))
    return rows


def measure_regime(regime: Regime, samples: int, seed: int) -> Row:
    """Error, steps and seconds of one regime."""
    torch.set_num_threads(1)
    solver = load(regime.model)
    resolution = regime.resolution or solver.resolution
    problem, exact = instances(regime.equation, resolution, samples, seed)
    history = History.of_errors(exact)
    begin = time.perf_counter()
    solution = solver.solve(
        problem,
        precision=regime.dtype,
        steps=regime.steps,
        tolerance=regime.tolerance,
        observe=history,
    )
    seconds = (time.perf_counter() - begin) / len(exact)
    final = relative_error(solution.tensor, exact)
    below = [step for step, error in enumerate(history.means()) if error <= regime.target]
    described = asdict(regime) | {"dtype": str(regime.dtype).removeprefix("torch.")}
    described.pop("equation")
    return {
        **described,
        "resolution": resolution,
        "samples": len(exact),
        **({} if len(exact) == samples else {"requested": samples}),
        "seed": seed,
        "first_step": below[0] if below else None,
        "steps_made": int(solution.steps.max()),
        "error": float(final.mean()),
        "worst": float(final.max()),
        "seconds": seconds,
        "reached": float(final.mean()) <= regime.target,
        "machine": machine(),
        "weights": str(read_card(SHIPPED / f"{regime.model}-{DEFAULT_RECIPE}")["sha256"]),
        "version": VERSION,
    }


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'':12} {'model':20} {'regime':21} {'grid':>4} {'samples':>7} {'to target':>9} "
        f"{'made':>4} {'error':>8} {'worst':>8} {'target':>7} {'s/sample':>9}"
    ]
    for row in rows:
        first = "-" if row["first_step"] is None else row["first_step"]
        lines.append(
            f"{row['group']:12} {row['model']:20} {row['label']:21} {row['resolution']:4d} "
            f"{row['samples']:7d} {first:>9} {row['steps_made']:4d} {row['error']:8.1e} "
            f"{row['worst']:8.1e} {row['target']:7.0e} {row['seconds']:9.4f}"
            f"{'' if row['reached'] else '  MISSED'}"
        )
    return "\n".join(lines)


def instances(equation: Equation, resolution: int, count: int, seed: int) -> tuple[Problem, Tensor]:
    """Instances that have a solution; a nonlinear field without one is left out."""
    problem = Problem.random(equation, resolution, count, seed, key=KEY)
    found = truth(equation, problem.inputs.numpy())
    solved = torch.from_numpy(np.flatnonzero(found.solved))
    return problem.select(solved), torch.from_numpy(found.solution)[solved]
