"""Every bound of the service, with the answer a client gets."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.settings import ServerSettings
from tests.serve.running import JSON, SLOW, Never, messages, of_type, running

TIGHT = ServerSettings(
    grid=128,
    steps=50,
    body_bytes=200_000,
    solves=1,
    waiting=2,
    seconds=0.3,
    connections=6,
    stall_seconds=1.0,
)


@pytest.fixture(scope="module")
def tight():
    with running(TIGHT) as found:
        yield found


def test_grid(tight):
    status, answer = tight.solve(equation="helmholtz", grid=256)
    assert (status, answer["error"]["field"]) == (422, "grid")
    assert "at most 128" in answer["error"]["expected"]
    status, answer = tight.solve(equation="navier-stokes", grid=128)
    assert (status, answer["error"]["field"]) == (422, "grid")


def test_steps(tight):
    status, answer = tight.solve(equation="helmholtz", mode="plain", steps=51)
    assert (status, answer["error"]["field"]) == (422, "steps")
    assert answer["error"]["expected"] == "at most 50"


def test_announced_body(tight):
    body = json.dumps({"equation": "helmholtz", "input": [[1.0] * 256] * 256})
    status, _, answer = tight.request("POST", "/solve", body, JSON)
    assert status == 413
    assert json.loads(answer)["error"]["expected"] == "at most 200000 bytes"


def test_body_that_is_larger_than_it_says(tight):
    def pieces():
        for _ in range(60):
            yield b"[" * 5000

    status, _, answer = tight.request("POST", "/solve", pieces(), JSON)
    assert status == 413
    assert json.loads(answer)["error"]["field"] == "body"


def test_message_on_the_stream(tight):
    with tight.stream() as stream:
        stream.send("x" * 200_001)
        with pytest.raises(ConnectionClosed) as closed:
            stream.recv(timeout=10)
    assert closed.value.rcvd.code == 1009


def test_seconds(tight, monkeypatch):
    """Work that never ends by itself is ended, and what there is by then is returned."""
    monkeypatch.setattr(tight.service, "references", Never())
    with tight.stream() as stream:
        stream.send('{"equation": "darcy", "grid": 128}')
        (done,) = of_type(messages(stream), "done")
    assert done["verdict"]["status"] == "TIME_LIMIT"
    assert not done["verdict"]["good"]
    assert done["verdict"]["steps"] == 0
    # its thread works again
    status, answer = tight.solve(equation="poisson", mode="plain", steps=1)
    assert (status, answer["status"]) == (200, "FINISHED")


def test_queue_has_a_visible_position_and_an_end(tight, monkeypatch):
    patient = TIGHT.model_copy(update={"seconds": 600.0})
    monkeypatch.setattr(tight.service, "settings", patient)
    monkeypatch.setattr(tight.service, "references", Never())
    ask = json.dumps({**SLOW, "grid": 128, "steps": 50})
    with tight.stream() as first, tight.stream() as second, tight.stream() as third:
        first.send(ask)
        messages(first, last="begun")
        tight.until(lambda: tight.service.places.running == 1)
        second.send(ask)
        (waiting,) = of_type(messages(second, last="waiting"), "waiting")
        assert waiting["position"] == 1
        third.send(ask)
        (waiting,) = of_type(messages(third, last="waiting"), "waiting")
        assert waiting["position"] == 2
        status, headers, body = tight.request("POST", "/solve", '{"equation": "poisson"}', JSON)
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert "try again" in json.loads(body)["error"]["got"]
        # when the second leaves, the third moves up
        second.close()
        (moved,) = of_type(messages(third, last="waiting"), "waiting")
        assert moved["position"] == 1
        # when the first leaves, it is its turn
        first.close()
        tight.until(lambda: not tight.service.places.line)
        assert tight.service.places.running == 1
    tight.until(lambda: tight.service.places.running == 0)


def test_idle_streams_make_room_and_busy_ones_do_not(tight):
    with ExitStack() as streams:
        first, *_ = [streams.enter_context(tight.stream()) for _ in range(TIGHT.connections)]
        tight.until(lambda: len(tight.streams.open) == TIGHT.connections)
        streams.enter_context(tight.stream())
        with pytest.raises(ConnectionClosed) as closed:
            first.recv(timeout=10)
        assert closed.value.rcvd.code == 1000
        assert tight.get("/healthz")["status"] == "ok"
        tight.until(lambda: len(tight.streams.open) == TIGHT.connections)
        for session in tight.streams.open:
            session.answer = _Never()
        with tight.stream() as refused, pytest.raises(ConnectionClosed) as closed:
            refused.recv(timeout=10)
        assert closed.value.rcvd.code == 1013
        assert "too many connections" in closed.value.rcvd.reason
        assert tight.get("/healthz")["status"] == "ok"
    tight.until(lambda: not tight.streams.open)


class _Never:
    """An answer that is still under way."""

    def done(self) -> bool:
        return False

    def cancel(self) -> None:
        pass

    def __await__(self):
        yield from ()


def test_foreign_names_and_pages(tight):
    status, _, body = tight.request("GET", "/healthz", headers={"Host": "evil.example"})
    assert status == 421
    assert json.loads(body)["error"]["field"] == "host"
    headers = {**JSON, "Origin": "https://evil.example"}
    status, _, body = tight.request("POST", "/solve", '{"equation": "poisson"}', headers)
    assert status == 403
    assert json.loads(body)["error"]["field"] == "origin"
    with pytest.raises(InvalidStatus) as refused, tight.stream(origin="https://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    with tight.stream(origin=f"http://127.0.0.1:{tight.port}"):
        pass


HANDSHAKE = (
    "GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def test_a_client_that_never_reads_is_skipped_and_then_left():
    """It asks for large frames and reads none: its place frees, and others are served."""
    with running(ServerSettings(stall_seconds=0.5, solves=1)) as server:
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", server.port))
            raw.sendall(HANDSHAKE.encode())
            assert b"101" in raw.recv(1000)
            ask = b'{"equation": "kolmogorov", "mode": "plain", "steps": 99}'
            raw.sendall(bytes([0x81, 0x80 | len(ask)]) + bytes(4) + ask)
            server.until(lambda: server.metric('ens_refused_total{field="reading"}') == 1)
            server.until(lambda: not server.streams.open)
            server.until(lambda: server.service.places.running == 0)
        assert server.metric('ens_solves_total{status="CANCELLED"}') == 1
        status, _ = server.solve(equation="poisson", tolerance=1e-4)
        assert status == 200


def test_many_at_once_all_get_an_answer(tight):
    answers: list[int] = []

    def client() -> None:
        answers.append(tight.solve(equation="poisson", mode="plain", steps=3)[0])

    threads = [threading.Thread(target=client) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(answers) <= {200, 429, 503}
    assert answers.count(200) >= 3


def test_limits_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("ENS_GRID", "128")
    monkeypatch.setenv("ENS_SECONDS", "2.5")
    settings = ServerSettings.make()
    assert (settings.grid, settings.seconds, settings.steps) == (128, 2.5, 300)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert ServerSettings.make() == settings
    assert ServerSettings.make(waiting=0).waiting == 0
    monkeypatch.setenv("ENS_GRID", "many")
    with pytest.raises(InvalidInput, match="ENS_GRID"):
        ServerSettings.make()
    with pytest.raises(InvalidInput, match="solves"):
        ServerSettings.make(grid=8, solves=0)


def test_waiting_costs_no_solving_time(tight):
    with tight.stream() as first, tight.stream() as second:
        for stream in (first, second):
            stream.send('{"equation": "poisson", "mode": "plain", "steps": 3}')
        for stream in (first, second):
            (done,) = of_type(messages(stream), "done")
            assert done["verdict"]["status"] == "FINISHED"
