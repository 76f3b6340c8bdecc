"""How long the transformer takes, and how that grows with the grid and the frames.

One row is a corrector of a flow: it reads the first frame, all frames and their residuals, and
answers with all frames. Seconds are those of the processor with one thread, the best of several, so
that other work on the machine counts little. A training step is forward and backward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from neuralsolver.models import HDiT

DESK: dict[str, Any] = {"resolution": 64, "frames": 21, "batch": 8}

CASES: dict[str, dict[str, Any]] = {
    "desk": DESK,
    "grid / 2": {**DESK, "resolution": 32},
    "grid x 2": {**DESK, "resolution": 128},
    "grid x 4": {**DESK, "resolution": 256, "batch": 1},
    "frames x 2": {**DESK, "frames": 42},
    "patch 8": {**DESK, "patch": 8},
    "convolutions": {**DESK, "convolutional_feedforward": True},
}


def measure(
    *, repeats: int = 5, cases: Mapping[str, Mapping[str, Any]] = CASES
) -> list[dict[str, Any]]:
    """One row per case: milliseconds of a forward pass and of a training step, and weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_measure_case(name, dict(case), repeats) for name, case in cases.items()]
    finally:
        torch.set_num_threads(threads)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as aligned text; each time also for one sample, so that batches compare."""
    head = (
        f"{'case':<14}{'grid':>6}{'frames':>8}{'batch':>7}{'weights':>10}"
        f"{'forward':>12}{'step':>12}{'step / sample':>15}"
    )
    lines = ["HDiT on the torus, one thread", head, "-" * len(head)]
    lines += [
        f"{row['case']:<14}{row['resolution']:>6}{row['frames']:>8}{row['batch']:>7}"
        f"{row['weights'] / 1e6:>8.2f} M{row['forward_ms']:>9.1f} ms{row['step_ms']:>9.1f} ms"
        f"{row['step_ms'] / row['batch']:>12.1f} ms"
        for row in rows
    ]
    return "\n".join(lines)


def _measure_case(name: str, case: dict[str, Any], repeats: int) -> dict[str, Any]:
    resolution, frames, batch = (case.pop(key) for key in ("resolution", "frames", "batch"))
    torch.manual_seed(0)
    network = HDiT(1 + 2 * frames, frames, padding_mode="circular", **case)
    x = torch.randn(batch, 1 + 2 * frames, resolution, resolution)

    def forward() -> None:
        with torch.no_grad():
            network(x)

    def step() -> None:
        network.zero_grad()
        network(x).square().mean().backward()

    return {
        "case": name,
        "resolution": resolution,
        "frames": frames,
        "batch": batch,
        "threads": 1,
        "network": network.arguments,
        "weights": sum(parameter.numel() for parameter in network.parameters()),
        "forward_ms": 1e3 * _best(forward, repeats),
        "step_ms": 1e3 * _best(step, repeats),
    }


def _best(run: Callable[[], None], repeats: int) -> float:
    """The shortest of several runs in seconds of the processor, after one that warms up."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds[1:])
