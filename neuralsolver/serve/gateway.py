"""The gate in front of the application: sizes, times, clients, origins, hosts and headers.

body      refused by its announced length, and again while it is read; it has to arrive in time,
          and all unfinished large bodies together are bounded
clients   requests are bounded per address and in all; /healthz and /metrics are always answered
host      only known names are answered: a foreign name that has been pointed at this machine must
          not read from it
origin    a browser names the page that sends a request; only our own page may send one
headers   the page may load from its own host and from nowhere else, and may not be framed
errors    all are answered in one form (`refusals`)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neuralsolver.serve.refusals import Refused, refusal
from neuralsolver.serve.service import Telemetry
from neuralsolver.serve.settings import ServerSettings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
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
ALWAYS = ("/healthz", "/metrics")
FOREIGN_PAGE, UNFORESEEN = 4403, 1011
"""Close codes of a stream from a foreign page, and of one that met a fault of ours."""
SMALL_BODY = 65_536
"""Bodies up to this size are not counted among those that are held."""


class Gateway:
    """The gate as ASGI middleware; `hosts` are the names it answers to."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        telemetry: Telemetry,
        hosts: Iterable[str],
    ) -> None:
        self.app, self.settings, self.telemetry = app, settings, telemetry
        self.hosts = frozenset(hosts)
        self.allowed = f"at most {settings.body_bytes} bytes"
        self.active: Counter[str] = Counter()
        """Requests under way, by address."""
        self.held = 0
        """Bytes of unfinished large bodies."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope)
            await self.app(scope, receive, send)
        except Exception as error:
            refused = refusal(error)
            self.telemetry.refused(refused.field)
            code = UNFORESEEN if refused.status == 500 else FOREIGN_PAGE
            await send({"type": "websocket.close", "code": code})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            self._check(scope)
            with self._place(scope):
                await self.app(scope, self._bounded(receive), noting)
        except ClientDisconnect:
            return
        except Exception as error:
            refused = refusal(error)
            self.telemetry.refused(refused.field)
            if not begun:
                await refused.response()(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name not in self.hosts:
            raise Refused(421, "host", f"one of {', '.join(sorted(self.hosts))}", name or "none")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, "origin", "the page of this server", origin)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise Refused(400, "content-length", "a number of bytes", length)
        if int(length[:20]) > self.settings.body_bytes:
            raise Refused(413, "body", self.allowed, f"{length[:20]} bytes")

    @contextmanager
    def _place(self, scope: Scope) -> Iterator[None]:
        client = client_of(scope)
        if scope["path"] in ALWAYS:
            yield
            return
        if self.active.total() >= self.settings.connections:
            raise Refused(503, "connections", "a free place", "too many requests at once")
        if self.active[client] >= self.settings.connections_per_client:
            raise Refused(503, "connections", "fewer requests at once", "too many of your address")
        self.active[client] += 1
        try:
            yield
        finally:
            self.active[client] -= 1
            self.active = +self.active

    def _bounded(self, receive: Receive) -> Receive:
        """`receive` with bounds on the size of the body, its time, and what all bodies hold."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.body_seconds
        seen, held, complete = 0, 0, False

        async def bounded() -> Message:
            nonlocal seen, held, complete
            if complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(end - loop.time(), 0.001))
                seen += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                if seen > self.settings.body_bytes:
                    raise Refused(413, "body", self.allowed, "more")
                if seen > SMALL_BODY and not complete:
                    self.held, held = self.held + seen - held, seen
                    if self.held > self.settings.held_bytes:
                        raise Refused(503, "body", "a free place", "too many large bodies at once")
            except TimeoutError:
                complete = True
                expected = f"the whole body within {self.settings.body_seconds:g} s"
                raise Refused(408, "time", expected, f"{seen} bytes") from None
            except BaseException:
                complete = True
                raise
            finally:
                if complete:
                    self.held, held = self.held - held, 0
            return message

        return bounded


def client_of(scope: Scope) -> str:
    """The address a request comes from; behind a proxy that is trusted, the one it names."""
    return str((scope.get("client") or ("unknown",))[0])


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
