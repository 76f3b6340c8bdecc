"""Training that is interrupted, started twice, or loses a peer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from neuralsolver.equations import Helmholtz
from neuralsolver.errors import InvalidInput, PeerLost
from neuralsolver.training import fit
from neuralsolver.training.checkpoint import load_state
from neuralsolver.training.distributed import World, device_named
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_plan, make_solver
from tests.training.job import InMemory

TINY = SCALES["tiny"]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
ENS = [sys.executable, "-m", "neuralsolver.cli"]


@pytest.fixture(scope="module")
def examples():
    return InMemory(Helmholtz(), 24, 16)


def plan(batches: int):
    # a checkpoint is due after an hour: what is saved is saved by the interruption
    return make_plan("contractive", Helmholtz(), TINY, batches=batches, checkpoint_seconds=3600.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_a_state_that_goes_on_bit_for_bit(examples, tmp_path, number):
    whole = make_solver("contractive", Helmholtz(), TINY)
    fit(whole, examples, plan(8), tmp_path / "whole")
    seen = []

    def press(done, record):
        seen.append(record.batches)
        if record.batches == 3:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    broken = make_solver("contractive", Helmholtz(), TINY)
    with pytest.raises(KeyboardInterrupt):
        fit(broken, examples, plan(8), tmp_path / "broken", progress=press)
    assert signal.getsignal(number) is before
    assert load_state(tmp_path / "broken" / "state.safetensors")[1]["batches"] == 4
    again = make_solver("contractive", Helmholtz(), TINY)
    fit(again, examples, plan(8), tmp_path / "broken", progress=press)
    assert seen == [1, 2, 3, 5, 6, 7, 8, 8]
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_two_trainings_in_one_folder_exclude_each_other(examples, tmp_path):
    def start_another(done, record):
        if done == 1.0:  # it has left the folder
            return
        with pytest.raises(InvalidInput, match="no other process"):
            fit(make_solver("contractive", Helmholtz(), TINY), examples, plan(2), tmp_path)

    solver = make_solver("contractive", Helmholtz(), TINY)
    fit(solver, examples, plan(2), tmp_path, progress=start_another)
    assert not (tmp_path / "lock").exists()


def test_training_outside_the_main_thread_hears_no_signals(examples, tmp_path):
    done = []
    solver = make_solver("contractive", Helmholtz(), TINY)
    thread = threading.Thread(
        target=lambda: done.append(fit(solver, examples, plan(2), tmp_path).batches)
    )
    thread.start()
    thread.join(60)
    assert done == [2]


@pytest.mark.slow
def test_the_command_says_how_it_goes_on(tmp_path):
    command = [*ENS, "train", "poisson", "--scale", "tiny", "--plan", "batches=100000"]
    command += ["--plan", "checkpoint_seconds=3600", "--runs", "runs", "--data", "data"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("runs/*/*/*/lock")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    other = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert "no other process" in other.stderr
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert errors == "ens: interrupted; run the same command again to resume\n"
    (state,) = tmp_path.glob("runs/*/*/*/state.safetensors")
    assert load_state(state)[1]["batches"] > 1


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"RANK": "abc"}, "RANK"),
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "torchrun"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "MASTER_ADDR"),
        ({"WORLD_SIZE": "2", "RANK": "5"}, "RANK"),
        ({"RANK": "1"}, "RANK"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK"),
    ],
)
def test_a_world_that_is_half_described_is_refused(monkeypatch, variables, word):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match=word):
        World.join()


def test_devices_by_name():
    assert device_named("cpu") == torch.device("cpu")
    for name in ("tpu", "cuda:99", "", "cpu:0:1"):
        with pytest.raises(InvalidInput, match="--device"):
            device_named(name)


PEERS = """
import sys, time, os
from datetime import timedelta
from neuralsolver.training import distributed
from neuralsolver.training.distributed import World
distributed.TIMEOUT = timedelta(seconds=3)
world = World.join("cpu")
def work():
    if world.rank == 0:
        time.sleep(6)
        if sys.argv[1] == "fail":
            raise ValueError("no data")
    return "data"
try:
    if sys.argv[1] == "die" and world.rank == 0:
        os._exit(1)
    print(world.first(work), world.first(lambda: 2), flush=True)
    world.leave()
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
"""


def peers(how: str) -> list[str]:
    """What two processes without torchrun print."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = {**ENVIRONMENT, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PEERS, how],
            env={**base, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    return [process.communicate(timeout=60)[0].strip() for process in processes]


@pytest.mark.slow
def test_what_the_first_process_does_may_take_longer_than_the_time_out():
    assert peers("work") == ["data 2", "data 2"]


@pytest.mark.slow
def test_a_failed_or_lost_peer_is_one_line():
    first, second = peers("fail")
    assert first == "ValueError: no data"
    assert second == "PeerLost: the first process of this training failed; its line says why"
    _, second = peers("die")
    assert second.startswith(f"{PeerLost.__name__}: lost another process")
    assert "\n" not in second
