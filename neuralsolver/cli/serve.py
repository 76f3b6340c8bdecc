"""ens serve: the page and the service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralsolver.errors import InvalidInput
from neuralsolver.limits import Float, Int

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 chooses a free one."), Int(0, 65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Number of processes."), Int(1, 64)] = 1,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a --host that other machines reach.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="Host name that others use; repeatable.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results the page shows.")] = Path(
        "results/desk"
    ),
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    grid: Annotated[
        int | None,
        typer.Option(help="Largest grid, in points a side. [default: 256]"),
        Int(8, 4096),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Largest number of steps. [default: 300]"), Int(1, 100_000)
    ] = None,
    solves: Annotated[
        int | None, typer.Option(help="Solves that run at once. [default: 2]"), Int(1, 1024)
    ] = None,
    waiting: Annotated[
        int | None, typer.Option(help="Solves that may wait. [default: 64]"), Int(0, 100_000)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Time limit of one solve. [default: 20]"),
        Float(above=0.0, most=1e6),
    ] = None,
    connections: Annotated[
        int | None, typer.Option(help="Open streams at once. [default: 128]"), Int(1, 100_000)
    ] = None,
) -> None:
    """Serve the web page and the HTTP interface.

    The server listens on this machine only, unless --host and --allow-remote are given.
    """
    _check_installed()
    if host not in LOOPBACK and not allow_remote:
        raise InvalidInput("--host", "127.0.0.1, or --allow-remote beside it", host)
    if host in LOOPBACK and allow_remote:
        raise InvalidInput("--allow-remote", "a --host that others reach beside it", host)
    if allow_remote and not name:
        raise InvalidInput("--allow-remote", "--name beside it, the host name others use", "none")
    limits = {
        "grid": grid,
        "steps": steps,
        "solves": solves,
        "waiting": waiting,
        "seconds": seconds,
        "connections": connections,
    }
    _export(limits, results, name or [])

    from neuralsolver.serve.http_server import run

    def ready(address: str) -> None:
        print(f"neuralsolver on {address} (Ctrl-C stops it)", file=sys.stderr, flush=True)
        if open_page:
            import webbrowser

            webbrowser.open(address)

    run(host, port, workers, ready)


def _check_installed() -> None:
    from importlib.util import find_spec

    needed = ("fastapi", "prometheus_client", "pydantic_settings", "uvicorn", "websockets")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InvalidInput("ens serve", "pip install 'neuralsolver[serve]'", f"no {missing[0]}")


def _export(limits: dict[str, Any], results: Path, names: list[str]) -> None:
    """Settings as variables, which worker processes inherit."""
    from neuralsolver.serve.settings import ServerSettings

    given = {key: value for key, value in limits.items() if value is not None}
    os.environ.update(ServerSettings.make(**given).environment())
    # no page of others can be at a loopback name, so these are always answered
    hosts = ",".join(["localhost", "127.0.0.1", "[::1]", *names])
    os.environ.update(ENS_RESULTS=str(results), ENS_HOSTS=hosts)
    # one thread per solve: several solves, several cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
