"""What it takes to generate each dataset: seconds per sample and memory, as `ens generate` does it.

Every dataset is made in a process of its own, at the resolution of the models and at that of the
paper, through the same `data/generation.py::generate` that trainings call: drawing the inputs,
solving, checking and storing. Seconds are CPU seconds of one thread per sample, without the start
of the process; memory is the highest resident memory of that process, Python and libraries
included, and how much of it came on top while generating.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from neuralsolver.equations.registry import EQUATIONS
from neuralsolver.errors import ReferenceFailure

Row = dict[str, Any]

RESOLUTIONS = (64, 128)
SAMPLES = 4

PROGRAM = """
import json, resource, sys, time
from pathlib import Path
import torch
from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import equation_named
name, resolution, samples, folder = sys.argv[1], *map(int, sys.argv[2:4]), Path(sys.argv[4])
torch.set_num_threads(1)
spec = DatasetSpec(equation_named(name), samples, resolution, "train", 0)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, begin = peak(), time.process_time()
data = generate(spec, folder)
seconds = (time.process_time() - begin) / samples
size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / samples / 2**20
memory = {"peak_mb": peak(), "added_mb": peak() - before, "stored_mb": size}
print(json.dumps({"seconds": seconds, **memory}))
"""


def measure(
    resolutions: Sequence[int] = RESOLUTIONS,
    samples: int = SAMPLES,
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """One row per equation and resolution."""
    cases = [(name, n) for name in EQUATIONS for n in resolutions]
    rows = []
    for position, (name, n) in enumerate(cases):
        if tell is not None:
            tell(position / len(cases), f"{name}, {n} points")
        rows.append(
            {"equation": name, "resolution": n, "samples": samples, **_one(name, n, samples)}
        )
    return rows


def _one(name: str, resolution: int, samples: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        options = [name, str(resolution), str(samples), folder]
        found = subprocess.run(
            [sys.executable, "-c", PROGRAM, *options], capture_output=True, text=True, check=False
        )
    if found.returncode:
        raise ReferenceFailure(f"generating {name}: {found.stderr.strip()[-200:]}")
    row: Row = json.loads(found.stdout)
    return row


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':22} {'grid':>5} {'seconds':>9} {'peak MB':>8} {'added':>6} {'stored':>7}"
    ]
    lines += [
        f"{row['equation']:22} {row['resolution']:5d} {row['seconds']:9.4f} {row['peak_mb']:8.0f} "
        f"{row['added_mb']:6.0f} {row['stored_mb']:7.2f}"
        for row in rows
    ]
    return "\n".join(lines)
