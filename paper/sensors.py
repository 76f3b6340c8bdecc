"""Fields from a few sensors: every method next to the exact posterior, on the same instances.

A *task* says what the sensors see; a row of results/<scale>/sensors.jsonl is one method on one
task. How far two test sets differ is more than how far two good methods do, so what counts is the
ratio to the exact posterior on the same instances:

    error           mean relative L2 error of u, of one sample          ratio        to an exact one
    error_mean      the same of the mean of all samples                 ratio_mean   to E u
    coverage_50, coverage_90     points whose truth lies in the central interval of the samples,
                    expected 50 % and 90 %; `calibration` has the same from 10 to 90 %
    crps_ratio      continuous ranked probability score of u over that of as many exact samples
    residual        mean square of F(u; f) over points and samples
    seconds         CPU seconds of one thread per instance, all its samples together
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Observed, Problem, Sensors, equation_named
from neuralsolver.samplers import ExactPosterior, Samples
from neuralsolver.solvers.norms import relative_error
from neuralsolver.training.card import CARD, machine, read_card
from neuralsolver.training.library import SHIPPED, load_sampler
from paper.metrics import four_digits, residual_mse
from paper.rows import Row, append_row, combined, read_rows
from paper.versions import version_of

RESOLUTION = 64
SEED, KEY = 20_264, 21
STEPS = 18
"""Heun steps of the desk rows; the paper takes 50, and so do the rows that say so."""
GUIDED_STEPS = 300
"""Steps of DiffusionPDE, whose authors take 2,000: each one differentiates two network calls."""
EQUATIONS = ("helmholtz", "poisson", "darcy")
COUNTS = (50, 100, 200, 500, 1000)
SWEPT = 8
"""Instances for each number of sensors."""
INTERVALS = tuple(k / 10 for k in range(1, 10))


@dataclass(frozen=True)
class Task:
    """What is seen of how many instances, and how many samples are drawn of each."""

    equation: str
    sees: tuple[str, ...] = ("input",)
    sensors: int = 500
    instances: int = 100
    samples: int = 1

    @property
    def name(self) -> str:
        """What the sensors see."""
        return "+".join(self.sees)


@dataclass(frozen=True)
class Case:
    """A method on a task; `steps` of its sampler, where it has any."""

    task: Task
    method: str
    steps: int | None = None

    @property
    def key(self) -> Row:
        """What tells a row from the others."""
        task = self.task
        return {
            "experiment": "sensors",
            "equation": task.equation,
            "task": task.name,
            "method": self.method,
            "sensors": task.sensors,
            "instances": task.instances,
            "samples": task.samples,
            "steps": self.steps,
        }


FILLS = ("exact", "spline", "centred-spline", "nearest", "correction")
LEARNED = ("palette", "diffusion-ens")


def cases() -> list[Case]:
    """Everything that `python -m paper evaluate sensors` measures, the important first."""
    found: list[Case] = []
    for name in EQUATIONS:
        one, many = Task(name), Task(name, instances=8, samples=16)
        found += [Case(one, method) for method in FILLS]
        found += [Case(one, method, STEPS) for method in LEARNED]
        found += [Case(one, f"diffusion-ens+{finish}", STEPS) for finish in ("gn", "ens")]
        found += [Case(many, method, STEPS) for method in LEARNED]
    for name in EQUATIONS:
        found.append(Case(Task(name, instances=8), "pcfm", 50))
        found.append(Case(Task(name, instances=4), "diffusion-pde", GUIDED_STEPS))
    for name in EQUATIONS:
        for count in COUNTS:
            task = Task(name, sensors=count, instances=SWEPT)
            found += [Case(task, "exact"), Case(task, "spline")]
            found += [Case(task, method, STEPS) for method in LEARNED]
    for sees in (("solution",), ("input", "solution")):
        task = Task("helmholtz", sees, instances=4)
        found += [Case(task, "exact"), Case(task, "correction")]
        found += [Case(task, "diffusion-ens", STEPS), Case(task, "pcfm", 50)]
        found.append(Case(task, "diffusion-pde", GUIDED_STEPS))
    found.append(Case(Task("helmholtz", instances=32), "diffusion-ens", 50))
    return found


class Instances:
    """The instances of a task with their truth, and exact samples of each."""

    def __init__(self, task: Task, seed: int = SEED) -> None:
        self.task, self.seed = task, seed
        equation = equation_named(task.equation)
        self.inputs = Problem.random(equation, RESOLUTION, task.instances, seed, KEY).inputs
        self.solutions = torch.from_numpy(solve_reference(equation, self.inputs.numpy()).solution)
        names = {"input": (equation.input_names[0], self.inputs)}
        names["solution"] = ("solution", self.solutions)
        self.observed = [
            Observed(
                equation,
                RESOLUTION,
                Sensors.random(
                    {names[see][0]: names[see][1][i, 0].numpy() for see in task.sees},
                    task.sensors,
                    seed=seed + i,
                ),
            )
            for i in range(task.instances)
        ]

    @property
    def seeds(self) -> list[int]:
        """One per instance, for the sampler."""
        return [self.seed + i for i in range(self.task.instances)]

    @cached_property
    def exact(self) -> list[Samples]:
        """At least 16 exact samples of each instance."""
        return ExactPosterior().sample_each(self.observed, max(16, self.task.samples), self.seeds)

    def errors(self, fields: Sequence[Tensor]) -> Tensor:
        """Relative L2 errors of solutions (1, n, n), one per instance."""
        found = torch.stack(list(fields))
        return relative_error(found, self.solutions)


Report = Callable[[float, str], None]


@torch.no_grad()
def measure(case: Case, instances: Instances) -> Row:
    """The row of one case."""
    drawn = draw(case, instances)
    errors = instances.errors([sample.solutions[0] for sample in drawn])
    inputs = torch.stack([sample.inputs[0] for sample in drawn])
    residual = torch.cat([residual_mse(s.problem, s.solutions) for s in drawn]).mean()
    mismatch = torch.cat([sample.mismatch for sample in drawn]).mean()
    row = {
        **case.key,
        "seed": instances.seed,
        "resolution": RESOLUTION,
        "error": four_digits(errors.mean()),
        "error_spread": four_digits(errors.std()),
        "error_input": four_digits(relative_error(inputs, instances.inputs).mean()),
        "residual": four_digits(residual),
        "relative_residual": four_digits(max(float(s.relative_residual.max()) for s in drawn)),
        "mismatch": four_digits(mismatch),
        "seconds": round(float(np.mean([s.notes["cpu_seconds"] for s in drawn])), 4),
        "machine": machine(),
        "weights": _weights(case),
        "version": version_of(load_sampler),
    }
    bounds = [s.notes["error_bound"] for s in drawn if "error_bound" in s.notes]
    if bounds:
        row["error_bound"] = four_digits(max(bounds))
    return row | against_exact(case, instances, drawn)


def _weights(case: Case) -> str:
    """The SHA-256 of the denoiser that a case uses."""
    base = {"pcfm": "palette", "diffusion-pde": "palette"}
    name = case.method.partition("+")[0]
    folder = SHIPPED / f"{case.task.equation}-{base.get(name, name)}"
    return combined([str(read_card(folder)["sha256"])] if (folder / CARD).is_file() else [])


def against_exact(case: Case, instances: Instances, drawn: list[Samples]) -> Row:
    """Ratios to the exact posterior, and calibration where there are samples enough."""
    exact = instances.exact
    one = instances.errors([sample.solutions[0] for sample in drawn]).mean()
    # every exact sample counts: the ratio has then only the scatter of the method's own
    each = [instances.errors([s.solutions[k] for s in exact]).mean() for k in range(len(exact[0]))]
    row: Row = {"ratio": four_digits(one / torch.stack(each).mean())}
    if case.task.samples > 1:
        mean = instances.errors([s.solutions.mean(0) for s in drawn]).mean()
        best = instances.errors([s.solutions.mean(0) for s in exact]).mean()
        row |= {"error_mean": four_digits(mean), "ratio_mean": four_digits(mean / best)}
        pairs = list(zip(drawn, instances.solutions, strict=True))
        held = {
            level: sum(coverage(s.solutions, u, level) for s, u in pairs) / len(pairs)
            for level in INTERVALS
        }
        row |= {f"coverage_{round(100 * level)}": four_digits(held[level]) for level in (0.5, 0.9)}
        row["calibration"] = [[level, four_digits(part)] for level, part in held.items()]
        scores = [_scores(samples, instances.solutions) for samples in (drawn, exact)]
        row["crps_ratio"] = four_digits(scores[0] / scores[1])
    return row


def coverage(samples: Tensor, true: Tensor, level: float) -> float:
    """The part of the interior points whose truth lies in the central interval of S samples.

    An interval between order statistics of S draws holds a further one with a probability known
    exactly; it is widened linearly to the level asked for, so that exact samples give `level`, or
    (S−1)/(S+1) where the level is above that: 88 % with 16 samples.
    """
    count = len(samples)
    ordered = samples.sort(0).values[..., 1:-1, 1:-1]
    # the k-th of S order statistics is the k/(S+1) quantile of a further draw
    low = (1 - level) / 2 * (count + 1) - 1
    index = int(np.clip(np.floor(low), 0, count - 2))
    part = float(np.clip(low - index, 0.0, 1.0))
    lower = ordered[index] + part * (ordered[index + 1] - ordered[index])
    upper = ordered[-1 - index] - part * (ordered[-1 - index] - ordered[-2 - index])
    centre = true[..., 1:-1, 1:-1]
    return float(((centre >= lower) & (centre <= upper)).double().mean())


def crps(samples: Tensor, true: Tensor) -> Tensor:
    """E|X − u| − ½ E|X − X'| at every point, without bias for a finite number of samples."""
    count = len(samples)
    ordered = samples.sort(0).values
    weights = 2 * torch.arange(1, count + 1, dtype=samples.dtype) - count - 1
    pairs = (weights.view(-1, *[1] * true.dim()) * ordered).sum(0) * 2 / (count * (count - 1))
    return (samples - true).abs().mean(0) - 0.5 * pairs


def _scores(samples: Sequence[Samples], solutions: Tensor) -> float:
    scores = [crps(s.solutions, u).mean() for s, u in zip(samples, solutions, strict=True)]
    return float(torch.stack(scores).mean())


def draw(case: Case, instances: Instances) -> list[Samples]:
    """The samples of a case with what they cost."""
    guided = case.method == "diffusion-ens" and "solution" in case.task.sees
    method = "diffusion-ens-guided" if guided else case.method
    sampler = load_sampler(case.task.equation, method, case.steps)
    begin = time.process_time()
    drawn = sampler.sample_each(instances.observed, case.task.samples, instances.seeds)
    spent = (time.process_time() - begin) / len(drawn)
    return [replace(s, notes={**s.notes, "cpu_seconds": spent}) for s in drawn]


def evaluate_sensors(
    folder: Path,
    *,
    equations: Sequence[str] = EQUATIONS,
    methods: Sequence[str] | None = None,
    seed: int = SEED,
    report: Report | None = None,
) -> Path:
    """Append the rows that are missing to folder/sensors.jsonl."""
    file = folder / "sensors.jsonl"
    measured = [{name: row.get(name) for name in _KEYS} for row in read_rows(file)]
    missing = [
        case
        for case in cases()
        if case.task.equation in equations
        and (methods is None or case.method in methods)
        and {**case.key, "seed": seed} not in measured
    ]
    instances: Instances | None = None
    for number, case in enumerate(missing):
        if report is not None:
            report(number / len(missing), f"{case.task.equation} {case.method}")
        if instances is None or instances.task != case.task:
            instances = Instances(case.task, seed)
        append_row(file, measure(case, instances))
    return file


_KEYS = (*Case(Task("helmholtz"), "exact").key, "seed")
