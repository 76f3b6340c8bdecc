"""ens bench: measurements on this machine."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Annotated, Any

import typer

app = typer.Typer(help="Measure speed and accuracy on this machine.", rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("reference")
def reference(as_json: AsJson = False) -> None:
    """Compare the reference solvers with the textbook way, one thread."""
    _bench("reference", as_json)


@app.command("models")
def models(as_json: AsJson = False) -> None:
    """Time the networks, one thread."""
    _bench("models", as_json)


@app.command("targets")
def targets(
    samples: Annotated[int, typer.Option(help="Fresh instances per regime.")] = 100,
    seed: Annotated[int, typer.Option(help="Another seed, other instances.")] = 20_261,
    as_json: AsJson = False,
) -> None:
    """Errors of the shipped models on fresh instances; about half an hour with 100 of them."""
    _bench("targets", as_json, samples=samples, seed=seed)


@app.command("recipes")
def recipes(
    samples: Annotated[int, typer.Option(help="Fresh instances per regime.")] = 100,
    seed: Annotated[int, typer.Option(help="Another seed, other instances.")] = 20_262,
    as_json: AsJson = False,
) -> None:
    """FNO, the paper's ENS and the contractive ENS on the same fresh instances."""
    _bench("recipes", as_json, samples=samples, seed=seed)


@app.command("seeds")
def seeds(
    minutes: Annotated[float, typer.Option(help="Training time of each run.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Train the contractive recipe from three seeds on 32 x 32 points."""
    _bench("seeds", as_json, minutes=minutes)


def _bench(name: str, as_json: bool, **options: Any) -> None:
    if "OMP_NUM_THREADS" not in os.environ:
        # thread pools are sized when the libraries are loaded: start over with one thread
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execve(
            sys.executable, [sys.executable, "-m", "neuralsolver.cli", *sys.argv[1:]], environment
        )
    module = importlib.import_module(f"neuralsolver.bench.{name}")
    rows = module.measure(**options)
    print(json.dumps(rows) if as_json else module.table(rows))
