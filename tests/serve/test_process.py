"""The server as a process: how it starts, how it stops, and two of its workers side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed

from neuralsolver.cli import run
from tests.serve.running import SLOW, Running, messages


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


def test_a_signal_to_stop_ends_a_solve_cleanly():
    with process() as (child, server), server.stream() as stream:
        stream.send(json.dumps(SLOW))
        messages(stream, last="begun")
        child.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            messages(stream, last="finished", seconds=20)
        assert closed.value.rcvd.code == 1012
        assert child.wait(15) == 0
        assert "Traceback" not in child.stderr.read()


@pytest.mark.slow
def test_two_workers_answer_and_stop_together():
    with process("--workers", "2", "--solves", "1") as (child, server):
        seen, end = set(), time.monotonic() + 30
        while len(seen) < 2:
            seen.add(server.get("/healthz")["process"])
            assert time.monotonic() < end, "only one worker answers"
        status, answer = server.solve(equation="poisson", tolerance=1e-6)
        assert (status, answer["status"]) == (200, "TOLERANCE")
        with server.stream() as stream:
            stream.send('{"equation": "poisson", "mode": "plain", "steps": 2}')
            messages(stream)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
    for number in seen:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_other_machines_are_reached_only_when_told(capsys):
    assert run(["serve", "--host", "0.0.0.0"]) == 1
    assert "--allow-remote" in capsys.readouterr().err
    assert run(["serve", "--allow-remote"]) == 1
    assert "--host" in capsys.readouterr().err
    assert run(["serve", "--grid", "0"]) == 1
    assert "--grid: expected a whole number" in capsys.readouterr().err
