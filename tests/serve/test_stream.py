"""Iterates over the stream: those of the solver, in order, and none for a client that has left."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.serve.frames import encode_frame
from tests.serve.running import SLOW, frames, messages, of_type


def ask_and_wait(server, **ask):
    with server.stream() as stream:
        stream.send(json.dumps(ask))
        return messages(stream)


def test_the_iterates_are_those_of_the_solver(server):
    found = ask_and_wait(server, equation="helmholtz", mode="plain", steps=4, seed=5, id=9)
    shown = frames(found)
    # the first comes twice: at once, and again when its error is known
    assert [header["index"] for header, _ in shown] == [0, 0, 1, 2, 3, 4]
    assert all(header["id"] == 9 for header, _ in shown)
    assert [header["error"] is None for header, _ in shown] == [True] + 5 * [False]
    problem = ns.Problem.random(ns.Helmholtz(), 64, seed=5, key=1)
    seen = []
    ns.load("helmholtz").solve(problem, steps=4, observe=seen.append)
    for observation, (header, fields) in zip(seen, shown[1:], strict=True):
        u = observation.u[0, 0].numpy().astype(np.float32)
        assert np.array_equal(fields["solution"], u)
        assert header["step"] == observation.step
    errors = [header["error"] for header, _ in shown[1:]]
    assert errors == sorted(errors, reverse=True)
    (done,) = of_type(found, "done")
    assert done["curves"]["error"] == errors
    assert done["verdict"]["steps"] == 4


def test_correction_is_the_difference_of_two_iterates(server):
    shown = frames(ask_and_wait(server, equation="darcy", mode="plain", steps=3))[1:]
    before, after = shown[1][1], shown[2][1]
    change = after["solution"] - before["solution"]
    assert np.allclose(after["correction"], change, atol=1e-5)
    assert "correction" not in shown[0][1]


def test_the_verdict_has_a_bound_that_holds(server):
    found = ask_and_wait(server, equation="poisson", tolerance=1e-10)
    (done,) = of_type(found, "done")
    verdict = done["verdict"]
    assert verdict["status"] == "TOLERANCE"
    assert verdict["headline"] == "Solved"
    assert verdict["error"] <= verdict["error_bound"] < 1e-8
    assert "Proven" in verdict["accuracy"]


def test_plain_fails_beyond_resonance_and_acceleration_recovers(server):
    constants = {"wavenumber": 4.8}
    plain = ask_and_wait(server, equation="helmholtz", constants=constants, mode="plain", steps=25)
    (done,) = of_type(plain, "done")
    assert done["verdict"]["tone"] == "bad"
    recovered = ask_and_wait(server, equation="helmholtz", constants=constants)
    (done,) = of_type(recovered, "done")
    assert done["verdict"]["tone"] == "good"
    assert done["verdict"]["error"] < 1e-7


def test_other_solvers_are_compared_on_the_same_problem(server):
    found = ask_and_wait(server, equation="helmholtz", compare=["all"])
    curves = {each["method"]: each for each in of_type(found, "curve")}
    assert {"ens-plain", "fno", "paper", "newton", "networkless", "classical"} == set(curves)
    assert len(curves["fno"]["curves"]["error"]) == 1
    assert 1e-3 < curves["fno"]["verdict"]["error"] < 0.1
    assert curves["newton"]["verdict"]["error"] < 1e-12
    assert curves["classical"]["verdict"]["error"] == 0.0
    (done,) = of_type(found, "done")
    assert curves["networkless"]["verdict"]["steps"] > 3 * done["verdict"]["steps"]
    assert all(each["verdict"]["seconds"] > 0 for each in curves.values())


def test_a_flow_has_frames_and_an_error(server):
    ask = {"equation": "navier-stokes", "mode": "plain", "steps": 3, "compare": ["coarse"]}
    found = ask_and_wait(server, **ask)
    shown = frames(found)
    assert shown[-1][1]["solution"].shape == (21, 64, 64)
    assert shown[-1][1]["error"].shape == (21, 64, 64)
    assert shown[-1][0]["error"] < 0.1 < shown[1][0]["error"]
    (coarse,) = of_type(found, "curve")
    assert coarse["verdict"]["error"] < 0.1


def test_a_long_flow_and_a_fine_grid_are_thinned(server):
    found = ask_and_wait(server, equation="kolmogorov", mode="plain", steps=1)
    assert frames(found)[-1][1]["solution"].shape == (21, 64, 64)
    found = ask_and_wait(server, equation="poisson", grid=256, mode="plain", steps=1)
    assert frames(found)[-1][1]["solution"].shape == (256, 256)


def test_a_painted_field(server):
    field = np.zeros((64, 64), dtype=np.float32)
    field[30:34, 30:34] = 50.0
    ask = {"equation": "poisson", "tolerance": 1e-8, "id": 2}
    with server.stream() as stream:
        stream.send(encode_frame(ask, {"input": field}))
        found = messages(stream)
    drawn = next(item[1]["input"] for item in found if isinstance(item, tuple))
    assert np.array_equal(drawn, field)
    solution = ns.load("poisson").solve(
        ns.Problem(ns.Poisson(), torch.from_numpy(field.astype(np.float64))), tolerance=1e-8
    )
    last = frames(found)[-1][1]["solution"]
    assert np.array_equal(last, solution.tensor[0, 0].numpy().astype(np.float32))


@pytest.mark.parametrize(
    "message",
    [
        "no json",
        "[1, 2]",
        '{"equation": "helmholtz", "compare": ["magic"]}',
        b"\x00",
        b"\xff\xff\xff\xff{}",
        encode_frame({"equation": "poisson"}, {"input": np.full((64, 64), np.nan, np.float32)}),
        encode_frame({"equation": "poisson"}, {"input": np.zeros((64, 32), np.float32)}),
        encode_frame({"equation": "poisson"}, {"other": np.zeros((64, 64), np.float32)}),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_stream_goes_on(server, message):
    with server.stream() as stream:
        stream.send(message)
        (refused,) = of_type(messages(stream), "refused")
        assert refused["message"]
        stream.send('{"equation": "poisson", "mode": "plain", "steps": 1, "id": 3}')
        (done,) = of_type(messages(stream), "done")
        assert done["id"] == 3


def test_a_new_ask_takes_the_place_of_the_one_before(server):
    cancelled = server.metric('ens_solves_total{status="CANCELLED"}')
    with server.stream() as stream:
        stream.send(json.dumps({**SLOW, "id": 1}))
        messages(stream, last="begun")
        for _ in range(2):  # the input, and the first step: the solver is at work
            assert isinstance(stream.recv(timeout=60), bytes)
        stream.send('{"equation": "poisson", "mode": "plain", "steps": 2, "id": 2}')
        found = messages(stream, last="finished")
    (done,) = of_type(found, "done")
    assert done["id"] == 2
    assert server.metric('ens_solves_total{status="CANCELLED"}') == cancelled + 1


def test_cancel_stops_the_solve(server):
    with server.stream() as stream:
        stream.send(json.dumps(SLOW))
        messages(stream, last="begun")
        server.until(lambda: server.service.places.running == 1)
        stream.send('{"cancel": true}')
        server.until(lambda: server.service.places.running == 0)


def test_a_client_that_vanishes_frees_its_place(server):
    with server.stream() as stream:
        stream.send(json.dumps(SLOW))
        messages(stream, last="begun")
        server.until(lambda: server.service.places.running == 1)
        stream.socket.shutdown(socket.SHUT_RDWR)
    server.until(lambda: server.service.places.running == 0)
    server.until(lambda: not server.streams.open)


def test_a_request_that_is_abandoned_frees_its_place(server):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/solve", json.dumps(SLOW), {"Content-Type": "application/json"})
    server.until(lambda: server.service.places.running == 1)
    connection.sock.close()
    connection.close()
    server.until(lambda: server.service.places.running == 0)


def test_two_users_at_once_get_their_own_answers(server):
    with server.stream() as one, server.stream() as other:
        one.send('{"equation": "helmholtz", "seed": 1, "mode": "plain", "steps": 8, "id": 1}')
        other.send('{"equation": "darcy", "seed": 2, "mode": "plain", "steps": 8, "id": 2}')
        first, second = messages(one), messages(other)
    alone = ask_and_wait(server, equation="helmholtz", seed=1, mode="plain", steps=8)
    assert {header["id"] for header, _ in frames(first)} == {1}
    assert {header["id"] for header, _ in frames(second)} == {2}
    together = frames(first)[-1][1]["solution"]
    assert np.array_equal(together, frames(alone)[-1][1]["solution"])
