"""The application: the gate, the routes, the page, and a clean beginning and end.

    uvicorn --factory neuralsolver.serve.app:create

is what `ens serve` runs. All settings are environment variables, so that worker processes and other
servers start the same application.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import neuralsolver
from neuralsolver.drawing import DIVERGING, SEQUENTIAL
from neuralsolver.errors import InvalidInput
from neuralsolver.serve import rest, sensors
from neuralsolver.serve.asks import invalid
from neuralsolver.serve.guard import LOOPBACK, Guard, problem
from neuralsolver.serve.limits import Limits
from neuralsolver.serve.queue import LineFull
from neuralsolver.serve.results import Results
from neuralsolver.serve.service import Service
from neuralsolver.serve.session import converse

PAGE = Path(__file__).parent / "page"
RESULTS, HOSTS = "ENS_RESULTS", "ENS_HOSTS"
"""Variables: the folder of results, and the host names that are answered ("*" for all)."""
TRY_AGAIN = 1013
"""Close code of a stream that finds all connections taken."""


def create() -> FastAPI:
    """The application with the settings of the environment."""
    hosts = os.environ.get(HOSTS, ",".join(LOOPBACK))
    folder = Path(os.environ.get(RESULTS, "results/desk"))
    names = () if hosts == "*" else tuple(hosts.split(","))
    return make_app(Limits.from_environment(), folder, names)


def make_app(limits: Limits, results: Path, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The application with the settings given."""
    service = Service(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.get_running_loop().run_in_executor(service.solving, service.models.warm)
        yield
        service.close()

    app = FastAPI(
        title="neuralsolver",
        version=neuralsolver.__version__,
        description="Neural solvers of partial differential equations that correct themselves.",
        lifespan=lifespan,
        # FastAPI's own pages load scripts from another host; ours shows the same description
        docs_url=None,
        redoc_url=None,
    )
    app.state.service, app.state.results = service, Results(results)
    app.add_middleware(Guard, limits=limits, metrics=service.metrics, hosts=hosts)
    app.include_router(rest.routes)
    app.include_router(sensors.routes)
    _add_errors(app, service)
    _add_state(app, service)
    _add_results(app)
    _add_stream(app, service)
    _add_page(app)
    return app


def _add_errors(app: FastAPI, service: Service) -> None:
    """Everything that may go wrong has the same form."""

    @app.exception_handler(InvalidInput)
    async def wrong(request: Request, error: InvalidInput) -> Response:
        service.metrics.refused[error.field] += 1
        status = 404 if error.field in ("result", "figure") else 422
        return problem(status, error.field, error.expected, error.got)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        return await wrong(request, invalid(error.errors()))

    @app.exception_handler(rest.UnknownKind)
    async def unknown(request: Request, error: rest.UnknownKind) -> Response:
        service.metrics.refused["content-type"] += 1
        return problem(415, "content-type", f"{rest.JSON} or {rest.NPY}", error)

    @app.exception_handler(LineFull)
    async def full(request: Request, error: LineFull) -> Response:
        service.metrics.refused["queue"] += 1
        answer = problem(429, "queue", "a free place", error)
        answer.headers["Retry-After"] = "2"
        return answer

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        answer = problem(error.status_code, "address", "one of GET /openapi.json", request.url.path)
        answer.headers.update(error.headers or {})
        return answer


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["state"])
    async def healthz() -> dict[str, Any]:
        """Ready, and how busy."""
        return {
            "status": "ok",
            "version": neuralsolver.__version__,
            "models": len(service.models.loaded),
            "running": service.places.running,
            "waiting": len(service.places.line),
            "seconds": round(time.time() - service.begun, 1),
            "process": os.getpid(),
        }

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    async def metrics() -> str:
        """Counters of this process for Prometheus."""
        return service.metrics.text(service.places.running, len(service.places.line))


def _add_results(app: FastAPI) -> None:
    results: Results = app.state.results

    @app.get("/results", tags=["results"])
    def overview() -> dict[str, Any]:
        """What was measured: experiments, tables, figures."""
        return results.overview()

    @app.get("/results/rows/{experiment}", tags=["results"])
    def rows(experiment: str) -> list[dict[str, Any]]:
        """Rows, each with its file, its line and the command that measures it."""
        return results.rows(experiment)

    @app.get("/results/tables/{name}", tags=["results"])
    def table(name: str) -> dict[str, Any]:
        """One table."""
        return results.table(name)

    @app.get("/results/figures/{name}", tags=["results"], response_class=FileResponse)
    def figure(name: str) -> Response:
        """One figure."""
        file, kind = results.figure(name)
        return FileResponse(file, media_type=kind)


def _add_stream(app: FastAPI, service: Service) -> None:
    @app.websocket("/stream")
    async def stream(websocket: WebSocket) -> None:
        if service.metrics.connections >= service.limits.connections:
            service.metrics.refused["connections"] += 1
            await websocket.accept()
            await websocket.close(TRY_AGAIN, "too many connections; try again soon")
            return
        service.metrics.connections += 1
        try:
            await converse(websocket, service)
        finally:
            service.metrics.connections -= 1


def _add_page(app: FastAPI) -> None:
    colours = _colours()

    @app.get("/colours", include_in_schema=False)
    async def colour_maps() -> Response:
        return JSONResponse(colours, headers={"Cache-Control": "max-age=86400"})

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return FileResponse(PAGE / "icon.svg", media_type="image/svg+xml")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")


def _colours() -> dict[str, list[int]]:
    """The colour maps of the figures, 256 × 3 bytes each."""
    from matplotlib import colormaps

    return {
        kind: (255 * colormaps[name](range(256))[:, :3]).round().astype(int).ravel().tolist()
        for kind, name in {"sequential": SEQUENTIAL, "diverging": DIVERGING}.items()
    }
