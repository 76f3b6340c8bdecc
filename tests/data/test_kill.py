"""A real kill -9, of the whole run and of a worker."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from neuralsolver.data import DatasetSpec, run_generation
from neuralsolver.equations import Helmholtz

COUNT = 256
COMMAND = [sys.executable, "-m", "neuralsolver.cli", "generate", "helmholtz", "--json"]
OPTIONS = ["--count", str(COUNT), "--resolution", "128", "--seed", "7"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "OMP_NUM_THREADS": "1",
}


def start(folder, workers):
    return subprocess.Popen(
        [*COMMAND, *OPTIONS, "--data", str(folder), "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def finish(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    # on a busy machine it takes so long that progress is reported
    assert [line for line in errors.splitlines() if not line.endswith("/s")] == []
    return json.loads(output)


def blocks(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.partial/*.h5")}


def wait_for_blocks(process, folder, least):
    while len(blocks(folder)) < least:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    spec = DatasetSpec(Helmholtz(), COUNT, 128, seed=7)
    return digest(run_generation(spec, tmp_path_factory.mktemp("data"), workers=1).path)


def kill_parent(process):
    """Kill the process that was started; its workers must follow."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


def kill_group(process):
    """Kill everything at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def interrupt(process):
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "ens: interrupted; run the same command again to resume\n"


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_same_bytes(tmp_path, expected):
    survivors = {}
    for workers, least, stop in ((2, 2, kill_parent), (1, 7, kill_group), (1, 11, interrupt)):
        process = start(tmp_path, workers)
        wait_for_blocks(process, tmp_path, least)
        stop(process)
        assert not list(tmp_path.glob("*.h5"))
        now = blocks(tmp_path)
        # nothing that had been finished was written a second time
        assert survivors.items() <= now.items()
        survivors = now
    result = finish(start(tmp_path, 1))
    assert result["kept"] == 16 * len(survivors)
    assert result["kept"] + result["computed"] == COUNT
    assert digest(result["path"]) == expected
    assert [path.name for path in tmp_path.iterdir()] == [Path(result["path"]).name]


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path, expected):
    process = start(tmp_path, 2)
    wait_for_blocks(process, tmp_path, 2)
    children = psutil.Process(process.pid).children(recursive=True)
    # workers are the grandchildren, forked from the fork server
    workers = [child for child in children if child.ppid() != process.pid]
    assert len(workers) >= 2
    workers[0].kill()
    result = finish(process)
    assert result["computed"] == COUNT
    assert digest(result["path"]) == expected
