"""What stops a careless server: each attack of the audit, and the answer it gets now."""

from __future__ import annotations

import json
import logging
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.frames import encode_frame
from neuralsolver.serve.requests import SolveRequest, parse
from neuralsolver.serve.settings import ServerSettings
from tests.serve.running import JSON, SLOW, messages, of_type, process, running

STRICT = ServerSettings(
    header_seconds=0.4,
    body_seconds=0.4,
    first_message_seconds=0.4,
    connections=8,
    connections_per_client=4,
    held_bytes=1_000_000,
)
LARGE = {
    "strings": '{"equation": "helmholtz", "input": [' + ", ".join(['["x"]'] * 500_000) + "]}",
    "lists": '{"equation": "helmholtz", "input": [' + ", ".join(["[]"] * 900_000) + "]}",
    "names": "{" + ", ".join(f'"k{i}": 1' for i in range(250_000)) + "}",
}


@pytest.fixture(scope="module")
def strict():
    with running(STRICT) as found:
        yield found


@pytest.mark.parametrize("name", LARGE)
def test_what_a_body_contains_is_counted_before_it_is_read(name, monkeypatch):
    def never(*arguments):
        raise AssertionError("it was read")

    monkeypatch.setattr(json, "loads", never)
    with pytest.raises(InvalidInput, match="at most"):
        parse(SolveRequest, LARGE[name], 256)


@pytest.mark.parametrize("name", LARGE)
def test_a_large_body_is_refused(server, name):
    status, _, body = server.request("POST", "/solve", LARGE[name], JSON)
    assert status == 422
    assert json.loads(body)["error"]["message"]


@pytest.fixture(scope="module")
def attacked():
    """A server in a process of its own, which must not have said anything in the end."""
    with process() as (child, found):
        yield found
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
        assert child.stderr.read() == ""


@pytest.mark.parametrize("name", LARGE)
def test_others_are_answered_while_a_large_body_is_refused(attacked, name):
    """Compared with merely reading the text; checking all of it took 150 times as long."""
    begin = time.perf_counter()
    json.loads(LARGE[name])
    reading = time.perf_counter() - begin
    with ThreadPoolExecutor(4) as clients:
        send = ("POST", "/solve", LARGE[name], JSON)
        attacks = [clients.submit(attacked.request, *send) for _ in range(4)]
        waits = []
        while not waits or not all(attack.done() for attack in attacks):
            begin = time.perf_counter()
            assert attacked.get("/healthz")["status"] == "ok"
            waits.append(time.perf_counter() - begin)
    assert [attack.result()[0] for attack in attacks] == [422] * 4
    assert max(waits) < 30 * max(reading, 0.1)


def test_three_hundred_idle_connections_keep_nobody_out(attacked):
    with attacked.stream() as stream:
        stream.send('{"equation": "poisson", "mode": "plain", "steps": 1}')
        messages(stream)
        idle = [socket.create_connection(("127.0.0.1", attacked.port)) for _ in range(400)]
        assert attacked.get("/healthz")["status"] == "ok"
        assert attacked.solve(equation="poisson", tolerance=1e-4)[0] == 200
        # who was there before is still served
        stream.send('{"equation": "poisson", "mode": "plain", "steps": 1}')
        assert of_type(messages(stream), "done")
        for each in idle:
            each.close()


def test_a_hundred_unfinished_bodies_are_not_held(attacked):
    before = attacked.metric("process_resident_memory_bytes")
    slow = unfinished(attacked, 100, 3_900_000)
    assert attacked.solve(equation="poisson", tolerance=1e-4)[0] in (200, 503)
    assert attacked.metric("process_resident_memory_bytes") - before < 200e6
    for each in slow:
        each.close()
    attacked.until(lambda: attacked.solve(equation="poisson", tolerance=1e-4)[0] == 200)


def test_clients_that_leave_are_not_worth_a_word(attacked):
    """The fixture reads what the process has said: nothing."""
    body = json.dumps(SLOW)
    for _ in range(3):
        with attacked.ask_and_leave("/solve", body):
            attacked.until(lambda: attacked.get("/healthz")["running"] == 1)
        attacked.until(lambda: attacked.get("/healthz")["running"] == 0)
        with attacked.stream() as stream:
            stream.send(body)
            messages(stream, last="begun")
            stream.socket.shutdown(socket.SHUT_RDWR)
        attacked.until(lambda: attacked.get("/healthz")["running"] == 0)


def test_checking_stops_at_the_first_error():
    rows = json.dumps({"equation": "poisson", "input": [["x"] * 200] * 200})
    with pytest.raises(InvalidInput, match=r"request: expected at most 64 names"):
        parse(SolveRequest, rows, 256)
    rows = json.dumps({"equation": "poisson", "input": [[None] * 200] * 200})
    with pytest.raises(InvalidInput, match=r"input\.0\.0: expected a valid number"):
        parse(SolveRequest, rows, 256)


def closed(connection: socket.socket) -> bool:
    """Wait until the server has closed a connection; False where it answers something."""
    connection.settimeout(20)
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def test_a_header_that_never_ends_is_left(strict):
    for begin in (b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
        with socket.create_connection(("127.0.0.1", strict.port)) as idle:
            idle.sendall(begin)
            assert closed(idle)


def test_idle_connections_keep_nobody_out(strict):
    idle = [socket.create_connection(("127.0.0.1", strict.port)) for _ in range(120)]
    try:
        assert strict.get("/healthz")["status"] == "ok"
        assert strict.solve(equation="poisson", tolerance=1e-4)[0] == 200
    finally:
        for each in idle:
            each.close()


def unfinished(server, count: int, size: int) -> list[socket.socket]:
    """Requests that announce a body, send most of it, and stop."""
    opened = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", server.port))
        head = f"POST /solve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size + 100}\r\n"
        with suppress(OSError):  # it may be refused before all is sent
            text = f"{head}Content-Type: application/json\r\n\r\n".encode() + b" " * size
            connection.sendall(text)
        opened.append(connection)
    return opened


def test_a_body_that_never_ends_is_answered_and_left(strict):
    (slow,) = unfinished(strict, 1, 1000)
    slow.settimeout(20)
    answer = b""
    with slow:
        while piece := slow.recv(4000):
            answer += piece
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert b'"field": "time"' in answer


def test_unfinished_bodies_together_are_bounded():
    with running(ServerSettings(held_bytes=1_000_000, body_seconds=20)) as server:
        slow = unfinished(server, 6, 300_000)
        answers = []
        for connection in slow:
            connection.settimeout(0.5)
            try:
                answers.append(connection.recv(4000).split(b"\r\n")[0])
            except TimeoutError:
                answers.append(b"")
        assert sum(b" 503 " in each for each in answers) >= 3
        assert server.solve(equation="poisson", tolerance=1e-4)[0] == 200
        for connection in slow:
            connection.close()


def test_one_address_has_a_share_of_the_requests_and_health_checks_a_reserve():
    settings = ServerSettings(connections_per_client=3, body_seconds=20)
    with running(settings) as server:
        slow = unfinished(server, 3, 10)
        server.until(lambda: server.solve(equation="poisson")[0] == 503)
        assert server.get("/healthz")["status"] == "ok"
        assert server.metric('ens_refused_total{field="connections"}') >= 1
        for connection in slow:
            connection.close()
        server.until(lambda: server.solve(equation="poisson", tolerance=1e-4)[0] == 200)


def test_a_stream_that_asks_for_nothing_is_left(strict):
    with strict.stream() as stream, pytest.raises(ConnectionClosed) as ended:
        stream.recv(timeout=20)
    assert ended.value.rcvd.code == 1000
    assert "nothing was asked" in ended.value.rcvd.reason


def npy(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("origin", ["http://[", "null", "x", "http://\u00e9", "://"])
def test_origins_that_are_no_address(server, origin):
    headers = {**JSON, "Origin": origin.encode("latin-1")}
    status, _, body = server.request("POST", "/solve", '{"equation": "poisson"}', headers)
    assert (status, json.loads(body)["error"]["field"]) == (403, "origin")


@pytest.mark.parametrize("shape", ["(0, 0)", "(-64, -64)", "(True, True)"])
def test_shapes_that_are_none(server, shape):
    headers = {"Content-Type": "application/x-npy"}
    status, _, body = server.request("POST", "/solve?equation=poisson", npy(shape), headers)
    assert (status, json.loads(body)["error"]["field"]) == (422, "input")


def test_half_a_character_as_a_name(server):
    status, answer = server.solve(equation="helmholtz", constants={"\ud800": 1})
    assert (status, answer["error"]["field"]) == (422, "constants")


def test_an_empty_frame_is_answered(server):
    with server.stream() as stream:
        stream.send(encode_frame({"equation": "darcy"}, {"input": np.zeros((0, 0), np.float32)}))
        (refused,) = of_type(messages(stream), "refused")
    assert refused["field"] == "input"


def test_the_unforeseen_has_the_form_of_all_errors(server, monkeypatch, caplog):
    def broken(name):
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr(server.service.models, "main", broken)
    status, answer = server.solve(equation="poisson")
    assert (status, answer["error"]["field"]) == (500, "server")
    assert "foresaw" not in json.dumps(answer)
    with server.stream() as stream:
        stream.send('{"equation": "poisson"}')
        (refused,) = of_type(messages(stream), "refused")
    assert refused["field"] == "server"
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 2


def test_names_of_a_client_are_no_labels(server):
    for name in ('x"} 1\nens_forged_total{a="', "y" * 70):
        assert server.solve(**{"equation": "poisson", name: 1})[0] == 422
    _, _, body = server.request("GET", "/metrics")
    assert b"forged" not in body
    assert b"yyy" not in body
    assert server.metric('ens_refused_total{field="other"}') >= 2


def test_a_client_that_leaves_leaves_no_traceback(server, caplog, capfd):
    body = json.dumps({"equation": "darcy", "grid": 256, "mode": "plain", "steps": 300})
    with server.ask_and_leave("/solve", body):
        server.until(lambda: server.service.places.running == 1)
    server.until(lambda: server.service.places.running == 0)
    (half,) = unfinished(server, 1, 1000)
    half.close()
    assert server.get("/healthz")["status"] == "ok"
    assert caplog.records == []
    assert "Traceback" not in capfd.readouterr().err
