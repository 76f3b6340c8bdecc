"""How the application is run: uvicorn with the bounds of the service.

A signal to stop closes the streams, gives what is being solved a few seconds, and ends with exit
code 0. A peer that acknowledges nothing is given up by the system itself: a client that has
stopped reading cannot hold a connection for ever.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from neuralsolver.serve.limits import Limits

GRACE_SECONDS = 5
"""After a signal to stop, what is being solved has this long to finish."""
UNANSWERED_MILLISECONDS = 30_000
"""A peer that acknowledges nothing for this long is gone."""


def configure(
    app: Any, limits: Limits, host: str = "127.0.0.1", port: int = 0, workers: int = 1
) -> uvicorn.Config:
    """The settings of the server, for an application or the name of the function that makes it."""
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=host,
        port=port,
        workers=workers,
        ws="websockets-sansio",
        ws_max_size=limits.body_bytes,
        ws_per_message_deflate=False,
        limit_concurrency=2 * limits.connections + limits.waiting,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=GRACE_SECONDS,
        log_level="warning",
        server_header=False,
    )


def listen(config: uvicorn.Config) -> socket.socket:
    """The listening socket; those it accepts inherit its settings.

    Whoever comes while the models are being loaded waits instead of being turned away.
    """
    listening = config.bind_socket()
    listening.listen(config.backlog)
    with suppress(AttributeError, OSError):  # not every system has it
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MILLISECONDS)
    return listening


def run(host: str, port: int, workers: int, ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; `ready` is told the address."""
    limits = Limits.from_environment()
    config = configure("neuralsolver.serve.app:create", limits, host, port, workers)
    listening = listen(config)
    ready(f"http://{host}:{listening.getsockname()[1]}/")
    # uvicorn raises the signal again when all is closed; by then it has been obeyed
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with suppress(KeyboardInterrupt):
        if workers > 1:
            Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])
