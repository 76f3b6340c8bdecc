"""A hidden field seen by a few sensors: what is most likely, how sure that is, and what else fits.

The field is random, the places of the sensors come from the client, and the answer is the exact
posterior of the equation's own random fields: no network is asked, so what is shown is what can be
known. Samplers that learn the same are those of `ens invert`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from neuralsolver.data.instances import INSTANCE_KEY
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Problem, equation_named
from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.samplers import ExactPosterior
from neuralsolver.serve.frames import encode_frame, shown
from neuralsolver.serve.http_api import body_of, unless_gone
from neuralsolver.serve.requests import LARGEST_SEED, parse
from neuralsolver.serve.service import Service
from neuralsolver.solvers.norms import relative_error

RESOLUTION = 64
MOST_SENSORS, MOST_SAMPLES, DRAWN_SAMPLES = 200, 64, 3

Place = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2, max_length=2)]


class ReconstructionRequest(BaseModel):
    """Which field is hidden, and where it is seen."""

    model_config = ConfigDict(extra="forbid")

    equation: Literal["helmholtz", "poisson", "darcy"] = "helmholtz"
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED, description="Of the hidden field.")] = 0
    see: Annotated[
        Literal["input", "solution"], Field(description="Which field the sensors see.")
    ] = "input"
    places: Annotated[list[Place], FailFast(), Field(min_length=1, max_length=MOST_SENSORS)]
    samples: Annotated[int, Field(ge=2, le=MOST_SAMPLES)] = 32


routes = APIRouter()


@routes.post(
    "/sensors",
    tags=["sensors"],
    response_class=Response,
    openapi_extra=body_of(ReconstructionRequest),
)
async def sensors(request: Request) -> Response:
    """Reconstruct a hidden field: truth, mean, spread and three samples, as one binary frame."""
    service: Service = request.app.state.service
    body = await request.body()
    asked = await service.read(parse, ReconstructionRequest, body, 4 * MOST_SENSORS)
    frame = await unless_gone(request, service.compute(lambda call: reconstruct(asked)))
    return Response(frame, media_type="application/octet-stream")


def reconstruct(request: ReconstructionRequest) -> bytes:
    """The frame that answers a request: the fields, how far the mean is off, and the sensors."""
    equation = equation_named(request.equation)
    hidden = Problem.random(equation, RESOLUTION, seed=request.seed, key=INSTANCE_KEY).inputs
    solution = torch.from_numpy(solve_reference(equation, hidden.numpy()).solution)
    name = equation.input_names[0] if request.see == "input" else "solution"
    seen = (hidden if request.see == "input" else solution)[0, 0].numpy()
    index = np.rint(np.array(request.places) * (RESOLUTION - 1)).astype(int)
    found = Sensors(index / (RESOLUTION - 1), name, seen[index[:, 0], index[:, 1]])
    observed = Observed(equation, RESOLUTION, found)
    samples = ExactPosterior().sample(observed, request.samples, request.seed)
    numbers: dict[str, Any] = {
        "seconds": samples.seconds,
        "samples": len(samples),
        "sensors": len(found),
        "residual": float(samples.relative_residual.max()),
        "table": found.table(),
    }
    fields: dict[str, torch.Tensor] = {}
    for name, truth, drawn, mean, spread in zip(
        ("input", "solution"),
        (hidden, solution),
        (samples.inputs, samples.solutions),
        samples.mean,
        samples.deviation,
        strict=True,
    ):
        numbers[name] = {
            "error": float(relative_error(mean[None, None], truth)),
            "spread": float((spread.square().mean() / truth.square().mean()).sqrt()),
        }
        fields |= {f"{name} truth": truth[0, 0], f"{name} mean": mean, f"{name} spread": spread}
        chosen = enumerate(drawn[:DRAWN_SAMPLES, 0], 1)
        fields |= {f"{name} sample {i}": sample for i, sample in chosen}
    return encode_frame(numbers, {key: shown(values.numpy()) for key, values in fields.items()})
