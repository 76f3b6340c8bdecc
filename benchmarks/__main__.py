"""python -m benchmarks FAMILY: seconds to a target on this machine, all methods taking turns."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from neuralsolver.cli import main
from neuralsolver.cli.options import AsJson, Seed, checked
from neuralsolver.limits import Int

app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def race_family(
    family: Annotated[
        str, typer.Argument(help="darcy, poisson, helmholtz, shapes, boxes, walls, batches, waves.")
    ],
    *,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Points a side; for batches the samples of a batch."),
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Instances a case."), Int(1, 1000)] = None,
    repeats: Annotated[int, typer.Option(help="Timed turns a method."), Int(1, 100)] = 3,
    seed: Seed = 20_264,
    as_json: AsJson = False,
    case: Annotated[list[str] | None, typer.Option(help="Of waves; repeatable.")] = None,
    rows: Annotated[Path | None, typer.Option(help="File that rows of waves go to.")] = None,
    beside: Annotated[
        Path | None, typer.Option(help="Training problems of waves: more rivals.")
    ] = None,
) -> None:
    """Race every method of a family to its targets: processor seconds, one thread, interleaved."""
    if "OMP_NUM_THREADS" not in os.environ:
        # thread pools are sized when the libraries are loaded: start again with one thread
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], environment)
    if family == "waves":
        from benchmarks.waves import race_waves

        print(race_waves(rows, case, samples, beside=beside))
        return
    from benchmarks.families import measure
    from benchmarks.harness import table
    from neuralsolver.progress import Progress

    with Progress(f"benchmarks {family}") as progress:
        chosen = None if sizes is None else sizes.split(",")
        found = measure(family, chosen, samples, seed=seed, repeats=repeats, tell=progress.fraction)
    print("\n".join(map(json.dumps, found)) if as_json else table(found))


app.command()(checked(race_family))

if __name__ == "__main__":
    main(commands=app, name="python -m benchmarks")
