"""Training a wave corrector: solved problems in shards, then a contraction on its own iterates.

A shard holds problems with their solutions, found by Newton's method from an earlier network's
iterate if there is one, else by classical methods. The loss of one correction is

    ‖u + C(u) − u*‖ / max(‖u − u*‖, 0.05 ‖u*‖)

on iterates that the network itself made: a pool holds problems at different corrections, each with
the factors of its linear part; a problem leaves the pool after `CORRECTIONS` corrections. The
equation commutes with a global phase and with the eight symmetries of the square; both are drawn
anew for every problem that enters the pool.

    python -m paper.wave_training data FOLDER --minutes 26
    python -m paper.wave_training train FOLDER --output MODEL --minutes 48
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from benchmarks.wave_rivals import continuation
from benchmarks.waves import WaveFamily
from neuralsolver.data.wave_media import FAMILIES
from neuralsolver.files import write_whole
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.solvers.sparse_lu import SparseLU
from neuralsolver.solvers.wave_newton import damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import Complex, WaveOperator, inner
from neuralsolver.solvers.wave_solver import corrected, features
from neuralsolver.training.card import CARD, FORMAT
from neuralsolver.training.checkpoint import WAVES, WEIGHTS, load_corrector
from neuralsolver.training.fit import fit
from neuralsolver.training.plan import Plan

CORRECTIONS = 4
SIZES = (64, 96, 128)
TRAINED = WaveFamily(media=("smooth", *FAMILIES), contrast=(0.1, 0.4), strength=(0.25, 0.95))
"""What the shipped network is trained on; half of its media are smooth."""
FIELDS = ("slowness", "source", "strength", "wavenumber", "solution")


def solve_for_training(
    problem: WaveOperator, factor: SparseLU, linear: Complex, network: WaveCorrector | None
) -> Complex | None:
    """A solution, or None where no method finds one.

    Args:
        problem: In units in which the linear solution has a maximum of 1.
        factor: Of its linear part.
        linear: The linear solution.
        network: An earlier corrector: ten times faster than the classical methods, and it solves
            problems that they do not.
    """
    if network is not None:
        answer = newton_krylov(problem, corrected(network, problem, factor, linear)[0])
        if answer.converged:
            return answer.u
    answer = newton_krylov(problem, linear, steps=12)
    for method in (damped_newton, continuation):
        if not answer.converged:
            answer = method(problem, linear)
    return answer.u if answer.converged else None


def write_shard(
    path: Path,
    family: WaveFamily,
    count: int,
    seed: list[int],
    network: WaveCorrector | None = None,
) -> int:
    """Draw `count` problems, store those that were solved in an .npz file, and count these."""
    rng = np.random.default_rng(seed)
    kept: list[tuple[Any, ...]] = []
    for _ in range(count):
        problem, factor, linear = family.draw(rng)
        u = solve_for_training(problem, factor, linear, network)
        if u is not None:
            given = (problem.slowness, problem.source, problem.strength, problem.wavenumber)
            kept.append((*given, problem.embed(u)))
    types = (np.float32, np.complex64, np.float64, np.float64, np.complex64)
    columns: Any = zip(*kept, strict=True) if kept else [[]] * len(types)
    arrays = [np.array(column, dtype) for column, dtype in zip(columns, types, strict=True)]
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.savez(file, **dict(zip(FIELDS, arrays, strict=True)))  # type: ignore[arg-type]
    partial.rename(path)
    return len(kept)


@dataclass
class Member:
    """A problem of the pool, its linear factors, and the network's iterate."""

    problem: WaveOperator
    factor: SparseLU
    linear: Complex
    solution: Complex
    u: Complex
    age: int


@dataclass
class WaveBatch:
    """Members of a pool, and what the network reads of its error."""

    members: list[Member]
    signal: str

    def losses(self, network: WaveCorrector) -> Iterator[Tensor]:
        """The loss of one correction of each member, whose iterate it then is."""
        read = [features(m.problem, m.factor, m.linear, m.u, self.signal)[0] for m in self.members]
        before = torch.stack([_channels(m.problem, m.u - m.solution) for m in self.members])
        size = torch.stack([_channels(m.problem, m.solution) for m in self.members])
        correction = network(torch.stack(read))
        after = (before + correction).flatten(1).norm(dim=1)
        least = 0.05 * size.flatten(1).norm(dim=1)
        yield (after / torch.maximum(before.flatten(1).norm(dim=1), least)).mean()
        for member, change in zip(self.members, correction.detach().double().numpy(), strict=True):
            member.u = member.u + inner(change[0] + 1j * change[1])
            member.age += 1
            if not np.isfinite(member.u).all() or np.abs(member.u).max() > 20:
                member.age = CORRECTIONS


def _channels(problem: WaveOperator, u: Complex) -> Tensor:
    field = problem.embed(u)
    return torch.from_numpy(np.stack([field.real, field.imag]).astype(np.float32))


class Pools:
    """Batches of problems at different corrections, five of six of the smallest box.

    A run that is continued starts with new pools.

    Args:
        folder: Of the shards.
        signal: What the network reads of its error.
        batch_size: Of the smallest box; batches of larger boxes have as many points.
    """

    def __init__(self, folder: Path, signal: str, batch_size: int) -> None:
        self.signal, self.rng = signal, np.random.default_rng(0)
        self.stock: dict[int, list[tuple[Any, ...]]] = {}
        for points in SIZES:
            shards = [np.load(path) for path in sorted(folder.glob(f"{points}-*.npz"))]
            rows = [zip(*(shard[name] for name in FIELDS), strict=True) for shard in shards]
            self.stock |= {points: [one for shard in rows for one in shard]} if rows else {}
        self.counts = {points: max(1, batch_size * 64**2 // points**2) for points in self.stock}
        self.members = {
            points: [self._new(points, -(i % CORRECTIONS)) for i in range(4 * count)]
            for points, count in self.counts.items()
        }

    def draw(self, seed: int, number: int, share: Any) -> WaveBatch:
        """The next batch; members that are too old are replaced first."""
        sizes = list(self.members)
        points = sizes[0 if self.rng.uniform() < 5 / 6 else self.rng.integers(len(sizes))]
        pool = self.members[points]
        chosen = self.rng.choice(len(pool), self.counts[points], replace=False)
        for index in chosen:
            if pool[index].age >= CORRECTIONS:
                pool[index] = self._new(points)
        return WaveBatch([pool[index] for index in chosen], self.signal)

    def _new(self, points: int, age: int = 0) -> Member:
        """A problem of the stock, turned by a random symmetry, at its linear solution."""
        stock = self.stock[points]
        slowness, source, strength, wavenumber, u = stock[self.rng.integers(len(stock))]
        turns, flip = int(self.rng.integers(4)), int(self.rng.integers(2))
        phase = np.exp(2j * math.pi * self.rng.uniform())

        def turned(field: Any) -> Any:
            field = np.rot90(field, turns)
            return np.ascontiguousarray(field.T if flip else field)

        medium, source = turned(slowness).astype(np.float64), turned(source).astype(np.complex128)
        problem = WaveOperator(medium, phase * source, float(wavenumber), float(strength))
        nothing = np.zeros(math.prod(problem.shape), np.complex128)
        factor = problem.complex_factor(nothing, single_precision=True)
        linear = -factor.solve(problem.right_hand_side)
        solution = phase * inner(turned(u).astype(np.complex128))
        return Member(problem, factor, linear, solution, linear, age)


def train(
    folder: Path,
    output: Path,
    minutes: float,
    *,
    signal: str = "preconditioned",
    rate: float = 1e-3,
    start: Path | None = None,
    arguments: dict[str, Any] | None = None,
) -> None:
    """Train for a number of CPU minutes; the run is in the folder `run` of the output.

    Args:
        folder: Of the shards.
        output: Folder for the card and the weights.
        minutes: CPU minutes.
        signal: What the network reads of its error: "preconditioned", "raw" or "none".
        rate: Largest learning rate.
        start: Folder of a network to start from.
        arguments: Of the network.
    """
    torch.manual_seed(0)
    network = WaveCorrector(**(arguments or {}))
    if start is not None:
        network.load_state_dict(load_corrector(start).state_dict())
    plan = Plan(objective="own_losses", budget_minutes=minutes, learning_rate=rate,
                weight_decay=1e-3, ema=0.99)  # fmt: skip
    record = fit(network, Pools(folder, signal, plan.batch_size), plan, output / "run")
    how = {"signal": signal, "start": None if start is None else start.name}
    save_corrector(network, output, {**how, "cpu_minutes": minutes, "batches": record.batches})


def save_corrector(network: WaveCorrector, folder: Path, record: dict[str, Any]) -> None:
    """Write a model folder in half precision; its card also says what is in `record`."""
    weights = {name: value.detach().half() for name, value in network.state_dict().items()}
    data = safetensors.torch.save(weights)
    card = {
        "format": FORMAT,
        "kind": WAVES,
        "arguments": network.arguments,
        "sha256": hashlib.sha256(data).hexdigest(),
        **record,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, data)
    write_whole(folder / CARD, (json.dumps(card, indent=1) + "\n").encode())


def main() -> None:
    """`python -m paper.wave_training data|train ...`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("data", "train"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--signal", default="preconditioned")
    parser.add_argument("--start", type=Path)
    parser.add_argument("--seed", type=int, default=11)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "train":
        train(given.folder, given.output, given.minutes, signal=given.signal, start=given.start)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    earlier = None if given.start is None else load_corrector(given.start)
    shard = 0
    while time.process_time() < 60 * given.minutes:
        points, count = ((64, 40), (96, 12), (64, 40), (128, 6))[shard % 4]
        path = given.folder / f"{points}-{given.seed}-{shard:03d}.npz"
        if not path.exists():
            family = replace(TRAINED, points=points)
            solved = write_shard(path, family, count, [given.seed, shard], earlier)
            print(f"{path.name}: {solved} of {count} solved", flush=True)
        shard += 1


if __name__ == "__main__":
    main()
