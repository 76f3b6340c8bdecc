"""What one client may cost: every limit of the server, in one place.

A limit is a number and an environment variable (ENS_GRID, ENS_STEPS …; worker processes inherit
them). Beyond it a client gets an answer: HTTP 413 for too much, 422 for what makes no sense, 429
for a full queue, 408 for what came too slowly, 503 for too many connections. A solve that runs out
of time is no error: it returns what it has.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from neuralsolver.errors import InvalidInput

PREFIX = "ENS_"
Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ServerSettings(BaseSettings):
    """The limits of one process."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    grid: Count = 256
    """Grid points in each direction; flows have a cube of values and get half of it."""
    steps: Count = 300
    body_bytes: Count = 4_000_000
    """One request; 256 × 256 numbers in JSON are 1.3 million bytes."""
    held_bytes: Count = 64_000_000
    """Unfinished large bodies of all requests together."""
    solves: Count = 2
    """Solves at the same time; each takes one core."""
    waiting: Annotated[int, Field(ge=0)] = 64
    """Solves that wait for a place."""
    seconds: Seconds = 20.0
    """One solve with its reference solution; waiting is not counted."""
    connections: Count = 128
    """Open streams; ordinary requests get as many again."""
    connections_per_client: Count = 64
    """Streams of one address, and requests of one address."""
    header_seconds: Seconds = 5.0
    """A connection that has not sent a whole header by then is closed."""
    body_seconds: Seconds = 10.0
    first_message_seconds: Seconds = 30.0
    """A stream that asks for nothing is closed."""
    stall_seconds: Seconds = 10.0
    """How long a client may not read before its stream is closed."""

    @classmethod
    def make(cls, **values: object) -> ServerSettings:
        """Settings from the environment, replaced by the values given.

        Raises:
            InvalidInput: A value makes no sense; the message names it.
        """
        try:
            return cls(**values)  # type: ignore[arg-type]
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            name = field if field in values else PREFIX + field.upper()
            expected = str(first["msg"]).removeprefix("Input should be ")
            raise InvalidInput(name, expected, repr(first["input"])[:60]) from None

    def environment(self) -> dict[str, str]:
        """The same limits as variables for worker processes."""
        return {PREFIX + name.upper(): str(value) for name, value in self.model_dump().items()}

    @property
    def message_bytes(self) -> int:
        """One message of a stream: a field of float32 with its header."""
        return min(self.body_bytes, 4 * self.grid**2 + 65_536)
