"""The server as a process: how it starts, how it stops, and two of its workers side by side."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed

from neuralsolver.cli import run
from tests.serve.running import JSON, SLOW, messages, of_type, process


def test_a_server_without_a_queue_that_is_told_to_stop():
    with process("--waiting", "0") as (child, server), server.stream() as stream:
        stream.send(json.dumps(SLOW))
        messages(stream, last="begun")
        child.send_signal(signal.SIGTERM)
        (refused,) = of_type(messages(stream, seconds=20), "refused")
        assert refused["field"] == "stopping"
        with pytest.raises(ConnectionClosed) as closed:
            stream.recv(timeout=20)
        assert closed.value.rcvd.code == 1012
        assert child.wait(15) == 0
        assert child.stderr.read() == ""


def test_a_signal_to_stop_answers_what_is_solved_and_what_waits():
    """Flows whose steps and reference solutions take long are left in the middle of one."""
    flow = {"equation": "kolmogorov", "grid": 128, "mode": "plain", "steps": 300}
    answers: list[tuple[int, str]] = []
    with process("--solves", "2") as (child, server):

        def client() -> None:
            body, accept = json.dumps(flow), {**JSON, "Accept": "application/x-npy"}
            status, _, content = server.request("POST", "/solve", body, accept)
            answers.append((status, json.loads(content)["error"]["field"]))

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        server.until(lambda: server.get("/healthz")["waiting"] == 2)
        child.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(30)
        assert answers == [(503, "stopping")] * 4
        assert child.wait(15) == 0
        assert child.stderr.read() == ""


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
    assert run(["serve", "--host", "0.0.0.0", "--allow-remote"]) == 1
    assert "--name" in capsys.readouterr().err


def test_a_taken_port_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "neuralsolver.cli", "serve", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"127.0.0.1:{port}" in done.stderr
