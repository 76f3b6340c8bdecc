"""How fast the FNO is beside neuraloperator's, measured in one run.

Both networks have the same kept wavenumbers, channels, layers, grid and batch, and one thread each.
neuraloperator counts both signs, so |k| <= m is its n_modes = 2m + 1. It is measured as it ships,
with its channel MLP in every layer, and once more without it, which is closer to the FNO of the
papers and to ours.

Each library runs in a process of its own, because neuraloperator lives in its own environment;
the processes take turns, so that a busy moment of the machine falls on both. A time is the best of
several. This file is also the program of those processes: `python models.py ours | peer`, and
imports only the standard library until then.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

NOT_INSTALLED = "not installed: make peers"

CASES: dict[str, dict[str, int]] = {
    "64 channels, 128x128, batch 4": {
        "width": 64, "layers": 4, "max_wavenumber": 10, "resolution": 128, "batch": 4,
    },
    "32 channels, 64x64, batch 16": {
        "width": 32, "layers": 4, "max_wavenumber": 8, "resolution": 64, "batch": 16,
    },
}  # fmt: skip

LIBRARIES = {
    "neuralsolver": "ours",
    "neuraloperator": "peer",
    "neuraloperator without channel MLP": "peer",
}
IN_CHANNELS, OUT_CHANNELS = 3, 1


def measure(
    *,
    repeats: int = 7,
    peers_python: str | None = None,
    cases: Mapping[str, dict[str, int]] = CASES,
) -> list[dict[str, Any]]:
    """One row per case and library: milliseconds forward and forward+backward, and our gain.

    `peers_python` is an interpreter that has neuraloperator; by default that of the environment
    variable ENS_PEERS_PYTHON, else this one if it has it. No other program is looked for: only
    an environment that was named is executed.
    """
    workers = {"ours": _Worker(sys.executable, "ours")}
    peer = _peer_interpreter(peers_python)
    if peer is not None:
        workers["peer"] = _Worker(peer, "peer")
    try:
        return [row for case in cases.items() for row in _measure_case(*case, workers, repeats)]
    finally:
        for worker in workers.values():
            worker.close()


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a text table; gain is the library's time divided by ours."""
    head = f"{'network':<38}{'forward':>12}{'gain':>7}{'+ backward':>13}{'gain':>7}{'weights':>10}"
    lines: list[str] = []
    case = None
    for row in rows:
        if row["case"] != case:
            case = row["case"]
            lines += ["", f"FNO, {case}, {row['layers']} layers, |k| <= {row['max_wavenumber']}"]
            lines += [head, "-" * len(head)]
        if "note" in row:
            lines.append(f"{row['library']:<38}{row['note']:>25}")
            continue
        lines.append(
            f"{row['library']:<38}{row['forward_ms']:>9.1f} ms{row['forward_gain']:>7.2f}"
            f"{row['forward_backward_ms']:>10.1f} ms{row['forward_backward_gain']:>7.2f}"
            f"{row['weights'] / 1e6:>8.2f} M"
        )
    return "\n".join(lines[1:])


def _measure_case(
    name: str, case: dict[str, int], workers: dict[str, _Worker], repeats: int
) -> list[dict[str, Any]]:
    seconds: dict[str, dict[str, list[float]]] = {}
    weights: dict[str, int] = {}
    for turn in range(repeats + 1):
        for library, role in LIBRARIES.items():
            if role not in workers:
                continue
            for kind in ("forward", "forward_backward"):
                answer = workers[role].ask({"library": library, "kind": kind, **case})
                weights[library] = answer["weights"]
                if turn:  # the first turn warms up
                    by_kind = seconds.setdefault(library, {})
                    by_kind.setdefault(kind, []).append(answer["seconds"])
    rows: list[dict[str, Any]] = []
    for library in LIBRARIES:
        row: dict[str, Any] = {"case": name, "library": library, "threads": 1, **case}
        if library in seconds:
            row["weights"] = weights[library]
            for kind, times in seconds[library].items():
                ours = min(seconds["neuralsolver"][kind])
                row[f"{kind}_ms"] = 1e3 * min(times)
                row[f"{kind}_median_ms"] = 1e3 * statistics.median(times)
                row[f"{kind}_gain"] = min(times) / ours
        else:
            row["note"] = NOT_INSTALLED
        rows.append(row)
    return rows


def _peer_interpreter(given: str | None) -> str | None:
    """The interpreter that was named, or this one, if it can import neuralop; else None."""
    probe = "import importlib.util as u; raise SystemExit(u.find_spec('neuralop') is None)"
    candidate = given or os.environ.get("ENS_PEERS_PYTHON") or sys.executable
    try:
        found = subprocess.run([candidate, "-c", probe], capture_output=True, check=False)
    except OSError:
        return None
    return candidate if found.returncode == 0 else None


class _Worker:
    """A process that times one library and answers one question per line."""

    def __init__(self, python: str, role: str) -> None:
        package_parent = str(Path(__file__).resolve().parents[2])
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "WANDB_MODE": "disabled",
            "PYTHONPATH": package_parent if role == "ours" else "",
        }
        self.process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries may print words of their own
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"the benchmark process for {question['library']} ended early")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _serve(role: str) -> None:
    """The program of a worker: read questions, run the network, write the seconds."""
    import torch

    torch.set_num_threads(1)
    current: Any = None
    network: Any = None
    for line in sys.stdin:
        case = json.loads(line)
        kind, library = case.pop("kind"), case["library"]
        if case != current:
            torch.manual_seed(0)
            network = _ours(case) if role == "ours" else _peers(case, library)
            current = case
        n = case["resolution"]
        x = torch.randn(case["batch"], IN_CHANNELS, n, n)
        start = time.perf_counter()
        if kind == "forward":
            with torch.no_grad():
                network(x)
        else:
            network.zero_grad()
            network(x).square().mean().backward()
        seconds = time.perf_counter() - start
        weights = sum(p.numel() * (2 if p.is_complex() else 1) for p in network.parameters())
        print(json.dumps({"seconds": seconds, "weights": weights}), flush=True)


def _ours(case: dict[str, Any]) -> Any:
    from neuralsolver.models import FNO

    m = case["max_wavenumber"]
    return FNO(
        IN_CHANNELS,
        OUT_CHANNELS,
        width=case["width"],
        layers=case["layers"],
        max_wavenumber=(m, m),
    )


def _peers(case: dict[str, Any], library: str) -> Any:
    import importlib

    fno: Callable[..., Any] = importlib.import_module("neuralop.models").FNO
    count = 2 * case["max_wavenumber"] + 1
    without = {} if library == "neuraloperator" else {"use_channel_mlp": False}
    return fno(
        n_modes=(count, count),
        in_channels=IN_CHANNELS,
        out_channels=OUT_CHANNELS,
        hidden_channels=case["width"],
        n_layers=case["layers"],
        **without,
    )


if __name__ == "__main__":
    _serve(sys.argv[1])
