"""Three problems as the page tells them: sensors, a wave and a field of wells.

    POST /sensors  a hidden field seen by a few sensors: the exact posterior of the equation's own
                   random fields, so that what is shown is what can be known
    POST /waves    a beam in a random medium that it changes itself; Newton's method from the
                   linear wave, and from the iterate of a network
    POST /wells    heads in wells, and the probability of the rock after each correction,
                   beside an ensemble smoother

Each answers with one binary frame. Seconds are CPU seconds of the thread that solves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from neuralsolver.data.instances import INSTANCE_KEY
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.data.wave_media import beam, random_medium
from neuralsolver.equations import Problem, equation_named
from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.inversion.ens import network_view, probability
from neuralsolver.inversion.ensemble import smooth_ensemble
from neuralsolver.inversion.forward import HeadModel, WellData
from neuralsolver.inversion.invert_field import shipped_corrector
from neuralsolver.inversion.priors import Prior
from neuralsolver.samplers import ExactPosterior
from neuralsolver.serve.frames import encode_frame, shown
from neuralsolver.serve.http_api import body_of, unless_gone
from neuralsolver.serve.requests import LARGEST_SEED, parse
from neuralsolver.serve.service import Service
from neuralsolver.solvers.norms import relative_error
from neuralsolver.solvers.sparse_lu import SingularMatrix
from neuralsolver.solvers.wave_newton import WaveAnswer, anderson, damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import WaveOperator
from neuralsolver.solvers.wave_solver import corrected
from neuralsolver.training.library import shipped_wave_corrector

GRID = 64
POINTS_PER_WAVELENGTH, CONTRAST, LARGEST_STRENGTH = 8.0, 0.3, 1.5
MOST_SENSORS, MOST_SAMPLES, DRAWN_SAMPLES = 200, 64, 3
MOST_WELLS, MEMBERS, ASSIMILATIONS, SOURCE = 100, 100, 4, 1.0

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Place = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2, max_length=2)]


class Story(BaseModel):
    """What all three are asked."""

    model_config = ConfigDict(extra="forbid")

    seed: Annotated[Seed, Field(description="Of what is random, and hidden.")] = 0


class SensorsRequest(Story):
    """Which field is hidden, and where it is seen."""

    equation: Literal["helmholtz", "poisson", "darcy"] = "helmholtz"
    see: Annotated[
        Literal["input", "solution"], Field(description="Which field the sensors see.")
    ] = "input"
    places: Annotated[list[Place], FailFast(), Field(min_length=1, max_length=MOST_SENSORS)]
    samples: Annotated[int, Field(ge=2, le=MOST_SAMPLES)] = 32


class WaveRequest(Story):
    """A random medium, a random beam, and how strongly the beam changes the medium."""

    medium: Literal["smooth", "blocky", "ellipses"] = "smooth"
    strength: Annotated[float, Field(ge=0, le=LARGEST_STRENGTH, description="ε")] = 0.5


class WellsRequest(Story):
    """A hidden rock, and the wells in which heads are measured."""

    prior: Literal["two-phase", "channels", "ellipses"] = "channels"
    noise: Annotated[float, Field(ge=0, le=0.1, description="In units of the rms head.")] = 0.01
    places: Annotated[list[Place], FailFast(), Field(min_length=1, max_length=MOST_WELLS)]


def reconstruct(request: SensorsRequest) -> bytes:
    """The frame that answers a request: the fields, how far the mean is off, and the sensors."""
    equation = equation_named(request.equation)
    hidden = Problem.random(equation, GRID, seed=request.seed, key=INSTANCE_KEY).inputs
    solution = torch.from_numpy(solve_reference(equation, hidden.numpy()).solution)
    name = equation.input_names[0] if request.see == "input" else "solution"
    seen = (hidden if request.see == "input" else solution)[0, 0].numpy()
    index = np.rint(np.array(request.places) * (GRID - 1)).astype(int)
    found = Sensors(index / (GRID - 1), name, seen[index[:, 0], index[:, 1]])
    observed = Observed(equation, GRID, found)
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
    return _frame(numbers, fields)


def follow_beam(request: WaveRequest) -> bytes:
    """Solve one wave by each method and encode what they found."""
    rng = np.random.default_rng(request.seed)
    slowness = random_medium(rng, GRID, request.medium, CONTRAST, POINTS_PER_WAVELENGTH)
    wavenumber = 2 * math.pi * (GRID - 1) / POINTS_PER_WAVELENGTH
    source = beam(rng, GRID, POINTS_PER_WAVELENGTH)
    problem = WaveOperator(slowness, source, wavenumber, request.strength)
    problem, factor, linear, _ = problem.normalised()
    fields = {"medium": slowness, "linear": np.abs(problem.embed(linear))}
    network = shipped_wave_corrector()
    if network is None:
        raise InvalidInput("weights", "those of the waves, which are not installed", "none")

    def from_network() -> WaveAnswer:
        start, _ = corrected(network, problem, factor, linear)
        fields["network"] = np.abs(problem.embed(start))
        return newton_krylov(problem, start)

    methods: dict[str, Callable[[], WaveAnswer]] = {
        "anderson": lambda: anderson(problem, factor, linear),
        "newton": lambda: newton_krylov(problem, linear, preconditioner="frozen", factor=factor),
        "damped": lambda: damped_newton(problem, linear),
        "network": from_network,
    }
    told = []
    for name, method in methods.items():
        begin = time.thread_time()
        try:
            answer: WaveAnswer | None = method()
        except SingularMatrix:
            answer = None
        row: dict[str, Any] = {"name": name, "seconds": time.thread_time() - begin}
        row["converged"] = answer is not None and answer.converged
        if answer is not None:
            row["factorisations"] = answer.factorisations
            row["residual"] = answer.residual if math.isfinite(answer.residual) else None
            if answer.converged:
                fields.setdefault("answer", np.abs(problem.embed(answer.u)))
        told.append(row)
    return _frame({"methods": told, "strength": request.strength}, fields)


def find_rock(request: WellsRequest) -> bytes:
    """Draw a rock, measure heads, and invert them by the network and by an ensemble."""
    rng = np.random.default_rng([request.seed, 7])
    prior = Prior(request.prior)
    truth = prior.draw(rng, GRID)[0]
    places = np.array(request.places)
    heads = HeadModel(places, GRID, SOURCE).heads(truth[None])[0]
    size = float(np.sqrt(np.mean(heads**2))) or 1.0
    noise = np.full(len(heads), request.noise * size)
    seen = heads + noise * rng.standard_normal(len(heads))
    no_cores = (np.zeros((0, 2), np.int64), np.zeros(0))
    data = WellData(prior, GRID, SOURCE, places, seen, noise, *no_cores)
    high = truth > math.sqrt(prior.low * prior.high)
    fields = {"truth": high.astype(float)}
    numbers: dict[str, Any] = {"wells": len(places), "noise": request.noise}

    network, steps = shipped_corrector(), list[Any]()
    begin = time.thread_time()
    view = network_view(network, data)
    probability(network, *view, observe=lambda logit: steps.append(logit.sigmoid().numpy()))
    numbers["network"] = {"seconds": time.thread_time() - begin, "corrections": len(steps)}
    fields |= {f"correction {k}": step for k, step in enumerate(steps, 1)}

    begin = time.thread_time()
    ensemble = smooth_ensemble(data, MEMBERS, ASSIMILATIONS, seed=request.seed)
    numbers["ensemble"] = {
        "seconds": time.thread_time() - begin,
        "forward_solves": MEMBERS * ASSIMILATIONS,
    }
    fields["ensemble"] = (ensemble > math.sqrt(prior.low * prior.high)).mean(0)
    for name, found in (("network", steps[-1]), ("ensemble", fields["ensemble"])):
        numbers[name]["wrong"] = float(np.mean((found > 0.5) != high))
    numbers["wrong"] = [float(np.mean((step > 0.5) != high)) for step in steps]
    return _frame(numbers, fields)


def _frame(numbers: dict[str, Any], fields: dict[str, Any]) -> bytes:
    return encode_frame(numbers, {name: shown(np.asarray(field)) for name, field in fields.items()})


def _route(path: str, kind: type[Story], work: Callable[[Any], bytes]) -> None:
    async def answer(request: Request) -> Response:
        service: Service = request.app.state.service
        asked = await service.read(parse, kind, await request.body(), 4 * MOST_SENSORS)
        frame = await unless_gone(request, service.compute(lambda call: work(asked)))
        return Response(frame, media_type="application/octet-stream")

    routes.add_api_route(
        path,
        answer,
        methods=["POST"],
        tags=["stories"],
        name=path[1:],
        description=work.__doc__,
        response_class=Response,
        openapi_extra=body_of(kind),
    )


routes = APIRouter()
_route("/sensors", SensorsRequest, reconstruct)
_route("/waves", WaveRequest, follow_beam)
_route("/wells", WellsRequest, find_rock)
