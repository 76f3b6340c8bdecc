"""However a command ends, it says so in one line and leaves nothing half made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.equations.sensors import LARGEST_FILE, MOST_SENSORS
from neuralsolver.training import export

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
ENS = [sys.executable, "-m", "neuralsolver"]
SLOW_IMPORT = """
import sys, time
class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name == "{name}":
            print("loading", flush=True)
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                raise RuntimeError("made of an interruption") from None
sys.meta_path.insert(0, Waiting())
sys.argv = ["ens", "{command}", "poisson"]
from neuralsolver.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("name", "command", "line"),
    [
        ("typer", "solve", "ens: interrupted\n"),
        ("torch", "solve", "ens: interrupted\n"),
        ("torch", "train", "ens: interrupted; run the same command again to resume\n"),
    ],
)
def test_an_interruption_while_modules_are_loaded_is_one_line(name, command, line, number):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT.format(name=name, command=command)],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "loading\n"
    process.send_signal(number)
    assert process.communicate(timeout=60)[1] == line
    assert process.returncode == 130


def test_only_what_resumes_says_so(monkeypatch, capsys):
    from neuralsolver.solvers import trained

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(trained.TrainedSolver, "solve", interrupted)
    assert run(["solve", "poisson"]) == 130
    assert capsys.readouterr().err == "ens: interrupted\n"


@pytest.mark.parametrize("there", [False, True])
def test_a_failed_export_leaves_no_folder(tmp_path, monkeypatch, there, capsys):
    def failing(*_):
        raise ns.InvalidInput("format", "another day", "today")

    monkeypatch.setattr(export, "_onnx", failing)
    folder = tmp_path / "new" / "model"
    if there:
        folder.mkdir(parents=True)
    assert run(["export", "poisson", "--output", str(folder)]) == 1
    assert folder.exists() == there
    assert (tmp_path / "new").exists() == there
    assert capsys.readouterr().err.count("\n") == 1


def test_sensors_are_bounded(tmp_path, capsys):
    rows = np.random.default_rng(0).random((MOST_SENSORS + 1, 3))
    text = "\n".join(f"{x},{y},source,{value}" for x, y, value in rows)
    (tmp_path / "many.csv").write_text(f"x,y,field,value\n{text}\n")
    assert run(["invert", "poisson", "--sensors", str(tmp_path / "many.csv")]) == 1
    assert f"at most {MOST_SENSORS}" in capsys.readouterr().err
    with open(tmp_path / "huge.csv", "wb") as huge:
        huge.truncate(LARGEST_FILE + 1)
    assert run(["invert", "poisson", "--sensors", str(tmp_path / "huge.csv")]) == 1
    assert "bytes" in capsys.readouterr().err
    os.mkfifo(tmp_path / "pipe.csv")
    assert run(["invert", "poisson", "--sensors", str(tmp_path / "pipe.csv")]) == 1
    assert "a regular file" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.5, 2.0, 3.0])
def test_sigterm_while_workers_start_is_one_line(tmp_path, delay):
    command = [*ENS, "generate", "helmholtz", "--count", "4000", "--resolution", "96"]
    process = subprocess.Popen(
        [*command, "--workers", "2", "--data", str(tmp_path)],
        env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(delay)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=90)[1]
    assert process.returncode in (130, -signal.SIGTERM)
    assert errors.count("\n") <= 1
    assert errors in ("", "ens: interrupted\n") or "again to resume" in errors


SCHEDULER = """
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.mark.slow
def test_a_scheduler_that_vanishes_is_one_line(tmp_path):
    (tmp_path / "cluster.py").write_text(SCHEDULER)
    cluster = subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"], env=ENVIRONMENT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    address = cluster.stdout.readline().strip()
    command = [*ENS, "generate", "helmholtz", "--count", "4000", "--resolution", "96"]
    process = subprocess.Popen(
        [*command, "--scheduler", address, "--data", str(tmp_path / "data")],
        env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while not list(tmp_path.glob("data/*.partial/*.h5")) and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.kill()
    cluster.communicate()
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert "scheduler is gone" in errors
    assert errors.count("\n") == 1, errors
