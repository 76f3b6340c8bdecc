"""The one form of an error, on HTTP and on the stream: field, what was expected, what came.

413 and 422 name what is wrong with a request, 408 what came too slowly, 429 a full queue, 503 a
server that is busy or stopping. Whatever nobody foresaw is logged once and is a 500 of this form.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from neuralsolver.errors import InvalidInput

log = logging.getLogger("neuralsolver.serve")


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, field: str, expected: str, got: object, headers: Any = None
    ) -> None:
        super().__init__(f"{field}: expected {expected}, got {got}")
        self.status, self.field, self.headers = status, field, headers
        self.content = {"field": field, "expected": expected, "got": str(got), "message": str(self)}

    def response(self) -> Response:
        """The answer on HTTP."""
        headers = dict(self.headers or {})
        headers |= {"Retry-After": "2"} if self.status in (429, 503) else {}
        headers |= {"Connection": "close"} if self.status in (408, 503) else {}
        body = json.dumps({"error": self.content})
        return Response(body, self.status, headers, "application/json")


class QueueFull(Refused):
    """No place and no room to wait."""

    def __init__(self, waiting: int) -> None:
        got = f"none, and {waiting} solves are waiting; try again soon"
        super().__init__(429, "queue", "a free place", got)


class ServerStopping(Refused):
    """The server ends, and so does the work."""

    def __init__(self) -> None:
        super().__init__(503, "stopping", "a running server", "one that stops; try again soon")


class OutOfTime(Refused):
    """The work took longer than it may, and has nothing to show for it."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(503, "time", f"an answer within {seconds:g} s", "none")


def refusal(error: Exception) -> Refused:
    """What a client is told of an exception."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, InvalidInput):
        return Refused(422, error.field, error.expected, error.got)
    if isinstance(error, HTTPException):
        expected = "one of GET /openapi.json"
        return Refused(error.status_code, "address", expected, error.detail, error.headers)
    log.error("unforeseen", exc_info=error)
    return Refused(500, "server", "to know what to do", "a fault of ours, which has been noted")
