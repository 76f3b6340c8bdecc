"""ens evaluate: methods × regimes → rows, and the studies."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import DataFolder, Samples
from neuralsolver.errors import InvalidInput
from neuralsolver.files import exclusive
from neuralsolver.limits import SEED

if TYPE_CHECKING:
    from neuralsolver.experiments.evaluate import Evaluation
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
    samples: Samples = 100,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    data: DataFolder = None,
    model: Annotated[
        str | None, typer.Option(help="With a dataset file: a model; the shipped one by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Measure what is missing: trains or loads models, solves fresh instances, appends rows.

    What is already there is not measured again; an interrupted evaluation goes on where it was.
    """
    import torch

    from neuralsolver.experiments.evaluate import Evaluation
    from neuralsolver.experiments.paper import EXPERIMENTS
    from neuralsolver.experiments.scales import scale_named
    from neuralsolver.experiments.studies import STUDIES
    from neuralsolver.progress import Progress

    torch.set_num_threads(1)
    if experiment == "sensors":
        return _sensors(results / scale, method, seed)
    known = [*EXPERIMENTS, *STUDIES]
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
        lock = results / scale / f".{name}.lock"
        with exclusive(lock, f"evaluation of {name}"), Progress(name) as progress:
            shown = replace(base, report=_Training(progress))
            if name in STUDIES:
                file = _study(name, shown)
                if not as_json:
                    print(file)
                continue
            chosen = replace(shown, experiment=EXPERIMENTS[name]).run(
                method, regime, progress.fraction
            )
        printed.extend(chosen)
        if not as_json:
            print(_table(chosen))
    if as_json:
        print(json.dumps(printed, ensure_ascii=False))


def _sensors(folder: Path, methods: list[str] | None, seed: int) -> None:
    """Fields from sensors have their own rows: no regimes, but an exact answer."""
    from neuralsolver.experiments.sensors import evaluate_sensors
    from neuralsolver.progress import Progress

    with Progress("sensors") as progress:
        print(evaluate_sensors(folder, methods=methods, seed=seed, report=progress.fraction))


def _own(file: Path, model: str | None, samples: int) -> Row:
    """The row of a model on a dataset file of the user's."""
    from neuralsolver.data import read
    from neuralsolver.experiments.own import evaluate_on
    from neuralsolver.training import load

    solver = load(model or read(file).equation.name)
    return evaluate_on(file, solver, samples)


class _Training:
    """Shows how far the training of a missing model is."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __call__(self, stage: str, done: float, record: Any) -> None:
        self.progress.fraction(done, f"{stage} of a missing model, batch {record.batches}")


def _study(name: str, evaluation: Evaluation) -> Path:
    """The file of a study, made if it is not there."""
    import numpy as np

    from neuralsolver.experiments.studies import STUDIES, Laboratory
    from neuralsolver.files import write_whole

    kind = "npz" if name.endswith("fields") else "json"
    file = evaluation.results / evaluation.scale.name / f"{name}.{kind}"
    if file.exists():
        return file
    laboratory = Laboratory(
        lambda experiment, recipe: replace(evaluation, experiment=experiment).model(recipe),
        evaluation.scale,
        evaluation.seed,
        evaluation.data,
    )
    found = STUDIES[name](laboratory)
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "npz":
        stream = io.BytesIO()
        np.savez_compressed(stream, **found)
        write_whole(file, stream.getvalue())
    else:
        write_whole(file, json.dumps(found, indent=1, ensure_ascii=False).encode())
    return file


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
