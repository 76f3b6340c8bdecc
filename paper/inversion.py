"""Permeability from heads in wells: ENS beside ensemble smoothers, modes and chains.

A cell is a prior, a number of wells, a noise level and a grid; a row is one method on the instances
of one cell. Scores of P(a = high), clipped to [0.001, 0.999]: cross-entropy, share of wrong cells,
expected calibration error over ten bins. Methods were tuned on seed 77; rows are of seed 20412.

    python -m paper inversion --cell targets --method ens --method es-mda-200x6
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from neuralsolver.inversion.chain import run_chains
from neuralsolver.inversion.corrector import Corrector
from neuralsolver.inversion.ens import network_probability, network_samples
from neuralsolver.inversion.ensemble import smooth_ensemble
from neuralsolver.inversion.forward import HeadModel, WellData, embed, solve_heads
from neuralsolver.inversion.gauss_newton import gauss_newton_samples, total_variation
from neuralsolver.inversion.priors import Prior
from neuralsolver.limits import Choice
from neuralsolver.training.checkpoint import load_model, read_card
from paper.rows import append_row, read_rows

Array = npt.NDArray[np.float64]
Row = dict[str, Any]
Answer = tuple[Array, Row]
"""The probability of the high phase in every cell, and notes."""
Method = Callable[[WellData, int, Path], Answer]
"""Given the data, a seed and the folder of the network."""

SEED, SOURCE = 20_412, 100.0
BINARY = ("two-phase", "channels", "ellipses")
RANKED = 19
"""Samples of u: the interval from the least to the greatest of 19 covers 90 %."""


@dataclass(frozen=True)
class Cell:
    """What is drawn (`prior`, `inverse_length`, `high`, `noise`) and what is assumed of it."""

    group: str
    prior: str
    wells: int = 64
    noise: float = 0.01
    resolution: int = 64
    instances: int = 100
    inverse_length: float = 3.0
    high: float = 12.0
    assumed_noise: float | None = None
    first_key: int = 0

    def instance(self, seed: int, index: int) -> tuple[WellData, Array]:
        """The data and the true permeability."""
        key = [seed, BINARY.index(self.prior), self.wells, round(1e4 * self.noise), self.first_key]
        rng = np.random.default_rng(np.random.SeedSequence([*key, index]))
        n = self.resolution
        drawn = Prior(self.prior, 3.0, self.high, self.inverse_length).draw(rng, n)[0]
        inner = rng.choice((n - 2) ** 2, self.wells, replace=False)
        positions = (1.0 + np.stack(np.divmod(inner, n - 2), 1)) / (n - 1)
        heads = HeadModel(positions, n, SOURCE).heads(drawn[None])[0]
        size = float(np.sqrt(np.mean(heads**2)))
        heads = heads + self.noise * size * rng.standard_normal(self.wells)
        noise = self.noise if self.assumed_noise is None else self.assumed_noise
        given = np.full(self.wells, noise * size)
        none = np.zeros((0, 2), dtype=np.int64)
        prior = Prior(self.prior, 3.0, self.high)
        return WellData(prior, n, SOURCE, positions, heads, given, none, np.zeros(0)), drawn


GRID_WELLS, GRID_NOISE = (16, 64, 200, 500), (0.0, 0.01, 0.05)
CELLS = (
    *(Cell("targets", name) for name in BINARY),
    *(Cell("targets-few", name, instances=16) for name in BINARY),
    *(
        Cell("grid", name, wells, noise, instances=4, first_key=1)
        for name in BINARY
        for wells in GRID_WELLS
        for noise in GRID_NOISE
    ),
    Cell("anchor", "two-phase", 500, 0.0, 128, instances=4),
    Cell("shift-length", "two-phase", instances=16, inverse_length=6.0, first_key=2),
    Cell("shift-contrast", "two-phase", instances=16, high=30.0, first_key=3),
    Cell("shift-noise", "two-phase", noise=0.03, assumed_noise=0.01, instances=16, first_key=4),
    *(Cell("chain", name, instances=1) for name in BINARY),
)


@cache
def _network(folder: Path) -> Corrector:
    network: Corrector = load_model(folder)[0]
    return network


def _share(data: WellData, fields: Array) -> Array:
    cut = np.sqrt(data.prior.low * data.prior.high)
    values: Array = (fields > cut).mean(0)
    return values


def _smoother(members: int, steps: int, radius: float | None = None) -> Method:
    def answer(data: WellData, seed: int, model: Path) -> Answer:
        return _share(data, smooth_ensemble(data, members, steps, seed=seed, radius=radius)), {}

    return answer


def _ens_samples(data: WellData, seed: int, model: Path) -> Answer:
    fields, marginal = network_samples(_network(model), data, RANKED, seed)
    return marginal, {"fields": fields}


def _chain(data: WellData, seed: int, model: Path) -> Answer:
    found = run_chains(data, 3_000, rungs=6, keep=300, seed=seed)
    notes = {"r_hat": found.r_hat, "effective": found.effective, "solves": found.solves}
    return _share(data, found.samples), notes


METHODS: dict[str, Method] = {
    "ens": lambda data, seed, model: (network_probability(_network(model), data), {}),
    "ens-samples": _ens_samples,
    "es-mda-200x6": _smoother(200, 6),
    "es-mda-200x6-localised": _smoother(200, 6, 0.6),
    "es-mda-1000x8": _smoother(1000, 8),
    "laplace": lambda data, seed, model: (
        _share(data, gauss_newton_samples(data, 200, seed=seed, sampling="laplace")),
        {},
    ),
    "total-variation": lambda data, seed, model: (
        (total_variation(data) - data.prior.low) / (data.prior.high - data.prior.low),
        {},
    ),
    "chain": _chain,
}


def measure_cell(cell: Cell, methods: Sequence[str], seed: int, model: Path) -> list[Row]:
    """A row a method, which take turns on every instance: scores, and CPU seconds an instance."""
    each: dict[str, list[Row]] = {method: [] for method in methods}
    pairs: dict[str, list[Array]] = {method: [] for method in methods}
    for index in range(cell.instances):
        data, true = cell.instance(seed, index)
        high = true > data.prior.low
        for method in methods:
            begin = time.process_time()
            probability, notes = METHODS[method](data, index, model)
            seconds = time.process_time() - begin
            if "fields" in notes:
                fields = notes.pop("fields")
                notes |= {"coverage": _coverage(fields, true)}
                notes |= {"misfit": float(data.misfit(fields).mean())}
            p = np.clip(probability, 1e-3, 1 - 1e-3)
            entropy = float(-np.log(np.where(high, p, 1 - p)).mean())
            wrong = float(((p > 0.5) != high).mean())
            scores = {"cross_entropy": entropy, "wrong": wrong, "seconds": seconds}
            each[method].append({**scores, **notes})
            pairs[method].append(np.stack([probability.ravel(), high.ravel()]))
    rows = []
    for method, found in each.items():
        entropies, wrongs, times = (
            [one.pop(name) for one in found] for name in ("cross_entropy", "wrong", "seconds")
        )
        row: Row = {
            **asdict(cell),
            "method": method,
            "seed": seed,
            "cross_entropy": float(np.mean(entropies)),
            "wrong": float(np.mean(wrongs)),
            "calibration": calibration_error(*np.concatenate(pairs[method], 1)),
            "seconds": float(np.mean(times)),
            "each": [round(value, 4) for value in entropies],
            **{name: [round(float(one[name]), 4) for one in found] for name in found[0]},
        }
        if method.startswith("ens"):
            row |= {"minutes": read_card(model)["training"]["minutes"], "model": model.name}
        rows.append(row)
    return rows


def _coverage(fields: Array, true: Array) -> float:
    """The share of interior vertices at which the true head is within the range of the samples."""
    n = len(true)
    heads = np.stack([solve_heads(a, SOURCE) for a in fields])
    exact = embed(solve_heads(true, SOURCE).reshape(1, -1), n)[0, 1:-1, 1:-1]
    return float(((exact >= heads.min(0)) & (exact <= heads.max(0))).mean())


def calibration_error(probability: Array, high: Array) -> float:
    """Expected calibration error over ten equal bins."""
    which = np.minimum((10 * probability).astype(int), 9)
    gaps = np.bincount(which, probability - high, minlength=10)
    return float(np.abs(gaps).sum() / len(which))


def inversion(
    *,
    cell: Annotated[list[str] | None, typer.Option(help="A group of cells; repeatable.")] = None,
    prior: Annotated[str | None, typer.Option(help="Only this prior.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="A method; repeatable.")] = None,
    model: Annotated[Path, typer.Option(help="Folder of the network.")] = Path(
        "neuralsolver/weights/darcy-inversion"
    ),
    seed: Annotated[int, typer.Option(help="Of the instances; tune on 77.")] = SEED,
    results: Annotated[Path, typer.Option(help="Folder of the rows.")] = Path("results/desk"),
) -> None:
    """Measure the rows that are missing, and print each."""
    for name in method or ():
        Choice(METHODS).read("--method", name)
    file = results / "inversion.jsonl"
    done = [_key(row) for row in read_rows(file)]
    for chosen in CELLS:
        if (cell and chosen.group not in cell) or (prior and chosen.prior != prior):
            continue
        missing = [
            name
            for name in method or METHODS
            if (name != "laplace" or chosen.prior == "two-phase")
            and _key({**asdict(chosen), "method": name, "seed": seed, "model": model.name})
            not in done
        ]
        for row in measure_cell(chosen, missing, seed, model) if missing else ():
            append_row(file, row)
            shown = ("group", "prior", "wells", "noise", "method", "cross_entropy", "wrong")
            print({k: row[k] for k in (*shown, "calibration", "seconds")}, flush=True)


def _key(row: Row) -> tuple[Any, ...]:
    """What tells a row from the others; classical methods have no model."""
    cell = [row[name] for name in asdict(CELLS[0])]
    model = row["model"] if row["method"].startswith("ens") else ""
    return (*cell, row["method"], row["seed"], model)
