"""Work is left at checkpoints, and nowhere else: by its time limit, its client, or the end."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

import neuralsolver as ns
from neuralsolver.cancellation import Cancelled, cancellable, checkpoint
from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.equations import equation_named
from neuralsolver.serve.refusals import OutOfTime
from neuralsolver.serve.service import Call
from neuralsolver.serve.settings import ServerSettings
from neuralsolver.serve.stories import (
    SensorsRequest,
    WaveRequest,
    WellsRequest,
    find_rock,
    follow_beam,
    reconstruct,
)
from neuralsolver.solvers.newton import Newton
from tests.serve.running import JSON, Never, messages, of_type, running

PLACES = [[0.2, 0.2], [0.8, 0.3], [0.5, 0.5], [0.2, 0.9]]


def for_ever(call):
    while True:
        checkpoint()


def test_time_that_is_up_ends_the_work():
    with pytest.raises(OutOfTime, match=r"within 0\.01 s"):
        Call(0.01).run(for_ever)
    assert Call(math.inf).run(lambda call: 7) == 7
    checkpoint()  # nobody has asked for an end here


def test_work_that_nobody_waits_for_ends():
    call = Call(math.inf)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(call.run, for_ever)
        call.cancelled = True
        assert isinstance(working.exception(60), OutOfTime)
        # the thread is well afterwards
        assert threads.submit(Call(math.inf).run, lambda call: 7).result(60) == 7


def test_only_the_thread_of_the_work_is_asked():
    with cancellable(lambda: True), ThreadPoolExecutor(1) as threads:
        threads.submit(checkpoint).result(60)
        with pytest.raises(Cancelled):
            checkpoint()


def test_no_callback_of_the_collector_swallows_the_end(monkeypatch):
    """An exception in such a callback, a finaliser or a weak reference is printed and lost."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    def callback(phase, info):
        sum(range(2000))

    def work(call):
        while True:
            checkpoint()
            cycles = [[] for _ in range(50)]
            for each in cycles:
                each.append(each)

    threshold = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(20)
    try:
        for _ in range(100):
            with pytest.raises(OutOfTime):
                Call(0.002).run(work)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)
    assert lost == []


def test_an_end_that_was_swallowed_is_said_again(monkeypatch):
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    class Finalised:
        def __del__(self):
            checkpoint()

    def work(call):
        call.cancelled = True
        Finalised()  # it is said here, where nobody hears it
        checkpoint()

    with pytest.raises(OutOfTime):
        Call(math.inf).run(work)
    assert len(lost) == 1


def flow(name: str) -> ns.Problem:
    return ns.Problem.random(equation_named(name), 64, seed=3)


LONG = {
    "reference solution of a flow": lambda: ReferenceSolver().solve(flow("kolmogorov")),
    "Newton-Krylov on a flow": lambda: ns.load("kolmogorov").solve(flow("kolmogorov")),
    "estimate of a flow's error": lambda: (
        ns.load("navier-stokes").solve(flow("navier-stokes"), steps=0).error_estimate
    ),
    "reference solution": lambda: ReferenceSolver().solve(ns.Problem.random(ns.Darcy(), 64)),
    "Newton with sparse factors": lambda: Newton().solve(ns.Problem.random(ns.Darcy(), 64)),
    "a wave": lambda: follow_beam(WaveRequest()),
    "wells": lambda: find_rock(WellsRequest(places=PLACES)),
    "sensors": lambda: reconstruct(SensorsRequest(equation="darcy", places=PLACES)),
}


@pytest.mark.parametrize("name", LONG)
def test_long_work_has_checkpoints_everywhere(name):
    """It ends at whichever it is told to, and does not go on to another one."""
    total = count()
    with cancellable(lambda: next(total) < 0):
        LONG[name]()
    least = 8 if name == "Newton with sparse factors" else 20
    passed = next(total)
    assert passed >= least
    for last in (0, passed // 2):
        seen = count()
        with pytest.raises(Cancelled), cancellable(lambda end=last, seen=seen: next(seen) >= end):
            LONG[name]()
        assert next(seen) == last + 1


def test_clients_are_told_of_the_end_before_the_step_has_ended(monkeypatch):
    """A step without checkpoints holds its thread, but not the answer of its client."""
    begun, release = threading.Event(), threading.Event()

    def step(*arguments):
        begun.set()
        release.wait()
        checkpoint()

    with running(ServerSettings(solves=1)) as server, ThreadPoolExecutor(2) as clients:
        monkeypatch.setattr("neuralsolver.serve.stories.random_medium", step)
        ask = ("POST", "/waves", json.dumps({"seed": 1}), JSON)
        try:
            working = clients.submit(server.request, *ask)
            assert begun.wait(60)
            waiting = clients.submit(server.request, *ask)
            server.until(lambda: len(server.service.places.line) == 1)
            (future,) = server.service.calls.values()
            future.get_loop().call_soon_threadsafe(server.service.stop)
            for answer in (working, waiting):
                status, _, body = answer.result(60)
                assert (status, json.loads(body)["error"]["field"]) == (503, "stopping")
        finally:
            release.set()


def test_a_client_that_leaves_frees_its_thread(monkeypatch):
    ended = threading.Event()

    def step(*arguments):
        try:
            for_ever(None)
        finally:
            ended.set()

    with running(ServerSettings(solves=1)) as server:
        monkeypatch.setattr("neuralsolver.serve.stories.random_medium", step)
        with server.ask_and_leave("/waves", json.dumps({"seed": 1})):
            server.until(lambda: server.service.places.running == 1)
        assert ended.wait(60)
        server.until(lambda: server.service.places.running == 0)
        assert server.solve(equation="poisson", tolerance=1e-4)[0] == 200


def test_the_server_leaves_when_its_clients_have_been_told(monkeypatch):
    """Whatever closes the streams comes after the last words have been sent."""
    with running(ServerSettings(solves=1)) as server, server.stream() as stream:
        monkeypatch.setattr(server.service, "references", Never())
        stream.send('{"equation": "poisson"}')
        messages(stream, last="begun")
        server.until(lambda: server.service.calls)
        (future,) = server.service.calls.values()
        left: list[bool] = []

        def leave():
            left.extend(each.busy or bool(each.mailbox.waiting) for each in server.streams.open)

        asyncio.run_coroutine_threadsafe(server.streams.end(leave), future.get_loop()).result(60)
        assert left == [False]
        (refused,) = of_type(messages(stream), "refused")
        assert refused["field"] == "stopping"
