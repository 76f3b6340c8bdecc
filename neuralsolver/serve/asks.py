"""What a client asks for, checked before anything is computed.

An `Ask` is the JSON of a request: the same words on the page's address, in `POST /solve` and on the
stream. `Task` is what becomes of it: a problem and the options of its solve.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from neuralsolver.data.instances import random_problem
from neuralsolver.equations import Equation, Problem, equation_named
from neuralsolver.errors import InvalidInput
from neuralsolver.serve.catalogue import CATALOGUE, Entry
from neuralsolver.serve.fields import check_grid
from neuralsolver.serve.limits import Limits
from neuralsolver.serve.methods import Models

DEFAULT_TOLERANCE = 1e-10
DEFAULT_STEPS = 20
LARGEST_SEED = 2**32 - 1

Number = Annotated[float, Field(allow_inf_nan=False)]


class Ask(BaseModel):
    """A problem and how to solve it; what is not said is chosen as `ens solve` would."""

    model_config = ConfigDict(extra="forbid")

    equation: Annotated[str, Field(max_length=64, description="Its name in GET /models.")]
    constants: Annotated[
        dict[str, Number],
        Field(max_length=16, description="Constants that differ from those of the training."),
    ] = {}
    input: Annotated[
        list[list[Number]] | None,
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


class StreamAsk(Ask):
    """An ask on the stream: numbered by the client, with other methods to compare with."""

    id: Annotated[int, Field(ge=0, le=2**53)] = 0
    compare: Annotated[list[Annotated[str, Field(max_length=32)]], Field(max_length=12)] = []


@dataclass(frozen=True)
class Task:
    """A problem with the options of its solve."""

    entry: Entry
    problem: Problem
    mode: Literal["accelerated", "plain"]
    steps: int
    tolerance: float | None


def parse(kind: type[BaseModel], text: str | bytes) -> Any:
    """An ask from JSON; InvalidInput names the first field that is wrong."""
    try:
        return kind.model_validate(json.loads(text))
    except ValidationError as error:
        raise invalid(error.errors()) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput("request", "JSON", " ".join(str(error).split())[:120]) from None


def invalid(errors: Any) -> InvalidInput:
    """The first of pydantic's complaints as ours."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")[:80] or "request"
    expected = first["msg"].removeprefix("Input should be ").lower()
    got = first.get("input")
    return InvalidInput(place, expected, repr(got)[:60] if got is not None else "nothing")


def make_task(
    ask: Ask, models: Models, limits: Limits, field: np.ndarray[Any, Any] | None = None
) -> Task:
    """The task of an ask; a field that came as bytes takes the place of its input."""
    entry = CATALOGUE.get(ask.equation)
    if entry is None or entry.name not in models.equations:
        raise InvalidInput("equation", f"one of {', '.join(models.equations)}", ask.equation)
    equation = _equation(entry, ask, models)
    if field is None and ask.input is not None:
        field = _array(ask.input)
    largest = limits.grid // 2 if entry.flow else limits.grid
    if field is None:
        check_grid((ask.grid, ask.grid), largest)
        problem = random_problem(equation, ask.grid, ask.seed)
    else:
        check_grid(field.shape, largest)
        problem = _given(entry, equation, field)
    models.main(entry.name).check(problem)
    steps = ask.steps if ask.steps is not None else DEFAULT_STEPS
    if steps > limits.steps:
        raise InvalidInput("steps", f"at most {limits.steps}", steps)
    tolerance = ask.tolerance
    if tolerance is None and not entry.flow:
        tolerance = DEFAULT_TOLERANCE
    return Task(entry, problem, ask.mode, steps, tolerance)


def _equation(entry: Entry, ask: Ask, models: Models) -> Equation:
    """The equation of the model, with the constants that may be changed and were."""
    ranges = {constant.name: constant for constant in entry.constants}
    for name, value in ask.constants.items():
        if name not in ranges:
            raise InvalidInput("constants", f"one of {', '.join(ranges)}", name[:40])
        low, high = ranges[name].low, ranges[name].high
        if not low <= value <= high:
            raise InvalidInput(name, f"a number from {low:g} to {high:g}", value)
    trained = models.main(entry.name).equation.constants()
    return equation_named(entry.name, {**trained, **ask.constants})


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
