"""The flows of a made-up results folder: rows of every method, and trajectories to draw."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paper.studies import thinned

FLOWS = {"navier-stokes": 2.0, "kolmogorov": 40.0}
"""How much larger than for Navier-Stokes as trained everything is, at least in the residual."""
HARDNESS = {
    "in-distribution": 1.0,
    "viscosity-shift": 6.0,
    "forcing-shift": 14.0,
    "super-resolution": 1.5,
}
FLOOR = 1e-5

BUDGET = {"minutes": 18.0, "batches": 4095, "weights": 1_900_000, "clock": "CPU"}
# first error, factor per step, steps, seconds
METHODS: dict[str, tuple[float, float, int, float]] = {
    "truth": (0.0, 1.0, 0, 1e-5),
    "still": (0.7, 1.0, 0, 1e-5),
    "zero": (1.0, 1.0, 0, 1e-5),
    "fno": (3.6e-2, 1.0, 0, 0.05),
    "pino": (4.0e-2, 1.0, 0, 0.051),
    "pino-ttop": (4.0e-2, 0.995, 300, 90.0),
    "operator": (3.0e-2, 1.0, 0, 0.3),
    "operator-pino": (3.2e-2, 1.0, 0, 0.31),
    "operator-ttop": (3.2e-2, 0.996, 300, 150.0),
    "operator-cnn": (2.4e-2, 1.0, 0, 0.2),
    "ens": (3.0e-2, 0.9, 15, 5.0),
    "ens-contractive-cnn": (2.4e-2, 0.8, 12, 2.5),
    "ens-contractive": (3.0e-2, 0.85, 12, 4.0),
    "ens-accelerated": (2.9e-2, 0.84, 10, 4.5),
    "ens-newton": (2.9e-2, 0.7, 13, 6.0),
    "without-network": (0.7, 0.95, 30, 1.5),
    "without-network-plain": (0.7, 0.98, 30, 1.2),
    "without-network-newton": (0.7, 0.8, 33, 3.0),
    "without-network-newton-long": (0.6, 0.8, 36, 6.0),
    "poseidon": (6.0e-2, 1.0, 0, 0.4),
    "fno-h1": (3.5e-2, 1.0, 0, 0.05),
    "reference": (3e-8, 1.0, 0, 6.0),
    **{
        f"integrator-{n}": (3e-3 * (48 / n) ** 4, 1.0, 0, 0.02 * (n / 16) ** 2.2)
        for n in (16, 24, 32, 48, 64)
    },
}


def flow_row(experiment: str, regime: str, method: str, **changes: Any) -> dict[str, Any]:
    """One row as `python -m paper evaluate` writes it."""
    start, factor, steps, seconds = METHODS[method]
    learned = not method.startswith(("truth", "still", "zero", "reference", "integrator"))
    start *= HARDNESS[regime] if learned else 1.0
    steps *= 1 if regime == "in-distribution" else 4
    errors = [max(start * factor**k, min(start, 2e-3)) for k in range(steps + 1)]
    residuals = [FLOWS[experiment] ** 2 * (FLOOR + e**2) for e in errors]
    history = {
        "step": list(range(steps + 1)),
        "error": errors,
        "residual": residuals,
        "correction": [None, *(abs(a - b) + 1e-6 for a, b in pairwise(errors))],
    }
    content = {
        "experiment": experiment,
        "regime": regime,
        "method": method,
        "scale": "desk",
        "seed": 0,
        "resolution": 128 if regime == "super-resolution" else 64,
        "samples": 32,
        "error": errors[-1],
        "error_spread": 0.3 * errors[-1],
        "residual": residuals[-1],
        "steps": float(steps),
        "status": {"FINISHED": 32},
        "seconds_batch_1": seconds * (4 if regime == "super-resolution" else 1),
        "seconds_batch_32": None,
        "history": history if steps else None,
        "training": BUDGET,
    }
    return {**content, **changes}


def flow_rows() -> list[dict[str, Any]]:
    """Rows of both flows; Kolmogorov flow lacks some methods, and one of them fails."""
    rows = [
        flow_row(flow, regime, method)
        for flow in FLOWS
        for regime in HARDNESS
        for method in METHODS
        if flow == "navier-stokes"
        or method not in ("ens-accelerated", "operator-ttop", "integrator-24")
    ]
    half = {"FINISHED": 16, "DIVERGED": 16}
    rows.append(flow_row("kolmogorov", "forcing-shift", "ens", status=half))
    failed: dict[str, Any] = {"error": None, "residual": None, "history": None}
    memory = {"OUT_OF_MEMORY": 32}
    rows.append(flow_row("kolmogorov", "super-resolution", "pino-ttop", status=memory, **failed))
    return rows


def trajectory(frames: int, size: int, seed: int) -> np.ndarray:
    """Drifting waves (frames, size, size) of many lengths."""
    rng = np.random.default_rng(seed)
    r, t = np.arange(size) / size, np.linspace(0, 1, frames)[:, None, None]
    total = np.zeros((frames, size, size))
    for k in range(-5, 6):
        for m in range(1, 6):
            phase = 2 * np.pi * (k * r[:, None] + m * r + rng.random() + rng.normal() * t)
            total += rng.normal() / (k * k + m * m) * np.sin(phase)
    return 8 * total


def flow_fields(size: int) -> dict[str, np.ndarray]:
    """What flow-fields.npz holds; Kolmogorov flow in one regime only."""
    found: dict[str, np.ndarray] = {}
    for place, frames in (
        ("navier-stokes/in-distribution", 21),
        ("navier-stokes/forcing-shift", 21),
        ("kolmogorov/forcing-shift", 41),
    ):
        truth = torch.from_numpy(trajectory(frames, size, 0)[None, None])
        growing = torch.linspace(0, 1, frames)[:, None, None]
        answers = {
            method: truth + share * growing * torch.from_numpy(trajectory(frames, size, seed))
            for seed, (method, share) in enumerate(
                (("operator-cnn", 0.3), ("ens-contractive-cnn", 0.02)), start=1
            )
        }
        residuals = {name: 3 * (u - truth) + 0.1 for name, u in {"truth": truth, **answers}.items()}
        shown = residuals if place.startswith("kolmogorov") else None
        stored = thinned(2 + 0.2 * np.arange(frames), truth, answers, shown)
        found |= {f"{place}/{item}": values for item, values in stored.items()}
    return found


def fill_flows(target: Path, size: int) -> None:
    """Write rows and trajectories of both flows into a folder of results."""
    for flow in FLOWS:
        lines = [json.dumps(row) for row in flow_rows() if row["experiment"] == flow]
        (target / f"{flow}.jsonl").write_text("\n".join(lines) + "\n")
    np.savez_compressed(target / "flow-fields.npz", **flow_fields(size))
