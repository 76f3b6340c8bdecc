"""A server in this process, and clients that do what clients do."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from websockets.sync.client import ClientConnection, connect

from neuralsolver.cancellation import checkpoint
from neuralsolver.serve.app import make_app
from neuralsolver.serve.frames import decode_frame
from neuralsolver.serve.http_server import configure
from neuralsolver.serve.settings import ServerSettings

RESULTS = Path(__file__).parents[2] / "results" / "desk"
JSON = {"Content-Type": "application/json"}
SLOW = {"equation": "darcy", "grid": 256, "mode": "plain", "steps": 300}
"""Several seconds of solving, if nobody leaves."""


@dataclass
class Running:
    """A server that answers on a port of this machine."""

    port: int
    service: Any
    streams: Any = None

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, _, body = self.request("GET", path)
        assert status == 200, (path, status, body[:300])
        return json.loads(body)

    def solve(self, **ask: Any) -> tuple[int, Any]:
        status, _, body = self.request("POST", "/solve", json.dumps(ask), JSON)
        return status, json.loads(body)

    def ask_and_leave(self, path: str, body: str) -> socket.socket:
        """A request whose answer nobody reads; the client leaves when this is closed."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n{body}".encode())
        return connection

    def stream(self, **options: Any) -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{self.port}/stream",
            max_size=None,
            compression=None,
            close_timeout=1,
            **options,
        )

    def metric(self, name: str) -> float:
        _, _, body = self.request("GET", "/metrics")
        lines = [line for line in body.decode().splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def until(self, condition: Any, seconds: float = 20.0) -> None:
        """Wait until something is so."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it never was so"
            time.sleep(0.02)


@contextmanager
def running(settings: ServerSettings | None = None, results: Path = RESULTS) -> Iterator[Running]:
    """A server for as long as the context lasts."""
    settings = settings or ServerSettings()
    app = make_app(settings, results)
    server = uvicorn.Server(configure(app, settings))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < end, "the server did not start in time"
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Running(port, app.state.service, app.state.streams)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def process(*options: str) -> Iterator[tuple[subprocess.Popen[str], Running]]:
    """`ens serve` on a free port, ready."""
    command = [sys.executable, "-m", "neuralsolver.cli", "serve", "--port", "0", *options]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = child.stderr.readline()
        server = Running(int(line.split("127.0.0.1:")[1].split("/")[0]), None)
        server.until(lambda: _answers(server), 60)
        yield child, server
    finally:
        child.kill()
        child.wait()
        child.stderr.close()


def _answers(server: Running) -> bool:
    try:
        return server.request("GET", "/healthz")[0] == 200
    except OSError:
        return False


def messages(stream: ClientConnection, last: str = "finished", seconds: float = 60.0) -> list[Any]:
    """Everything that comes up to a message of a type; frames as (header, fields)."""
    found: list[Any] = []
    while True:
        data = stream.recv(timeout=seconds)
        found.append(decode_frame(data) if isinstance(data, bytes) else json.loads(data))
        if isinstance(found[-1], dict) and found[-1]["type"] == last:
            return found


class Never:
    """Work that ends only at a checkpoint, in place of the reference solver."""

    def __call__(self, problem: Any) -> None:
        while True:
            checkpoint()
            time.sleep(0.001)


def frames(found: list[Any]) -> list[Any]:
    return [item for item in found if isinstance(item, tuple) and item[0]["index"] >= 0]


def of_type(found: list[Any], kind: str) -> list[Any]:
    return [item for item in found if isinstance(item, dict) and item["type"] == kind]
