"""The service measured from outside: a server in a process of its own, clients on loopback.

    first frame    from sending an ask on an open stream to the first iterate
    frames         iterates per second that arrive while a solve goes on
    slider         new problems per second, each asked for when the one before is solved, to the
                   accuracy that the page asks for while something is dragged
    load           clients that ask again and again, half of them by POST, half on streams

The clients run in this process and take their share of the processors: on a busy machine, and this
one is busy with its own clients, the numbers are worse than a user alone would see.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neuralsolver.serve.fields import decode_frame

Row = dict[str, Any]

REPEATS = 30
FRAME_STEPS = 200
DRAG_SECONDS, DRAG_TOLERANCE = 5.0, 1e-4
WARM_SHARE = 1 / 3
"""The part of the load test after which memory should no longer grow."""


def measure(clients: int = 50, seconds: float = 30.0) -> list[Row]:
    """One row per number; `met` compares it with the target of the project."""
    with _server() as (port, process):
        before = os.getloadavg()[0]
        rows = [*_first_frames(port), _frames(port), _drag(port), *_load(port, clients, seconds)]
        code = _stopped(process)
    rows.append(_row("exit code after SIGTERM", code, "", 0, code == 0))
    for row in rows:
        row["load_average_before"] = round(before, 2)
    return rows


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [f"{'measure':46} {'value':>10} {'unit':12} {'target':>10}"]
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:g}"
        mark = {True: "  met", False: "  MISSED", None: ""}[row["met"]]
        lines.append(
            f"{row['measure']:46} {row['value']:10.4g} {row['unit']:12} {target:>10}{mark}"
        )
    lines.append(f"load average before: {rows[0]['load_average_before']}")
    return "\n".join(lines)


def _row(measure: str, value: float, unit: str, target: float | None, met: bool | None) -> Row:
    return {"measure": measure, "value": value, "unit": unit, "target": target, "met": met}


@contextmanager
def _server() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`ens serve` on a free port."""
    command = [sys.executable, "-m", "neuralsolver.cli", "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
        _until_ready(port)
        yield port, process
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _until_ready(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if _get(port, "/healthz")[0] == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server did not become ready")


def _stopped(process: subprocess.Popen[str]) -> int:
    process.terminate()
    return process.wait(20)


def _get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _memory(port: int) -> float:
    """Megabytes of the server."""
    for line in _get(port, "/metrics")[1].decode().splitlines():
        if line.startswith("process_resident_memory_bytes"):
            return float(line.split()[1]) / 1e6
    raise ValueError("no memory among the metrics")


def _stream(port: int) -> Any:
    from websockets.sync.client import connect

    return connect(f"ws://127.0.0.1:{port}/stream", max_size=None, compression=None)


def _watch(stream: Any, **ask: Any) -> list[float]:
    """Ask and read to the end; the moments at which iterates arrived, after the sending."""
    begin = time.perf_counter()
    stream.send(json.dumps(ask))
    moments = []
    while True:
        data = stream.recv(timeout=60)
        if isinstance(data, bytes):
            if decode_frame(data)[0]["index"] >= 0:
                moments.append(time.perf_counter() - begin)
            continue
        kind = json.loads(data)["type"]
        if kind == "refused":
            raise RuntimeError(data)
        if kind == "finished":
            return moments


def _first_frames(port: int) -> list[Row]:
    first = []
    with _stream(port) as stream:
        _watch(stream, equation="helmholtz")
        for seed in range(REPEATS):
            first.append(_watch(stream, equation="helmholtz", seed=seed)[0])
    median, worst = 1000 * statistics.median(first), 1000 * max(first)
    return [
        _row("first frame, 64 x 64, median", median, "ms", 150, median <= 150),
        _row(f"first frame, the worst of {REPEATS}", worst, "ms", 150, worst <= 150),
    ]


def _frames(port: int) -> Row:
    with _stream(port) as stream:
        moments = _watch(stream, equation="helmholtz", mode="plain", steps=FRAME_STEPS)
    rate = (len(moments) - 1) / (moments[-1] - moments[0])
    return _row("frames that arrive, 64 x 64", rate, "per second", 25, rate >= 25)


def _drag(port: int) -> Row:
    solved, begin = 0, time.perf_counter()
    with _stream(port) as stream:
        while time.perf_counter() - begin < DRAG_SECONDS:
            constants = {"wavenumber": 1 + 0.02 * (solved % 100)}
            _watch(stream, equation="helmholtz", constants=constants, tolerance=DRAG_TOLERANCE)
            solved += 1
    rate = solved / (time.perf_counter() - begin)
    return _row("new problems while a slider is dragged", rate, "per second", 5, rate >= 5)


def _load(port: int, clients: int, seconds: float) -> list[Row]:
    """Many clients for a while: how long each answer took, what failed, what it cost in memory."""
    took: list[float] = []
    failed: list[str] = []
    end = time.monotonic() + seconds
    memory = {}

    def repeat(once: Callable[[int], None], number: int) -> None:
        count = 0
        while time.monotonic() < end:
            begin = time.perf_counter()
            try:
                once(1000 * number + count)
                took.append(time.perf_counter() - begin)
            except Exception as error:
                failed.append(repr(error))
            count += 1

    threads = [
        threading.Thread(target=_posting if i % 2 else _streaming, args=(port, repeat, i))
        for i in range(clients)
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds * WARM_SHARE)
    memory["warm"] = _memory(port)
    for thread in threads:
        thread.join()
    memory["end"] = _memory(port)
    return _load_rows(took, failed, memory, clients, seconds)


Repeat = Callable[[Callable[[int], None], int], None]


def _posting(port: int, repeat: Repeat, number: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def once(seed: int) -> None:
        body = json.dumps({"equation": "helmholtz", "seed": seed, "tolerance": 1e-6})
        headers = {"Content-Type": "application/json", "Accept": "application/x-npy"}
        connection.request("POST", "/solve", body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status} {content[:200]!r}")

    repeat(once, number)
    connection.close()


def _streaming(port: int, repeat: Repeat, number: int) -> None:
    with _stream(port) as stream:
        repeat(lambda seed: _ignore(_watch(stream, equation="poisson", seed=seed)), number)


def _ignore(moments: list[float]) -> None:
    if not moments:
        raise RuntimeError("no iterate arrived")


def _load_rows(
    took: list[float], failed: list[str], memory: dict[str, float], clients: int, seconds: float
) -> list[Row]:
    label = f"{clients} clients for {seconds:g} s: "
    quantiles = statistics.quantiles(took, n=100)
    growth = memory["end"] - memory["warm"]
    flat = growth <= 0.05 * memory["warm"]
    errors = _row(label + "errors", len(failed), "", 0, not failed)
    if failed:
        errors["first_error"] = failed[0]
    return [
        _row(label + "answers", len(took), "", None, None),
        errors,
        _row(label + "median", quantiles[49], "s", None, None),
        _row(label + "99th percentile", quantiles[98], "s", None, None),
        _row(label + "memory", memory["end"], "MB", None, None),
        _row(label + "memory gained after a third", growth, "MB", 0.05 * memory["warm"], flat),
    ]
