"""Training a wave corrector: solved problems in shards, then a contraction on its own iterates.

A shard holds problems with their solutions, found by Newton's method from an earlier network's
iterate if there is one, else by damped Newton, and where that fails by continuation in ε from the
linear equation. The loss of one correction is

    ‖u + C(u) − u*‖ / max(‖u − u*‖, 0.05 ‖u*‖)

on iterates that the network itself made: a pool holds problems at different corrections, each with
the factors of its linear part; a problem leaves the pool after `CORRECTIONS` corrections. The
equation commutes with a global phase and with the eight symmetries of the square; both are drawn
anew for every problem that enters the pool. Shards may still be written while training reads them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from neuralsolver.data.wave_media import FAMILIES
from neuralsolver.files import write_whole
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.solvers.sparse_lu import SparseLU
from neuralsolver.solvers.wave_newton import damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import Complex, WaveOperator
from neuralsolver.solvers.wave_solver import corrected, features
from neuralsolver.training.card import CARD, FORMAT
from neuralsolver.training.checkpoint import WAVES, WEIGHTS, load_corrector
from paper.wave_family import WaveFamily

CORRECTIONS = 4
TRAINED = WaveFamily(media=("smooth", *FAMILIES), contrast=(0.1, 0.4), strength=(0.25, 0.95))
"""What the shipped network is trained on; half of its media are smooth."""


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
    answer = newton_krylov(problem, linear, preconditioner="complex", steps=12)
    if not answer.converged:
        answer = damped_newton(problem, linear)
    if answer.converged:
        return answer.u
    u, reached, step = linear, 0.0, problem.strength / 4
    while step > problem.strength / 24:
        aim = min(reached + step, problem.strength)
        answer = damped_newton(replace(problem, strength=aim), u, steps=12)
        if not answer.converged:
            step /= 2
            continue
        u, reached = answer.u, aim
        if reached == problem.strength:
            return u
    return None


def write_shard(
    path: Path,
    family: WaveFamily,
    count: int,
    seed: list[int],
    network: WaveCorrector | None = None,
) -> dict[str, float]:
    """Draw and solve problems, and store those that were solved.

    Args:
        path: Of the .npz file.
        family: What to draw.
        count: Problems to draw.
        seed: Of the random numbers.
        network: An earlier corrector that helps to solve them.

    Returns:
        How many were drawn and solved.
    """
    rng = np.random.default_rng(seed)
    kept: list[tuple[WaveOperator, Complex]] = []
    for _ in range(count):
        problem, factor, linear = family.draw(rng)
        solution = solve_for_training(problem, factor, linear, network)
        if solution is not None:
            kept.append((problem, solution))
    fields = {
        "slowness": np.array([p.slowness for p, _ in kept], np.float32),
        "source": np.array([p.source for p, _ in kept], np.complex64),
        "strength": np.array([p.strength for p, _ in kept]),
        "wavenumber": np.array([p.wavenumber for p, _ in kept]),
        "solution": np.array([p.embed(u) for p, u in kept], np.complex64),
    }
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.savez(file, **fields)  # type: ignore[arg-type]
    partial.rename(path)
    return {"drawn": count, "solved": len(kept)}


@dataclass
class Member:
    """A problem of the pool, its linear factors, and the network's iterate."""

    problem: WaveOperator
    factor: SparseLU
    linear: Complex
    solution: Complex
    u: Complex
    age: int = 0


class Pool:
    """Problems of one size at different corrections."""

    def __init__(self, folder: Path, points: int, size: int, rng: np.random.Generator) -> None:
        self.folder, self.points, self.rng = folder, points, rng
        self.stock: list[tuple[Any, ...]] = []
        self.seen: set[str] = set()
        self.refresh()
        self.members = [self.new() for _ in range(size)] if self.stock else []
        for index, member in enumerate(self.members):
            member.age = -(index % CORRECTIONS)

    def refresh(self) -> None:
        """Read the shards that have been written since."""
        for path in sorted(self.folder.glob(f"{self.points}-*.npz")):
            if path.name not in self.seen:
                self.seen.add(path.name)
                data = np.load(path, allow_pickle=False)
                names = ("slowness", "source", "strength", "wavenumber", "solution")
                self.stock += list(zip(*(data[name] for name in names), strict=True))

    def new(self) -> Member:
        """A problem of the stock, turned by a random symmetry, at its linear solution."""
        slowness, source, strength, wavenumber, solution = self.stock[
            self.rng.integers(len(self.stock))
        ]
        turns, flip = int(self.rng.integers(4)), int(self.rng.integers(2))
        phase = np.exp(2j * math.pi * self.rng.uniform())

        def turned(field: Any) -> Any:
            field = np.rot90(field, turns)
            return np.ascontiguousarray(field.T if flip else field)

        problem = WaveOperator(
            turned(slowness).astype(np.float64),
            turned(source).astype(np.complex128) * phase,
            float(wavenumber),
            float(strength),
        )
        factor = problem.complex_factor(
            np.zeros(math.prod(problem.shape), np.complex128), single_precision=True
        )
        linear = -factor.solve(problem.right_hand_side)
        answer = (turned(solution).astype(np.complex128) * phase)[1:-1, 1:-1].ravel()
        return Member(problem, factor, linear, answer, linear)

    def draw(self, count: int) -> list[Member]:
        """Members of a batch; those that are too old are replaced first."""
        chosen = self.rng.choice(len(self.members), count, replace=False)
        for index in chosen:
            if self.members[index].age >= CORRECTIONS:
                self.members[index] = self.new()
        return [self.members[index] for index in chosen]


def batch_loss(network: WaveCorrector, members: list[Member], signal: str) -> Tensor:
    """The loss of one correction of each member, whose iterate it then is."""
    inputs = [features(m.problem, m.factor, m.linear, m.u, signal)[0] for m in members]
    before = torch.stack([_channels(m.problem, m.u - m.solution) for m in members])
    size = torch.stack([_channels(m.problem, m.solution) for m in members]).flatten(1).norm(dim=1)
    correction = network(torch.stack(inputs))
    after = (before + correction).flatten(1).norm(dim=1)
    for member, change in zip(members, correction.detach().double().numpy(), strict=True):
        member.u = member.u + (change[0] + 1j * change[1])[1:-1, 1:-1].ravel()
        member.age += 1
        if not np.isfinite(member.u).all() or np.abs(member.u).max() > 20:
            member.age = CORRECTIONS
    loss: Tensor = (after / torch.maximum(before.flatten(1).norm(dim=1), 0.05 * size)).mean()
    return loss


def _channels(problem: WaveOperator, u: Complex) -> Tensor:
    field = problem.embed(u)
    return torch.from_numpy(np.stack([field.real, field.imag]).astype(np.float32))


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
    """Train for a number of CPU minutes, with a checkpoint every two.

    Args:
        folder: Of the shards.
        output: Folder for the card and the weights.
        minutes: CPU minutes.
        signal: What the network reads of its error: "preconditioned", "raw" or "none".
        rate: Largest learning rate, of a cosine.
        start: Folder of a network to continue from.
        arguments: Of the network.
    """
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    network = WaveCorrector(**(arguments or {}))
    if start is not None:
        network.load_state_dict(load_corrector(start).state_dict())
    average = deepcopy(network)
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=1e-3)
    pools = [(Pool(folder, 64, 64, rng), 16)]
    begun, batches, losses, saved = time.process_time(), 0, [1.0], 0.0
    record: dict[str, Any] = {"signal": signal, "start": None if start is None else start.name}
    while (passed := (time.process_time() - begun) / 60) < minutes:
        done = passed / minutes
        if done > 0.6 and len(pools) == 1:
            pools += [(Pool(folder, 96, 16, rng), 6), (Pool(folder, 128, 8, rng), 3)]
            pools = [pool for pool in pools if pool[0].members]
        pool, count = pools[0 if rng.uniform() < 0.6 else rng.integers(len(pools))]
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, batches / 100) * (0.02 + 0.98 * math.cos(done * 1.5) ** 2)
        optimiser.zero_grad()
        loss = batch_loss(network, pool.draw(count), signal)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        batches += 1
        losses.append(0.98 * losses[-1] + 0.02 * min(float(loss.detach()), 2.0))
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, max(0.003, 1 / (batches + 1)))
        if passed - saved > 2 or batches % 50 == 0:
            print(f"{passed:.1f} min, {batches} batches, loss {losses[-1]:.3f}", flush=True)
        if passed - saved > 2:
            saved = passed
            pools[0][0].refresh()
            record["cpu_minutes"], record["batches"] = round(passed, 1), batches
            save_corrector(average, output, record)
    save_corrector(average, output, {**record, "cpu_minutes": minutes, "batches": batches})


def save_corrector(network: WaveCorrector, folder: Path, record: dict[str, Any]) -> None:
    """Write a model folder, in half precision.

    Args:
        network: The corrector.
        folder: Where a card and the weights go.
        record: What the card says beside the arguments of the network.
    """
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
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=11)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "train":
        train(given.folder, given.output, given.minutes, signal=given.signal,
              start=given.start, rate=given.rate)  # fmt: skip
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    earlier = None if given.start is None else load_corrector(given.start)
    shard = 0
    while time.process_time() < 60 * given.minutes:
        points, count = ((64, 40), (96, 12), (64, 40), (128, 6))[shard % 4]
        path = given.folder / f"{points}-{given.seed}-{shard:03d}.npz"
        if not path.exists():
            family = replace(TRAINED, points=points)
            found = write_shard(path, family, count, [given.seed, shard], earlier)
            print(path.name, found, flush=True)
        shard += 1


if __name__ == "__main__":
    main()
