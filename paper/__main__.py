"""python -m paper: measure the rows of the study, and make its tables and figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver import cli
from neuralsolver.cli.options import DataFolder, checked
from neuralsolver.cli.train import train
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Choice, Int
from paper.denoiser_training import denoiser
from paper.inversion import inversion

if TYPE_CHECKING:
    from paper.rows import Row

NAME = "python -m paper"

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def options(
    plugin: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A Python file that adds methods of yours; repeatable."),
    ] = None,
) -> None:
    """The study of the paper: measure its rows, write its tables and figures."""
    for file in plugin or []:
        from neuralsolver.equations.registry import import_equations

        import_equations(file, "--plugin")


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
    scale: Annotated[str, typer.Option(help="paper, small or tiny.")] = "small",
    seed: Annotated[int, typer.Option(help="Seed of the test data."), SEED] = 20_412,
    samples: Annotated[
        int | None,
        typer.Option(help="Fresh instances per regime. [default: 100, flows 32]"),
        Int(1, 1_000_000),
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

    from neuralsolver.progress import Progress
    from neuralsolver.training.presets import scale_named
    from paper.evaluate import Evaluation
    from paper.regimes import EXPERIMENTS
    from paper.studies import STUDIES, study_file

    torch.set_num_threads(1)
    if experiment == "sensors":
        return _sensors(results / scale_named(scale).written, method, regime, seed)
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
        with Progress(name) as progress:

            def training(stage: str, done: float, record: Any, shown: Progress = progress) -> None:
                shown.fraction(done, f"{stage} of a missing model, batch {record.batches}")

            def tell(text: str) -> None:
                print(f"stale: {text}", file=sys.stderr)

            here = replace(base, report=training, tell=tell)
            if name in STUDIES:
                text = str(study_file(name, here))
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
    from neuralsolver.progress import Progress
    from paper.sensors import EQUATIONS, evaluate_sensors

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
    from neuralsolver.training import load
    from paper.measure import evaluate_on

    solver = load(model or read(file).equation.name)
    return evaluate_on(file, solver, samples)


def _table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    import pandas as pd

    names = {"regime": "regime", "method": "method", "resolution": "grid", "samples": "samples"}
    names |= {"error": "relative L2", "residual": "residual", "steps": "steps"}
    names |= {"seconds_batch_1": "s/sample", "network_answers": "network's"}
    frame = pd.DataFrame(rows, columns=list(names)).rename(columns=names)
    frame["status"] = [", ".join(f"{n} {end}" for end, n in row["status"].items()) for row in rows]
    formats = dict.fromkeys(("relative L2", "residual", "s/sample"), "{:.2e}".format)
    return str(frame.to_string(index=False, formatters=formats, na_rep=""))


def report(
    *,
    scale: Annotated[str, typer.Option(help="Which results: a folder under --results.")] = "desk",
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    kind: Annotated[
        str, typer.Option("--format", help="Of the figures: png or pdf."), Choice(("png", "pdf"))
    ] = "png",
) -> None:
    """Write the tables and figures of the rows that `python -m paper evaluate` has left."""
    from paper.write import write_report

    written = write_report(results / scale, kind)
    for path in written.files:
        print(path)
    if written.skipped:
        print(f"without data, not drawn: {', '.join(written.skipped)}")


for _name, _command in (
    ("denoiser", denoiser),
    ("evaluate", evaluate),
    ("inversion", inversion),
    ("report", report),
    ("train", train),
):
    app.command(_name)(checked(_command))


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command."""
    return cli.run(arguments, app, NAME)


if __name__ == "__main__":
    cli.main(commands=app, name=NAME)
