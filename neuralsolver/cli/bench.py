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


@app.command("transformer")
def transformer(as_json: AsJson = False) -> None:
    """Time the transformer of the flows over grids and frames, one thread."""
    _bench("transformer", as_json)


@app.command("flows")
def flows(
    samples: Annotated[int, typer.Option(help="Trajectories per flow.")] = 3,
    seed: Annotated[int, typer.Option(help="Another seed, other trajectories.")] = 20_264,
    as_json: AsJson = False,
) -> None:
    """The residual of true trajectories: what no corrector of a flow can go below."""
    _bench("flows", as_json, samples=samples, seed=seed)


@app.command("solve")
def solve(
    resolutions: Annotated[
        list[int] | None, typer.Option(help="Grids, one or several; 64 128 256 512 by default.")
    ] = None,
    more: Annotated[list[int] | None, typer.Argument(hidden=True)] = None,
    samples: Annotated[int, typer.Option(help="Instances; fewer on grids beyond 256.")] = 4,
    seed: Annotated[int, typer.Option(help="Another seed, other instances.")] = 20_263,
    as_json: AsJson = False,
) -> None:
    """Seconds to a given error on Darcy flow, beside SciPy, PyAMG and the reference solver."""
    # `--resolutions 64 128`: what follows the first number arrives as arguments
    chosen = [*(resolutions or []), *(more or [])]
    options = {"resolutions": chosen} if chosen else {}
    _bench("solve", as_json, samples=samples, seed=seed, **options)


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
