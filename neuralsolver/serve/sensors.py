"""A hidden field seen by a few sensors: what is most likely, how sure that is, and what else fits.

The field is random, the places of the sensors come from the client, and the answer is the exact
posterior of the equation's own random fields: no network is asked, so what is shown is what can be
known. Samplers that learn the same are those of `ens reconstruct`.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any, Literal

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from neuralsolver.data.instances import INSTANCE_KEY
from neuralsolver.data.truth import truth
from neuralsolver.equations import Problem, equation_named
from neuralsolver.equations.sensors import FEWEST, Observed, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.evaluation.metrics import relative_error
from neuralsolver.samplers import ExactPosterior, Samples
from neuralsolver.serve.asks import LARGEST_SEED, parse
from neuralsolver.serve.fields import encode_frame, shown
from neuralsolver.serve.service import Service
from neuralsolver.serve.stream import in_thread

EQUATIONS = ("helmholtz", "poisson", "darcy")
"""Those with an exact posterior."""
RESOLUTION = 64
MOST_SENSORS, MOST_SAMPLES, DRAWN_SAMPLES = 200, 64, 3

Place = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2, max_length=2)]


class SensorsAsk(BaseModel):
    """Which field is hidden, and where it is seen."""

    model_config = ConfigDict(extra="forbid")

    equation: Literal["helmholtz", "poisson", "darcy"] = "helmholtz"
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED, description="Of the hidden field.")] = 0
    see: Annotated[
        Literal["input", "solution"], Field(description="Which field the sensors see.")
    ] = "input"
    places: Annotated[
        list[Place], Field(min_length=FEWEST, max_length=MOST_SENSORS, description="(r₁, r₂) each.")
    ]
    samples: Annotated[int, Field(ge=2, le=MOST_SAMPLES)] = 32


routes = APIRouter()


@routes.post(
    "/sensors",
    tags=["sensors"],
    response_class=Response,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": SensorsAsk.model_json_schema()}},
        }
    },
)
async def sensors(request: Request) -> Response:
    """Reconstruct a hidden field: truth, mean, spread and three samples, as one binary frame."""
    service: Service = request.app.state.service
    ask: SensorsAsk = parse(SensorsAsk, await request.body())
    async with service.places.place():
        frame = await in_thread(service.solving, threading.Event(), lambda: reconstruct(ask))
    return Response(frame, media_type="application/octet-stream")


def reconstruct(ask: SensorsAsk) -> bytes:
    """The frame of an ask."""
    equation = equation_named(ask.equation)
    hidden = Problem.random(equation, RESOLUTION, seed=ask.seed, key=INSTANCE_KEY).inputs
    solution = torch.from_numpy(truth(equation, hidden.numpy()).solution)
    name = equation.input_names[0] if ask.see == "input" else "solution"
    seen = (hidden if ask.see == "input" else solution)[0, 0].numpy()
    index = np.rint(np.array(ask.places) * (RESOLUTION - 1)).astype(int)
    found = Sensors(index / (RESOLUTION - 1), name, seen[index[:, 0], index[:, 1]])
    if len(found) < FEWEST:
        raise InvalidInput("places", f"at least {FEWEST} different ones", len(found))
    samples = ExactPosterior().sample(Observed(equation, RESOLUTION, found), ask.samples, ask.seed)
    return encode_frame(_numbers(samples, hidden, solution), _fields(samples, hidden, solution))


def _numbers(samples: Samples, hidden: torch.Tensor, solution: torch.Tensor) -> dict[str, Any]:
    """How near the mean is, how large the spread, and the sensors as a table."""
    means, spreads = samples.mean, samples.deviation
    numbers = {}
    for name, mean, spread, exact in zip(
        ("input", "solution"), means, spreads, (hidden, solution), strict=True
    ):
        size = float(exact.square().mean().sqrt())
        numbers[name] = {
            "error": float(relative_error(mean[None, None], exact)),
            "spread": float(spread.square().mean().sqrt()) / size,
        }
    return {
        **numbers,
        "seconds": samples.seconds,
        "samples": len(samples),
        "sensors": len(samples.observed.sensors),
        "residual": float(samples.relative_residual.max()),
        "table": samples.observed.sensors.table(),
    }


def _fields(samples: Samples, hidden: torch.Tensor, solution: torch.Tensor) -> dict[str, Any]:
    fields = {"input truth": hidden[0, 0], "solution truth": solution[0, 0]}
    for name, drawn, mean, spread in zip(
        ("input", "solution"),
        (samples.inputs, samples.solutions),
        samples.mean,
        samples.deviation,
        strict=True,
    ):
        fields |= {f"{name} mean": mean, f"{name} spread": spread}
        chosen = drawn[:DRAWN_SAMPLES, 0]
        fields |= {f"{name} sample {i}": sample for i, sample in enumerate(chosen, 1)}
    return {name: shown(values.numpy()) for name, values in fields.items()}
