"""The part for programs: an array in, an array out, with the status and what is known of the error.

    curl -d '{"equation": "helmholtz", "seed": 3}' -H 'Content-Type: application/json' …/solve
    curl --data-binary @f.npy -H 'Content-Type: application/x-npy' -H 'Accept: application/x-npy' \\
         '…/solve?equation=helmholtz&wavenumber=1.5' -o u.npy

With a .npy body the words of the ask are in the address, and so are the constants. A .npy answer
has the verdict in the header `X-Ens-Verdict`, as JSON.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.asks import Ask, Task, parse
from neuralsolver.serve.catalogue import CATALOGUE, described
from neuralsolver.serve.fields import read_npy, write_npy
from neuralsolver.serve.methods import watched
from neuralsolver.serve.service import Service
from neuralsolver.serve.watch import Outcome

NPY = "application/x-npy"
JSON = "application/json"
LARGEST_JSON = 2**18
"""Numbers of an answer in JSON; beyond it the text is many times larger than the array."""


class Verdict(BaseModel):
    """How a solve ended and what is known of its answer."""

    status: Annotated[str, Field(description="TOLERANCE, FINISHED, PLATEAU, DIVERGED …")]
    good: Annotated[bool, Field(description="Whether what was asked for was reached.")]
    headline: str
    tone: str
    meaning: str
    accuracy: Annotated[str, Field(description="What is known of the error, in words.")]
    steps: int
    seconds: float
    relative_residual: float | None
    error_bound: Annotated[float | None, Field(description="Proven, where the equation allows.")]
    error_estimate: Annotated[float | None, Field(description="Where there is no bound.")]
    error: Annotated[float | None, Field(description="Only on the stream.")]


class Answer(Verdict):
    """A verdict with the solution: n lists of n numbers, or frames of them."""

    u: list[Any]


class Refusal(BaseModel):
    """The one form of an error."""

    error: dict[str, str]


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": what}
    for status, what in {
        413: "The body is too large.",
        415: "Neither JSON nor .npy.",
        422: "A field is wrong; the answer names it.",
        429: "All places are taken and the line is full; Retry-After says when to come back.",
    }.items()
}

BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": Ask.model_json_schema(ref_template="#/components/schemas/{model}")},
            NPY: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}

routes = APIRouter()


@routes.get("/models", tags=["solve"])
async def models(request: Request) -> dict[str, Any]:
    """The equations that can be solved, the constants that may be changed, and the limits."""
    service: Service = request.app.state.service
    limits = service.limits
    return {
        "equations": [
            described(CATALOGUE[name], service.models.main(name).equation.constants())
            | {"grid": service.models.main(name).resolution}
            for name in service.models.equations
        ],
        "models": sorted(service.models.loaded),
        "limits": {"grid": limits.grid, "steps": limits.steps, "seconds": limits.seconds},
    }


@routes.post(
    "/solve",
    tags=["solve"],
    response_model=Answer,
    responses={**REFUSALS, 200: {"content": {NPY: {}}}},
    openapi_extra=BODY,
)
async def solve(request: Request) -> Response:
    """Solve one problem. The answer is .npy where the client accepts that first, else JSON."""
    service: Service = request.app.state.service
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        task = await service.task(parse(Ask, await request.body()))
    elif kind in (NPY, "application/octet-stream"):
        field = read_npy(await request.body(), service.limits.grid)
        task = await service.task(_ask_of(dict(request.query_params)), field)
    else:
        raise UnknownKind(kind)
    wants_npy = request.headers.get("accept", "").partition(",")[0].strip().lower() == NPY
    _check_size(task, wants_npy)
    outcome, judged = await _unless_gone(request, service, task)
    return _response(outcome, judged, wants_npy)


class UnknownKind(Exception):
    """A body that is neither JSON nor .npy."""


def _ask_of(words: dict[str, str]) -> Ask:
    """An ask from the words of an address: its own, and constants."""
    known = {name: words.pop(name) for name in list(words) if name in Ask.model_fields}
    if "input" in known or "constants" in known:
        raise InvalidInput("address", "constants by their names, the input as body", "others")
    ask: Ask = parse(Ask, json.dumps({**known, "constants": words}))
    return ask


def _check_size(task: Task, wants_npy: bool) -> None:
    problem = task.problem
    size = int(np.prod(problem.equation.solution_shape(problem.resolution)))
    if not wants_npy and size > LARGEST_JSON:
        raise InvalidInput("accept", f"{NPY} for an answer of {size} numbers", JSON)


async def _unless_gone(
    request: Request, service: Service, task: Task
) -> tuple[Outcome, dict[str, Any]]:
    """The outcome, unless the client leaves: then the solve is left, too."""
    method = watched(service.models, task)
    solving = asyncio.create_task(service.solve(task, method, with_truth=False))
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({solving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not solving.done():
            solving.cancel()
        return await solving
    finally:
        leaving.cancel()
        if not solving.done():
            solving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(outcome: Outcome, found: dict[str, Any], wants_npy: bool) -> Response:
    u = outcome.solution.tensor[0, 0].double().numpy()
    if wants_npy:
        return Response(write_npy(u), media_type=NPY, headers={"X-Ens-Verdict": json.dumps(found)})
    finite = np.where(np.isfinite(u), u, 0.0) if not np.isfinite(u).all() else u
    text = json.dumps({**found, "u": finite.tolist()}, allow_nan=False)
    return Response(text, media_type=JSON)
