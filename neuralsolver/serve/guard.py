"""The gate in front of the application: sizes, origins, hosts and headers.

body      refused by its announced length, and again while it is read, because the announcement
          may be missing or a lie
host      on a loopback address only its own names are answered: a foreign name that has been
          pointed at this machine must not read from it
origin    a browser names the page that sends a request; only our own page may send one
headers   the page may load from its own host and from nowhere else, and may not be framed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neuralsolver.serve.limits import Limits
from neuralsolver.serve.metrics import Metrics

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # a module that a browser has kept may not fit those of a newer page: it is to ask each time
    "Cache-Control": "no-cache",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
REFUSED_STREAM = 4403
"""Close code of a stream from a foreign page."""


def problem(status: int, field: str, expected: str, got: object) -> JSONResponse:
    """The one form of an error: the field, what was expected, what came."""
    message = f"{field}: expected {expected}, got {got}"
    body = {"error": {"field": field, "expected": expected, "got": str(got), "message": message}}
    return JSONResponse(body, status)


class TooLarge(Exception):
    """More bytes came than are allowed."""


class Guard:
    """The gate as ASGI middleware; `hosts` are the names it answers to, any when empty."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, hosts: Iterable[str] = ()
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if scope["type"] == "websocket":
            if refusal is None:
                await self.app(scope, receive, send)
            else:
                self.metrics.refused[refusal[1]] += 1
                await send({"type": "websocket.close", "code": REFUSED_STREAM})
            return
        if refusal is not None:
            status, field, expected, got = refusal
            self.metrics.refused[field] += 1
            await problem(status, field, expected, got)(scope, receive, _with_headers(send))
            return
        try:
            await self.app(scope, self._counted(receive), _with_headers(send))
        except TooLarge:
            self.metrics.refused["body"] += 1
            answer = problem(413, "body", self._allowance(), "more")
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str, str, object] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.hosts and name not in self.hosts:
            return 421, "host", f"one of {', '.join(sorted(self.hosts))}", name or "none"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "origin", "the page of this server", origin
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return 400, "content-length", "a number of bytes", length
        if int(length) > self.limits.body_bytes:
            return 413, "body", self._allowance(), f"{length} bytes"
        return None

    def _allowance(self) -> str:
        return f"at most {self.limits.body_bytes} bytes"

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.limits.body_bytes:
                raise TooLarge
            return message

        return counting


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
