"""ens serve: the page and the service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralsolver.errors import InvalidInput
from neuralsolver.limits import Real, Whole

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one."), Whole(0, 65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes."), Whole(1, 64)] = 1,
    allow_remote: Annotated[
        bool, typer.Option(help="Listen on an address that other machines reach.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name to answer to; repeatable.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/desk"),
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    grid: Annotated[
        int | None, typer.Option(help="Largest grid. [default: 256]"), Whole(8, 4096)
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Most steps. [default: 300]"), Whole(1, 100_000)
    ] = None,
    solves: Annotated[
        int | None, typer.Option(help="Solves at once. [default: 2]"), Whole(1, 1024)
    ] = None,
    waiting: Annotated[
        int | None, typer.Option(help="Solves in line. [default: 64]"), Whole(0, 100_000)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Time of a solve. [default: 20]"), Real(above=0.0, most=1e6)
    ] = None,
    connections: Annotated[
        int | None, typer.Option(help="Streams. [default: 128]"), Whole(1, 100_000)
    ] = None,
) -> None:
    """Serve the page: watch the solver work, and solve over HTTP.

    Listens on this machine only, unless told otherwise.
    """
    _check_installed()
    if host not in LOOPBACK and not allow_remote:
        raise InvalidInput("--host", "127.0.0.1, or --allow-remote beside it", host)
    if host in LOOPBACK and allow_remote:
        raise InvalidInput("--allow-remote", "a --host that others reach beside it", host)
    bounds = {
        "grid": grid,
        "steps": steps,
        "solves": solves,
        "waiting": waiting,
        "seconds": seconds,
        "connections": connections,
    }
    _export(bounds, results, _names(host, name))

    from neuralsolver.serve.run import run

    def ready(address: str) -> None:
        print(f"neuralsolver on {address} (Ctrl-C stops it)", file=sys.stderr, flush=True)
        if open_page:
            import webbrowser

            webbrowser.open(address)

    run(host, port, workers, ready)


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "websockets") if find_spec(name) is None]
    if missing:
        raise InvalidInput("ens serve", "pip install 'neuralsolver[serve]'", f"no {missing[0]}")


def _names(host: str, names: list[str] | None) -> str:
    """The host names that are answered; reached from elsewhere, all unless some are given."""
    if names:
        return ",".join(names)
    return "localhost,127.0.0.1,[::1]" if host in LOOPBACK else "*"


def _export(bounds: dict[str, Any], results: Path, names: str) -> None:
    """Settings as variables, which worker processes inherit."""
    from dataclasses import replace

    from neuralsolver.serve.limits import Limits

    given = {key: value for key, value in bounds.items() if value is not None}
    os.environ.update(replace(Limits.from_environment(), **given).environment())
    os.environ.update(ENS_RESULTS=str(results), ENS_HOSTS=names)
    # one thread per solve: several solves, several cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
