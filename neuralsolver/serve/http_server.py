"""How the application is run: uvicorn with the limits of the server.

A connection has to send a whole header in time. When there are too many connections, the one that
has been idle longest makes room, so a new client, a health check say, always gets in.

A signal to stop ends what is being solved at once; its clients are told. A peer that acknowledges
nothing is given up by the system itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.settings import ServerSettings

GRACE_SECONDS = 3
"""After a signal to stop, answers have this long to be read."""
UNANSWERED_MILLISECONDS = 30_000
"""A peer that acknowledges nothing for this long is gone."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for headers and a bound on idle connections."""

    _header_timer: asyncio.TimerHandle | None = None
    _begun = 0.0
    _upgraded = False

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for a new connection, and give it some seconds to send a header."""
        super().connection_made(transport)
        self._settings: ServerSettings = self.app_state["settings"]
        self._begun = self.loop.time()
        if len(self.connections) > 2 * self._settings.connections + 64:
            here = [each for each in self.connections if isinstance(each, BoundedProtocol)]
            idle = [each for each in here if each.idle]
            # those that have never asked for anything go first
            oldest = min(idle, key=lambda each: (each.cycle is not None, each._begun))
            oldest.transport.abort()
        self._watch_header()

    def data_received(self, data: bytes) -> None:
        """Read, and watch the time of a header that is not whole yet."""
        super().data_received(data)
        self._watch_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_header_timer()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Leave the connection to the stream."""
        self._upgraded = True
        super().handle_websocket_upgrade(event)

    def _watch_header(self) -> None:
        if not self.idle or self._upgraded:
            self._stop_header_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            seconds = self._settings.header_seconds
            self._header_timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def configure(
    app: Any, settings: ServerSettings, host: str = "127.0.0.1", port: int = 0, workers: int = 1
) -> uvicorn.Config:
    """The settings of uvicorn, for an application or the name of the function that makes it."""
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=host,
        port=port,
        workers=workers,
        http=BoundedProtocol,
        ws="websockets-sansio",
        ws_max_size=settings.message_bytes,
        ws_per_message_deflate=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=GRACE_SECONDS,
        log_level="warning",
        server_header=False,
    )


def listen(host: str, port: int, backlog: int = 2048) -> socket.socket:
    """The listening socket; those it accepts inherit its settings.

    Whoever comes while the models are being loaded waits instead of being turned away.

    Raises:
        InvalidInput: The address cannot be had.
    """
    six = ":" in host
    family, both = (socket.AF_INET6 if six else socket.AF_INET), six and socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server(
            (host, port), family=family, backlog=backlog, dualstack_ipv6=both
        )
    except OSError as error:
        got = f"{host}:{port} ({str(error.strerror).partition(' (while')[0]})"
        raise InvalidInput("--port", "a free port of this machine", got) from None
    listening.set_inheritable(True)
    with suppress(AttributeError, OSError):  # not every system has it
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MILLISECONDS)
    return listening


def on_signal(stop: Callable[[Callable[[], object]], object]) -> None:
    """Call `stop` when a signal to end comes, with what is done then: it is to be done at last."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handle(number: int, frame: Any, before: Any = before) -> None:
            stop(partial(before, number, frame) if callable(before) else int)

        signal.signal(number, handle)


def end_process() -> None:
    """Leave at once when a thread that cannot be interrupted is still at work."""
    if any(thread.name.startswith(("solve", "read")) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def run(host: str, port: int, workers: int, ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; `ready` is told the address."""
    settings = ServerSettings.make()
    config = configure("neuralsolver.serve.app:create", settings, host, port, workers)
    listening = listen(host, port, config.backlog)
    name = f"[{host}]" if ":" in host else host
    ready(f"http://{name}:{listening.getsockname()[1]}/")
    # uvicorn raises the signal again when all is closed; by then it has been obeyed
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with suppress(KeyboardInterrupt):
        if workers > 1:
            Multiprocess(config, sockets=[listening]).run()
        else:
            try:
                uvicorn.Server(config).run(sockets=[listening])
            finally:
                end_process()
