"""ens evaluate: methods × regimes → rows, and the studies."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import DataFolder
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Whole

if TYPE_CHECKING:
    from neuralsolver.experiments.rows import Row
    from neuralsolver.progress import Progress


def evaluate(
    experiment: Annotated[
        str,
        typer.Argument(
            help="An experiment, a study, `all` for every one of them, or a dataset file of yours."
        ),
    ],
    *,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; repeatable.")] = None,
    regime: Annotated[list[str] | None, typer.Option(help="Only this regime; repeatable.")] = None,
    scale: Annotated[str, typer.Option(help="paper, desk or tiny.")] = "desk",
    seed: Annotated[int, typer.Option(help="Seed of the test data."), SEED] = 20_264,
    samples: Annotated[
        int | None,
        typer.Option(help="Fresh instances per regime. [default: 100, flows 32]"),
        Whole(1, 1_000_000),
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    data: DataFolder = None,
    model: Annotated[
        str | None, typer.Option(help="With a dataset file: a model; the shipped one by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Measure what is missing: trains or loads models, solves fresh instances, appends rows.

    What is already there is not measured again, unless the weights or the method have changed; an
    interrupted evaluation goes on where it was.
    """
    import torch

    from neuralsolver.experiments import seeds, targets
    from neuralsolver.experiments.evaluate import Evaluation
    from neuralsolver.experiments.paper import EXPERIMENTS
    from neuralsolver.experiments.studies import STUDIES, study_file
    from neuralsolver.experiments.trainings import scale_named
    from neuralsolver.progress import Progress

    torch.set_num_threads(1)
    if experiment == "sensors":
        return _sensors(results / scale, method, regime, seed)
    series = {"targets": targets, "seeds": seeds}
    known = [*EXPERIMENTS, *series, *STUDIES]
    if experiment not in (*known, "all") and Path(experiment).is_file():
        row = _own(Path(experiment), model, samples)
        print(json.dumps([row], ensure_ascii=False) if as_json else _table([row]))
        return
    if model is not None:
        raise InvalidInput("--model", "a dataset file in place of an experiment", experiment)
    if experiment not in (*known, "all"):
        raise InvalidInput("experiment", f"one of {', '.join(known)} or all", experiment)
    base = Evaluation(
        EXPERIMENTS["helmholtz"], scale_named(scale), results, runs, data, seed, samples
    )
    printed: list[Row] = []
    for name in known if experiment == "all" else [experiment]:
        with Progress(name) as progress:
            here = replace(base, report=_Training(progress), tell=_tell)
            if name in STUDIES:
                text = str(study_file(name, here))
            elif name in series:
                chosen = series[name].run(here, progress.fraction)
                text = series[name].table(chosen)
                printed.extend(chosen)
            else:
                chosen = here.of(EXPERIMENTS[name]).run(method, regime, progress.fraction)
                text = _table(chosen)
                printed.extend(chosen)
        if not as_json:
            print(text)
    if as_json:
        print(json.dumps(printed, ensure_ascii=False))


def _sensors(
    folder: Path, methods: list[str] | None, equations: list[str] | None, seed: int
) -> None:
    """Fields from sensors have their own rows: equations in place of regimes, an exact answer."""
    from neuralsolver.experiments.sensors import EQUATIONS, evaluate_sensors
    from neuralsolver.progress import Progress

    chosen = equations or list(EQUATIONS)
    for name in chosen:
        if name not in EQUATIONS:
            raise InvalidInput("--regime", f"one of {', '.join(EQUATIONS)} for sensors", name)
    with Progress("sensors") as progress:
        report = progress.fraction
        print(evaluate_sensors(folder, equations=chosen, methods=methods, seed=seed, report=report))


def _own(file: Path, model: str | None, samples: int | None) -> Row:
    """The row of a model on a dataset file of the user's."""
    from neuralsolver.data import read
    from neuralsolver.experiments.own import evaluate_on
    from neuralsolver.training import load

    solver = load(model or read(file).equation.name)
    return evaluate_on(file, solver, samples)


def _tell(text: str) -> None:
    print(f"stale: {text}", file=sys.stderr)


class _Training:
    """Shows how far the training of a missing model is."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __call__(self, stage: str, done: float, record: Any) -> None:
        self.progress.fraction(done, f"{stage} of a missing model, batch {record.batches}")


def _table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'regime':17} {'method':32} {'grid':>4} {'samples':>7} {'relative L2':>11} "
        f"{'residual':>9} {'steps':>6} {'s/sample':>9}  status"
    ]
    for row in rows:
        number = {
            name: "" if row[name] is None else f"{row[name]:.2e}"
            for name in ("error", "residual", "seconds_batch_1")
        }
        steps = "" if row["steps"] is None else f"{row['steps']:.0f}"
        status = ", ".join(f"{count} {name}" for name, count in row["status"].items())
        lines.append(
            f"{row['regime']:17} {row['method']:32} {row['resolution']:4d} {row['samples']:7d} "
            f"{number['error']:>11} {number['residual']:>9} {steps:>6} "
            f"{number['seconds_batch_1']:>9}  {status}"
        )
    return "\n".join(lines)
