"""The part for programs: an array in, an array out, with the status and what is known of the error.

    curl -d '{"equation": "helmholtz", "seed": 3}' -H 'Content-Type: application/json' …/solve
    curl --data-binary @f.npy -H 'Content-Type: application/x-npy' -H 'Accept: application/x-npy' \\
         '…/solve?equation=helmholtz&wavenumber=1.5' -o u.npy

With a .npy body the words of the request are in the address, and so are the constants. A .npy
answer has the verdict in the header `X-Ens-Verdict`, as JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.catalogue import CATALOGUE, described
from neuralsolver.serve.frames import read_npy, write_npy
from neuralsolver.serve.refusals import Refused
from neuralsolver.serve.requests import SolveJob, SolveRequest, make_job, parse
from neuralsolver.serve.service import Service
from neuralsolver.serve.solve_steps import MeasuredSolve
from neuralsolver.serve.solver_choices import watched
from neuralsolver.serve.verdict import Verdict

NPY = "application/x-npy"
JSON = "application/json"
Result = TypeVar("Result")
LARGEST_JSON = 2**18
"""Numbers of an answer in JSON; beyond it the text is many times larger than the array."""


class Answer(Verdict):
    """A verdict with the solution: n lists of n numbers, or frames of them."""

    u: list[Any]


class Refusal(BaseModel):
    """The one form of an error."""

    error: dict[str, str]


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": what}
    for status, what in {
        408: "The body came too slowly.",
        413: "The body is too large.",
        415: "Neither JSON nor .npy.",
        422: "A field is wrong; the answer names it.",
        429: "All places are taken and the line is full; Retry-After says when to come back.",
        503: "Too many connections, or the server is stopping.",
    }.items()
}


def body_of(kind: type[BaseModel], *other: str) -> dict[str, Any]:
    """The body of a request in the description of the service: JSON, or bytes of other types."""
    content: dict[str, Any] = {JSON: {"schema": kind.model_json_schema()}}
    content |= {name: {"schema": {"type": "string", "format": "binary"}} for name in other}
    return {"requestBody": {"required": True, "content": content}}


routes = APIRouter()


@routes.get("/models", tags=["solve"])
async def models(request: Request) -> dict[str, Any]:
    """The equations that can be solved, the constants that may be changed, and the limits."""
    service: Service = request.app.state.service
    mains = {name: service.models.main(name) for name in service.models.equations}
    return {
        "equations": [
            described(CATALOGUE[name], main.equation.constants()) | {"grid": main.resolution}
            for name, main in mains.items()
        ],
        "models": sorted(service.models.loaded),
        "limits": service.settings.model_dump(include={"grid", "steps", "seconds"}),
    }


@routes.post(
    "/solve",
    tags=["solve"],
    response_model=Answer,
    responses={**REFUSALS, 200: {"content": {NPY: {}}}},
    openapi_extra=body_of(SolveRequest, NPY),
)
async def solve(request: Request) -> Response:
    """Solve one problem. The answer is .npy where the client accepts that first, else JSON."""
    service: Service = request.app.state.service
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, NPY, "application/octet-stream"):
        raise Refused(415, "content-type", f"{JSON} or {NPY}", kind[:80])
    words = None if kind == JSON else dict(request.query_params)
    # not request.body(), which would keep it while the solve waits
    body = b"".join([piece async for piece in request.stream()])
    wants_npy = request.headers.get("accept", "").partition(",")[0].strip().lower() == NPY
    job = await service.read(_job, body, words, wants_npy, service)
    del body
    work = service.solve(job, watched(service.models, job), with_reference=False)
    found = await unless_gone(request, work)
    return await service.read(_response, *found, wants_npy)


def _job(body: bytes, words: dict[str, str] | None, wants_npy: bool, service: Service) -> SolveJob:
    """The job of a JSON body, or of a .npy body and the words of its address."""
    settings, field = service.settings, None
    if words is None:
        asked = parse(SolveRequest, body, settings.grid)
    else:
        field = read_npy(body, settings.grid)
        known = {name: words.pop(name) for name in list(words) if name in SolveRequest.model_fields}
        if "input" in known or "constants" in known:
            raise InvalidInput("address", "constants by their names, the input as body", "others")
        asked = parse(SolveRequest, json.dumps({**known, "constants": words}))
    job = make_job(asked, service.models, settings, field)
    size = int(np.prod(job.problem.equation.solution_shape(job.problem.resolution)))
    if not wants_npy and size > LARGEST_JSON:
        raise InvalidInput("accept", f"{NPY} for an answer of {size} numbers", JSON)
    return job


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, unless the client leaves: then it is cancelled.

    Raises:
        ClientDisconnect: The client has left.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return await working
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await working


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(solve: MeasuredSolve, found: Verdict, wants_npy: bool) -> Response:
    assert solve.solution is not None
    u = solve.solution.tensor[0, 0].double().numpy()
    text = json.dumps(found.model_dump(), allow_nan=False)  # ASCII, as a header has to be
    if wants_npy:
        return Response(write_npy(u), media_type=NPY, headers={"X-Ens-Verdict": text})
    numbers = _numbers(np.where(np.isfinite(u), u, 0.0))
    return Response(f'{text[:-1]}, "u": {numbers}}}', media_type=JSON)


def _numbers(u: np.ndarray[Any, Any]) -> str:
    """JSON row by row: one call for all would keep every other thread waiting."""
    if u.ndim == 1:
        return json.dumps(u.tolist())
    return "[" + ", ".join(_numbers(row) for row in u) + "]"
