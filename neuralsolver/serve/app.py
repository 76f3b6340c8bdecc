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

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import neuralsolver
from neuralsolver.plotting.pictures import DIVERGING, SEQUENTIAL
from neuralsolver.serve import http_api, stories
from neuralsolver.serve.gateway import LOOPBACK, Gateway
from neuralsolver.serve.http_server import on_signal
from neuralsolver.serve.service import Service
from neuralsolver.serve.settings import ServerSettings
from neuralsolver.serve.stream import Streams

PAGE = Path(__file__).parent / "page"
RESULTS, HOSTS = "ENS_RESULTS", "ENS_HOSTS"
"""Variables: the folder of results, and the host names that are answered."""
RESULT_FILES = ("*.jsonl", "tables/*.md", "figures/*.png", "figures/*.gif", "figures/*.svg")


def create() -> FastAPI:
    """The application with the settings of the environment."""
    hosts = os.environ.get(HOSTS, ",".join(LOOPBACK))
    folder = Path(os.environ.get(RESULTS, "results/desk"))
    return make_app(ServerSettings.make(), folder, tuple(hosts.split(",")))


def make_app(settings: ServerSettings, results: Path, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The application with the settings given.

    Args:
        settings: The limits.
        results: The folder of measured results; it may be absent.
        hosts: The host names that are answered.
    """
    service = Service(settings)
    streams = Streams(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        on_signal(lambda leave: asyncio.run_coroutine_threadsafe(streams.end(leave), loop))
        await loop.run_in_executor(service.solving, service.models.warm)
        yield {"settings": settings}
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
    app.state.service, app.state.streams = service, streams
    app.add_middleware(Gateway, settings=settings, telemetry=service.telemetry, hosts=hosts)
    app.include_router(http_api.routes)
    app.include_router(stories.routes)
    app.add_api_websocket_route("/stream", streams.serve)
    app.add_exception_handler(HTTPException, _passed_on)
    _add_state(app, service)
    _add_results(app, results)
    _add_page(app)
    return app


async def _passed_on(request: Request, error: Exception) -> Response:
    """Leave an error to the gateway, which gives all of them one form."""
    raise error


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
    async def metrics() -> Response:
        """Counters of this process for Prometheus."""
        return Response(generate_latest(service.telemetry.registry), media_type=CONTENT_TYPE_LATEST)


def _add_results(app: FastAPI, folder: Path) -> None:
    @app.get("/results", tags=["results"])
    def results() -> dict[str, Any]:
        """The files of measured rows, tables and figures; each is at /results/files/NAME."""
        found = (file for pattern in RESULT_FILES for file in sorted(folder.glob(pattern)))
        return {"folder": folder.name, "files": [str(f.relative_to(folder)) for f in found]}

    if folder.is_dir():
        app.mount("/results/files", StaticFiles(directory=folder))


def _add_page(app: FastAPI) -> None:
    colours = _colours()

    @app.get("/colours", include_in_schema=False)
    async def colour_maps() -> Response:
        return JSONResponse(colours, headers={"Cache-Control": "max-age=86400"})

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")


def _colours() -> dict[str, list[int]]:
    """The colour maps of the figures, 256 × 3 bytes each."""
    from matplotlib import colormaps

    return {
        kind: (255 * colormaps[name](range(256))[:, :3]).round().astype(int).ravel().tolist()
        for kind, name in {"sequential": SEQUENTIAL, "diverging": DIVERGING}.items()
    }
