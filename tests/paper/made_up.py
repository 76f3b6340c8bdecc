"""A results folder with made-up numbers: every experiment, every method, every way to end."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from paper.typeset import Table, lines
from tests.paper.made_up_flows import fill_flows

PAPER_REGIMES = {
    "helmholtz": ("in-distribution", "shift", "cross-equation", "super-resolution"),
    "poisson": ("in-distribution", "shift", "cross-equation", "super-resolution"),
    "darcy": ("in-distribution", "shift", "super-resolution"),
    "nonlinear-helmholtz": ("in-distribution", "shift", "super-resolution"),
}
BEYOND = {
    "helmholtz": ("kappa-4.2", "kappa-4.4", "kappa-4.5", "kappa-6", "noisy-input"),
    "poisson": ("wrong-constant",),
    "darcy": ("contrast", "noisy-input"),
    "nonlinear-helmholtz": (),
}
HARDNESS = {"in-distribution": 1.0, "shift": 12.0, "cross-equation": 25.0, "super-resolution": 5.0}

BUDGET = {"minutes": 18.0, "batches": 4095, "weights": 1_900_000, "clock": "CPU"}
# first error, factor per step, steps, milliseconds
METHODS: dict[str, tuple[float, float, int, float]] = {
    "zero": (1.0, 1.0, 0, 0.01),
    "truth": (0.0, 1.0, 0, 0.01),
    "reference": (1e-13, 1.0, 0, 0.1),
    "fno": (1.4e-2, 1.0, 0, 7.0),
    "pino": (4.2e-2, 1.0, 0, 7.1),
    "pino-ttop": (4.2e-2, 0.999, 300, 6000.0),
    "ens": (3e-2, 0.85, 15, 60.0),
    "ens-contractive": (3e-2, 0.15, 20, 110.0),
    "ens-accelerated": (3e-2, 0.1, 15, 150.0),
    "ens-zero-field": (3e-2, 1.05, 20, 55.0),
    "ens-gradient": (3e-2, 0.98, 20, 90.0),
    "ens-residual-loss": (3e-2, 0.95, 20, 60.0),
    "ens-fno": (3e-2, 1.3, 12, 40.0),
    "ens-cnn-fno": (3e-2, 0.87, 20, 45.0),
    "ens-fno-cnn": (3e-2, 0.95, 45, 120.0),
    "ens-unet": (1.5e-1, 0.98, 20, 30.0),
    "operator": (1.8e-2, 1.0, 0, 8.0),
    "operator-pino": (2.3e-2, 1.0, 0, 8.2),
    "operator-ttop": (2.3e-2, 0.999, 300, 7000.0),
}
ABLATED = {name for name in METHODS if name.startswith("ens-")}
ABLATED -= {"ens-contractive", "ens-accelerated"}


def row(experiment: str, regime: str, method: str, **changes: Any) -> dict[str, Any]:
    """One row as `python -m paper evaluate` writes it."""
    start, factor, steps, milliseconds = METHODS.get(method, (0.1, 0.9, 10, 50.0))
    start *= HARDNESS.get(regime, 8.0) ** 0.7 if method not in ("zero", "reference") else 1.0
    errors = [max(start * factor**k, min(start, 1e-15)) for k in range(steps + 1)]
    correction = [None, *(abs(a - b) + 1e-17 for a, b in pairwise(errors))]
    history = {
        "step": list(range(steps + 1)),
        "error": errors,
        "residual": [
            4e4 * e**2 * (0.97**k if "ttop" in method else 1) + 1e-22 for k, e in enumerate(errors)
        ],
        "correction": correction,
    }
    content = {
        "experiment": experiment,
        "regime": regime,
        "method": method,
        "scale": "desk",
        "seed": 0,
        "resolution": 128 if regime == "super-resolution" else 64,
        "samples": 100,
        "error": errors[-1],
        "error_spread": 0.3 * errors[-1],
        "error_worst": 3.0 * errors[-1],
        "residual": history["residual"][-1],
        "steps": float(steps),
        "status": {"FINISHED": 100},
        "seconds_batch_1": 1e-3 * milliseconds,
        "seconds_batch_32": None if "ttop" in method else 4e-4 * milliseconds,
        "history": history if steps else None,
        "machine": "made up",
        "training": BUDGET,
    }
    return {**content, **changes}


def all_rows() -> list[dict[str, Any]]:
    """Rows of every experiment, and the ways in which some of them fail."""
    rows = []
    for experiment, paper in PAPER_REGIMES.items():
        for regime in (*paper, *BEYOND[experiment]):
            for method in METHODS:
                matched = method.startswith("operator")
                if method not in ABLATED and (experiment == "helmholtz" or not matched):
                    rows.append(row(experiment, regime, method))
    for regime in ("in-distribution", "shift", "noisy-input"):
        for method in ("truth", "zero", "ens", *sorted(ABLATED)):
            rows.append(row("ablations", regime, method, resolution=32))
    failed: dict[str, Any] = {"error": None, "residual": None, "history": None}
    for number, end in enumerate(
        ("", "-from-noise", "-from-prediction", "-from-noised-prediction")
    ):
        place = ("nonlinear-helmholtz", "in-distribution")
        status = [{"DIVERGED": 100}, {"DIVERGED": 100}, {"TOLERANCE": 100}][min(number, 2)]
        rows.append(row(*place, f"newton{end}", status=status, **(failed if number < 2 else {})))
        mixed = {"TOLERANCE": 88, "DIVERGED": 12}
        rows.append(row(*place, f"gauss-newton{end}", status=mixed))
    rows.append(row("helmholtz", "kappa-6", "ens", status={"DIVERGED": 100}, **failed))
    rows.append(row("helmholtz", "super-resolution", "ens", status={"PLATEAU": 88, "DIVERGED": 12}))
    rows.append(
        row("darcy", "super-resolution", "pino-ttop", status={"OUT_OF_MEMORY": 100}, **failed)
    )
    unconverged = {"PLATEAU": 60, "STEP_LIMIT": 40}
    rows.append(row("ablations", "in-distribution", "ens-fno", status=unconverged))
    settled = row("ablations", "in-distribution", "ens-unet")
    for quantity in ("error", "residual"):
        begin = settled["history"][quantity][0]
        settled["history"][quantity] = [begin * (0.01 + 0.5**k) for k in range(21)]
    rows.append(settled)
    return rows


def studies() -> dict[str, Any]:
    """The studies by the name of their file."""
    seconds = np.geomspace(0.02, 30, 40)
    rates = {"ens": 1.5, "ens-contractive": 6.0, "pino-ttop": 0.3, "gradient-descent": 0.02}
    rates |= {"pinn": 0.2, "newton": -20.0, "gauss-newton": -12.0, "mystery": 0.6}
    noisy = [
        {
            "method": method,
            "label": method,
            "seconds": seconds.tolist(),
            "residual": (1e6 * np.maximum(np.exp(-rate * seconds), 1e-14)).clip(0, 1e40).tolist(),
            "error": (5 * np.maximum(np.exp(-rate * seconds / 2), 1e-7)).clip(0, 1e30).tolist(),
            "status": "DIVERGED" if rate < 0 else "FINISHED",
        }
        for method, rate in rates.items()
    ]
    spans = 10.0 ** np.arange(1, 9)
    begun = [
        {
            "method": method,
            "start": f"{np.sqrt(begin):.0e} × noise",
            "initial_residual": float(begin),
            "residual": [max(float(begin) * 0.15**k, 1e-3) for k in range(20)],
            "error": [max(1e-3 * float(begin) ** 0.5 * 0.4**k, 1e-5) for k in range(20)],
        }
        for method in ("ens", "ens-contractive")
        for begin in spans
    ]
    powers = {"ENS": (2e-5, 2.0), "reference": (1.5e-5, 2.0)}
    powers |= {"sparse LU": (2e-7, 3.0), "multigrid": (8e-6, 2.05), "CG": (1e-7, 3.1)}
    solve = [
        {
            "family": family,
            "method": f"{family}, {variant}",
            "resolution": n,
            "target": tolerance,
            "seconds": scale * n**power * -np.log10(tolerance) / 6,
            "error": tolerance,
            "reached": family != "CG" or n < 512,
            "best": variant == "fast",
        }
        for variant in ("fast", "slow")
        for family, (scale, power) in powers.items()
        for tolerance in (1e-4, 1e-8)
        for n in (64, 128, 256, 512)
    ]
    conditions = [
        {
            "equation": equation,
            "constants": constants,
            "resolution": 64,
            "smallest": smallest,
            "largest": 3.2e4,
            "condition": 3.2e4 / smallest,
        }
        for equation, constants, smallest in (
            ("poisson", {"scale": 2.0}, 19.7),
            (
                "helmholtz",
                {"wavenumber": 1.0, "nonlinearity": 0.0, "source_amplitude": 100.0},
                18.7,
            ),
            ("helmholtz", {"wavenumber": 3.0}, 10.7),
            ("helmholtz", {"wavenumber": 4.4}, 0.37),
            ("helmholtz", {"wavenumber": 6.0}, 13.3),
            ("darcy", {"low": 3.0, "high": 12.0, "source": 100.0}, 70.1),
        )
    ]
    falling = [
        {
            "experiment": flow,
            "viscosity": viscosity,
            "resolution": n,
            "frames": 20,
            "smallest": 0.1 * (viscosity / 1e-5) ** 0.2,
            "largest": 100.0,
            "condition": 1e3,
            "still": 0.4,
            "floor": 1e-3,
            "gap": 0.02 * (1e-5 / viscosity) ** 0.2,
            "added": 0.5,
            "random": 1e-4,
        }
        for flow in ("navier-stokes", "kolmogorov")
        for viscosity, n in ((1e-3, 32), (5e-4, 64), (1e-4, 32), (1e-5, 32))
    ]
    return {
        "flow-conditioning": falling,
        "noisy-start": {"curves": noisy, "machine": "made up"},
        "starts": {"curves": begun},
        "solve": solve,
        "conditioning": conditions,
    }


def fields(size: int = 64) -> dict[str, np.ndarray]:
    """Fields of some regimes, with snapshots."""
    rng = np.random.default_rng(0)
    x, y = np.meshgrid(*2 * [np.linspace(0, 1, size)], indexing="ij")

    def smooth(waves: int) -> np.ndarray:
        total = np.zeros((size, size))
        for i in range(1, waves):
            for j in range(1, waves):
                mode = np.sin(np.pi * i * x) * np.sin(np.pi * j * y)
                total += rng.normal() / (i * i + j * j) * mode
        return total

    found: dict[str, np.ndarray] = {}
    for place in (
        "helmholtz/cross-equation",
        "helmholtz/super-resolution",
        "poisson/cross-equation",
        "darcy/shift",
    ):
        truth = smooth(6)
        found[f"{place}/input"] = smooth(9) if "darcy" not in place else 3.0 + 9 * (smooth(9) > 0)
        found[f"{place}/truth"] = truth
        for method in ("fno", "pino", "pino-ttop", "ens", "ens-contractive"):
            better = 1e-5 if method == "ens-contractive" else 1.0
            error = METHODS[method][0] * smooth(12) * better
            found[f"{place}/{method}/error"] = error
            if "darcy" not in place:
                found[f"{place}/{method}/residual"] = 40 * error
    for regime, method in (
        ("ablations/in-distribution", "ens-zero-field"),
        ("ablations/in-distribution", "ens"),
        ("helmholtz/shift", "ens"),
        ("helmholtz/in-distribution", "ens-contractive"),
    ):
        start, factor, *_ = METHODS[method]
        for step in (0, 1, 2, 4, 8, 12, 15):
            name, error = f"{regime}/{method}@{step}", smooth(14) * start * factor**step
            found[f"{name}/error"] = error
            found[f"{name}/residual"] = 40 * error + 8 * start * factor**step * smooth(20)
            if step:
                found[f"{name}/correction"] = -error
    return {name: field.astype(np.float32) for name, field in found.items()}


def fill(folder: Path, size: int = 64) -> Path:
    """Write everything under folder/desk."""
    target = folder / "desk"
    target.mkdir(parents=True)
    for experiment in (*PAPER_REGIMES, "ablations"):
        lines = [json.dumps(r) for r in all_rows() if r["experiment"] == experiment]
        (target / f"{experiment}.jsonl").write_text("\n".join(lines) + "\n")
    for name, content in studies().items():
        (target / f"{name}.json").write_text(json.dumps(content))
    np.savez(target / "fields.npz", **fields(size))
    fill_flows(target, size)
    return target


def lines_of(table: Table) -> list[tuple[tuple[str, ...], list[str]]]:
    """The lines of a table: labels and texts."""
    return [
        (tuple(line[: block.index.nlevels]), line[block.index.nlevels :])
        for block in table.blocks
        for line in lines(block)
    ]
