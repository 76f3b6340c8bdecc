"""What one client may cost: every bound of the service, in one place.

A bound is a number, an environment variable (ENS_GRID, ENS_STEPS …: worker processes inherit them)
and an answer: HTTP 413 for too much, 422 for what makes no sense, 429 for a full queue, 503 for too
many connections. Time does not lead to an error: a solve that runs out of it returns what it has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from neuralsolver.errors import InvalidInput

PREFIX = "ENS_"


@dataclass(frozen=True)
class Limits:
    """The bounds of one process."""

    grid: int = 256
    """Grid points in each direction; flows have a cube of values and get half of it."""
    steps: int = 300
    body_bytes: int = 4_000_000
    """One request or one message; 256 × 256 numbers in JSON are 1.3 million bytes."""
    solves: int = 2
    """Solves at the same time; each takes one core."""
    waiting: int = 64
    """Solves that wait for a place."""
    seconds: float = 20.0
    """Of one solve, waiting not counted."""
    connections: int = 128
    """Open streams; ordinary requests get as many again."""
    stall_seconds: float = 10.0
    """How long a client may not read before its stream is closed."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidInput(field.name, "a positive number", getattr(self, field.name))

    def environment(self) -> dict[str, str]:
        """The same bounds as variables for worker processes."""
        return {variable(field.name): str(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """Defaults, replaced by the variables that are set."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = environment.get(variable(field.name))
            if text is None:
                continue
            kind: type[int] | type[float] = float if field.type == "float" else int
            try:
                values[field.name] = kind(text)
            except ValueError:
                raise InvalidInput(variable(field.name), f"a value of {kind}", text) from None
        return cls(**values)


def variable(name: str) -> str:
    """The environment variable of a bound."""
    return PREFIX + name.upper()
