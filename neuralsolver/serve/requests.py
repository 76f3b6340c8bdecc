"""What a client asks for, checked before anything is computed.

A `SolveRequest` is the same words on the page's address, in `POST /solve` and on the stream.
`SolveJob` is what becomes of it: a problem and the options of its solve.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from neuralsolver.data.instances import random_problem
from neuralsolver.equations import Equation, Problem, equation_named
from neuralsolver.errors import InvalidInput
from neuralsolver.serve.catalogue import CATALOGUE, Entry
from neuralsolver.serve.frames import check_grid
from neuralsolver.serve.settings import ServerSettings
from neuralsolver.serve.solver_choices import Models

DEFAULT_TOLERANCE = 1e-10
DEFAULT_STEPS = 20
LARGEST_SEED = 2**32 - 1

MOST_NAMES = 64
"""Colons and quotes of a request; its own fields and constants need fewer."""
BRIEF = 60


class FirstErrorOnly(FailFast):
    """Checking stops at the first wrong item; hashable, so that it may stand in a union."""

    __hash__ = object.__hash__


Number = Annotated[float, Field(allow_inf_nan=False)]
Row = Annotated[list[Number], FirstErrorOnly(), Field(max_length=4096)]


class SolveRequest(BaseModel):
    """A problem and how to solve it; what is not said is chosen as `ens solve` would."""

    model_config = ConfigDict(extra="forbid")

    equation: Annotated[str, Field(max_length=64, description="Its name in GET /models.")]
    constants: Annotated[
        dict[str, Number],
        Field(max_length=16, description="Constants that differ from those of the training."),
    ] = {}
    input: Annotated[
        Annotated[list[Row], FirstErrorOnly(), Field(max_length=4096)] | None,
        Field(description="The input field, n lists of n numbers; without it a random one."),
    ] = None
    grid: Annotated[int, Field(ge=8, description="Points per direction of a random input.")] = 64
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED, description="Of a random input.")] = 0
    mode: Annotated[
        Literal["accelerated", "plain"],
        Field(description="plain: a number of corrections; accelerated: until the tolerance."),
    ] = "accelerated"
    steps: Annotated[int | None, Field(ge=0, description="Corrections of the plain mode.")] = None
    tolerance: Annotated[
        float | None,
        Field(gt=0, lt=1, description="Residual over that of the first guess, where it stops."),
    ] = None


class StreamRequest(SolveRequest):
    """A request on the stream: numbered by the client, with other methods to compare with."""

    id: Annotated[int, Field(ge=0, le=2**53)] = 0
    compare: Annotated[list[Annotated[str, Field(max_length=32)]], Field(max_length=12)] = []


@dataclass(frozen=True)
class SolveJob:
    """A problem with the options of its solve."""

    entry: Entry
    problem: Problem
    mode: Literal["accelerated", "plain"]
    steps: int
    tolerance: float | None

    @property
    def options(self) -> dict[str, float]:
        """Of a solve that stops by itself."""
        return {} if self.tolerance is None else {"tolerance": self.tolerance}


Request = TypeVar("Request", bound=BaseModel)


def parse(kind: type[Request], text: str | bytes, rows: int = 0) -> Request:
    """A request from JSON.

    What a text can contain is counted before it is read: a request has few names and, besides
    `rows` of numbers, few lists. Whatever passes is read and checked in milliseconds.

    Args:
        kind: The class of the request.
        text: JSON.
        rows: The most lists of numbers it may have.

    Raises:
        InvalidInput: It is no such request; the message names the first field that is wrong.
    """
    content = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if content.count(b"[") > rows + 8 or content.count(b"{") > 8:
        raise InvalidInput("input", f"at most {rows} lists of numbers", "more")
    if content.count(b",") > rows**2 + 4 * MOST_NAMES:
        raise InvalidInput("input", f"at most {rows} x {rows} numbers", "more")
    if content.count(b":") > MOST_NAMES or content.count(b'"') > 4 * MOST_NAMES:
        raise InvalidInput("request", f"at most {MOST_NAMES} names", "more")
    try:
        return kind.model_validate(json.loads(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:80] or "request"
        expected = first["msg"].removeprefix("Input should be ").lower()
        raise InvalidInput(place, expected, _brief(first.get("input"))) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput("request", "JSON", " ".join(str(error).split())[:120]) from None


def _brief(value: object) -> str:
    """A value in a few letters, however large it is."""
    if value is None:
        return "nothing"
    if isinstance(value, (list, dict, str)) and len(value) > BRIEF:
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)[:BRIEF]


def make_job(
    request: SolveRequest,
    models: Models,
    settings: ServerSettings,
    field: np.ndarray[Any, Any] | None = None,
) -> SolveJob:
    """The job of a request; a field that came as bytes takes the place of its input."""
    entry = CATALOGUE.get(request.equation)
    if entry is None or entry.name not in models.equations:
        expected = f"one of {', '.join(models.equations)}"
        raise InvalidInput("equation", expected, request.equation)
    equation = _equation(entry, request, models)
    if field is None and request.input is not None:
        field = _array(request.input)
    largest = settings.grid // 2 if entry.flow else settings.grid
    if field is None:
        check_grid((request.grid, request.grid), largest)
        problem = random_problem(equation, request.grid, request.seed)
    else:
        check_grid(field.shape, largest)
        problem = _given(entry, equation, field)
    models.main(entry.name).check(problem)
    steps = request.steps if request.steps is not None else DEFAULT_STEPS
    if steps > settings.steps:
        raise InvalidInput("steps", f"at most {settings.steps}", steps)
    tolerance = request.tolerance
    if tolerance is None and not entry.flow:
        tolerance = DEFAULT_TOLERANCE
    return SolveJob(entry, problem, request.mode, steps, tolerance)


def _equation(entry: Entry, request: SolveRequest, models: Models) -> Equation:
    """The equation of the model, with the constants that may be changed and were."""
    ranges = {constant.name: constant for constant in entry.constants}
    for name, value in request.constants.items():
        if name not in ranges:
            raise InvalidInput("constants", f"one of {', '.join(ranges)}", name[:40])
        low, high = ranges[name].low, ranges[name].high
        if not low <= value <= high:
            raise InvalidInput(name, f"a number from {low:g} to {high:g}", value)
    trained = models.main(entry.name).equation.constants()
    return equation_named(entry.name, {**trained, **request.constants})


def _array(rows: list[list[float]]) -> np.ndarray[Any, Any]:
    lengths = {len(row) for row in rows}
    if lengths != {len(rows)}:
        got = f"{len(rows)} rows of {' or '.join(map(str, sorted(lengths)[:4])) or 'no'} numbers"
        raise InvalidInput("input", "n lists of n numbers", got)
    return np.array(rows, dtype=np.float64)


def _given(entry: Entry, equation: Equation, field: np.ndarray[Any, Any]) -> Problem:
    """A problem with the field of a client: finite, and of a size the solvers are made for."""
    if not np.isfinite(field).all():
        count = int((~np.isfinite(field)).sum())
        raise InvalidInput(entry.given, "finite values", f"{count} NaN or infinite values")
    size = float(np.abs(field).max(initial=0.0))
    if size > entry.largest:
        raise InvalidInput(entry.given, f"values of at most {entry.largest:g}", f"{size:.3g}")
    if entry.brush == "phases" and not field.min() >= 1 / entry.largest:
        expected = f"values from {1 / entry.largest:g} on"
        raise InvalidInput(entry.given, expected, f"{field.min():.3g}")
    return Problem(equation, torch.from_numpy(np.ascontiguousarray(field, dtype=np.float64)))
