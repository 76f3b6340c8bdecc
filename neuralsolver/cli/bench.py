"""ens bench: measurements on this machine."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from typing import Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, Seed, checked
from neuralsolver.limits import RESOLUTION, Real, Whole

app = typer.Typer(help="Measure speed and accuracy on this machine.", rich_markup_mode=None)

Samples = Annotated[int, typer.Option(help="Instances per case."), Whole(1, 100_000)]


@app.command("reference")
@checked
def reference(as_json: AsJson = False) -> None:
    """Compare the reference solvers with the textbook way, one thread."""
    _bench("reference", as_json)


@app.command("models")
@checked
def models(
    peers_python: Annotated[
        str | None,
        typer.Option(help="An interpreter that has neuraloperator. [default: $ENS_PEERS_PYTHON]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time the networks, one thread; beside neuraloperator's, where an interpreter is named."""
    _bench("models", as_json, peers_python=peers_python)


@app.command("transformer")
@checked
def transformer(as_json: AsJson = False) -> None:
    """Time the transformer of the flows over grids and frames, one thread."""
    _bench("transformer", as_json)


@app.command("flows")
@checked
def flows(
    samples: Samples = 3,
    seed: Seed = 20_264,
    as_json: AsJson = False,
) -> None:
    """The residual of true trajectories: what no corrector of a flow can go below."""
    _bench("flows", as_json, samples=samples, seed=seed)


@app.command("datasets")
@checked
def datasets(samples: Samples = 4, as_json: AsJson = False) -> None:
    """Seconds and memory of generating each dataset, 64 × 64 and 128 × 128, one thread."""
    _bench("datasets", as_json, samples=samples)


@app.command("solve")
@checked
def solve(
    resolutions: Annotated[
        list[int] | None,
        typer.Option(help="Grids, one or several; 64 128 256 512 by default."),
        RESOLUTION,
    ] = None,
    more: Annotated[list[int] | None, typer.Argument(hidden=True), RESOLUTION] = None,
    samples: Samples = 4,
    seed: Seed = 20_263,
    as_json: AsJson = False,
) -> None:
    """Seconds to a given error on Darcy flow, beside SciPy, PyAMG and the reference solver."""
    # `--resolutions 64 128`: what follows the first number arrives as arguments
    chosen = [*(resolutions or []), *(more or [])]
    options = {"resolutions": chosen} if chosen else {}
    _bench("solve", as_json, samples=samples, seed=seed, **options)


@app.command("shapes")
@checked
def shapes(
    resolutions: Annotated[
        list[int] | None,
        typer.Option(help="Grids, one or several; 128 256 512 1024 by default."),
        RESOLUTION,
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Seconds to a given error inside shapes of six families, beside PyAMG and sparse LU.

    And beside UGrid, where ENS_UGRID names the weights that its authors publish.
    """
    _bench("shapes", as_json, **({"resolutions": resolutions} if resolutions else {}))


@app.command("boxes")
@checked
def boxes(
    resolutions: Annotated[
        list[int] | None,
        typer.Option(help="Points a side, one or several; 32 64 128 by default."),
        Whole(32, 256),
    ] = None,
    seed: Seed = 20_265,
    as_json: AsJson = False,
) -> None:
    """Seconds and memory to 1e-8 in the unit cube, beside PyAMG and the sine transform."""
    _bench("boxes", as_json, seed=seed, **({"resolutions": resolutions} if resolutions else {}))


@app.command("batch")
@checked
def batch(
    samples: Annotated[
        list[int] | None,
        typer.Option(help="Samples of a batch, one or several; 1 8 32 200 by default."),
        Whole(1, 10_000),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Pairs of each case."), Whole(1, 100)] = 3,
    as_json: AsJson = False,
) -> None:
    """Seconds of a sample alone and in batches, on one thread and on two, in pairs."""
    _bench("batch", as_json, repeats=repeats, **({"samples": samples} if samples else {}))


@app.command("shape-steps")
@checked
def shape_steps(
    resolutions: Annotated[
        list[int] | None,
        typer.Option(help="Grids, one or several; 64 128 512 by default."),
        RESOLUTION,
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Shapes; 50, 12 on fine grids."), Whole(1, 100_000)
    ] = None,
    seed: Seed = 20_264,
    as_json: AsJson = False,
) -> None:
    """Steps on fresh shapes with the corrector that reads them, without it, and by multigrid."""
    options = {"resolutions": resolutions} if resolutions else {}
    _bench("shape_steps", as_json, samples=samples, seed=seed, **options)


@app.command("walls")
@checked
def walls(
    samples: Samples = 8,
    seed: Seed = 20_266,
    as_json: AsJson = False,
) -> None:
    """Steps with values on the walls beside those with zero walls, for all static equations."""
    _bench("walls", as_json, samples=samples, seed=seed)


@app.command("training")
@checked
def training(
    minutes: Annotated[
        float, typer.Option(help="CPU minutes for each stage."), Real(above=0.0, most=60.0)
    ] = 0.2,
    as_json: AsJson = False,
) -> None:
    """What the batches of the models that were trained by the clock take on a core of their own."""
    _bench("training", as_json, minutes=minutes)


@app.command("serve")
@checked
def serve(
    clients: Annotated[int, typer.Option(help="Clients of the load test."), Whole(2, 1000)] = 50,
    seconds: Annotated[float, typer.Option(help="How long they ask."), Real(1.0, 3600.0)] = 30.0,
    as_json: AsJson = False,
) -> None:
    """The page's service from outside: first frame, frames per second, slider, load."""
    _bench("serve", as_json, clients=clients, seconds=seconds)


def _bench(name: str, as_json: bool, **options: Any) -> None:
    if "OMP_NUM_THREADS" not in os.environ:
        # thread pools are sized when the libraries are loaded: start over with one thread
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execve(
            sys.executable, [sys.executable, "-m", "neuralsolver.cli", *sys.argv[1:]], environment
        )
    from neuralsolver.progress import Progress

    module = importlib.import_module(f"neuralsolver.bench.{name}")
    with Progress(f"bench {name}") as progress:
        progress.fraction(0.0, "measuring")
        if "tell" in inspect.signature(module.measure).parameters:
            options["tell"] = progress.fraction
        rows = module.measure(**options)
    print(json.dumps(rows) if as_json else module.table(rows))
