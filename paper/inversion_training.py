"""Train the corrector of wells on policy.

A batch holds fresh fields of all priors with as many wells each, at random places, with a random
noise level; in a third of them some cells are known. The iteration starts from the prior mean and
makes 3 to 8 corrections:

    L_k = cross-entropy of sigmoid(ℓ_{k+1}) and the phases, over the cells that are not known

Each is followed by an update, and the next correction starts from what this one answered. The
cross-entropy is a proper score: its minimum is the posterior probability of every cell, given what
the network reads.

    python -m paper.inversion_training FOLDER --minutes 60
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from neuralsolver.equations import Darcy, generator
from neuralsolver.inversion.corrector import KINDS, Corrector
from neuralsolver.inversion.forward import HeadModel, WellData
from neuralsolver.inversion.mismatch import GRID, Wells, prior_moments, signal_channels
from neuralsolver.inversion.priors import Array, Prior
from neuralsolver.training.checkpoint import Card, load_model, save_model
from neuralsolver.training.fit import fit
from neuralsolver.training.plan import Plan

SOURCE = 100.0
CORRECTIONS = (3, 4, 4, 5, 8)


@dataclass(frozen=True, eq=False)
class WellBatch:
    """Problems, their phases (B, GRID, GRID), which cells are known, and corrections to make."""

    problems: list[Wells]
    phases: Tensor
    known: Tensor
    steps: int

    def losses(self, network: Corrector) -> Iterator[Tensor]:
        """The cross-entropy after every correction."""
        means = torch.tensor([problem.mean for problem in self.problems])
        logit = torch.logit(means)[:, None, None].expand(-1, GRID, GRID)
        for _ in range(self.steps):
            read = [
                signal_channels(*row, network.signal)
                for row in zip(self.problems, logit, self.known, self.phases, strict=True)
            ]
            fields, scalars = (torch.stack(part) for part in zip(*read, strict=True))
            following = network(fields, scalars)
            missed = binary_cross_entropy_with_logits(following, self.phases, reduction="none")
            yield (missed * (1 - self.known)).sum() / (1 - self.known).sum()
            logit = following.detach()


@dataclass(frozen=True, eq=False)
class RandomWells:
    """Fresh batches, each a function of seed and number.

    Args:
        network: Whose prior moments and signal the problems have.
        names: The priors, in turn.
    """

    network: Corrector
    names: tuple[str, ...] = KINDS

    def draw(self, seed: int, number: int, share: Any) -> WellBatch:
        """The rows `share` of a batch."""
        rng = generator(seed, 6, number)
        common = rng.random() < 0.5
        count = 64 if common else round(float(np.exp(rng.uniform(np.log(8), np.log(500)))))
        steps = 1 if self.network.signal == "none" else int(rng.choice(CORRECTIONS))
        problems, phases, known = [], [], np.zeros((len(share), GRID * GRID))
        for row, index in enumerate(share):
            own = generator(seed, 7, number, index)
            level = float(np.exp(own.uniform(np.log(5e-4), np.log(0.06))))
            level = 0.01 if own.random() < 0.4 else level
            prior = Prior(self.names[index % len(self.names)])
            wells, true = random_wells(self.network, prior, own, count, level)
            problems.append(wells)
            phases.append(true)
            if own.random() < 1 / 3:
                cells = round(float(np.exp(own.uniform(0, np.log(1500)))))
                known[row, own.choice(GRID * GRID, cells, replace=False)] = 1.0
        return WellBatch(
            problems,
            torch.from_numpy(np.stack(phases)).float(),
            torch.from_numpy(known).float().view(-1, GRID, GRID),
            steps,
        )


def random_wells(
    network: Corrector, prior: Prior, rng: np.random.Generator, count: int, noise: float
) -> tuple[Wells, Array]:
    """A random problem with `count` wells and relative noise, and its true phases."""
    a = prior.draw(rng, GRID)[0]
    positions = rng.uniform(0.01, 0.99, (count, 2))
    if rng.random() < 0.7:  # at grid points
        positions = np.clip(np.rint(positions * (GRID - 1)), 1, GRID - 2) / (GRID - 1)
    heads = HeadModel(positions, GRID, SOURCE).heads(a[None])[0]
    deviation = np.full(count, noise * np.sqrt(np.mean(heads**2)))
    heads = heads + deviation * rng.standard_normal(count)
    none = np.zeros((0, 2), dtype=np.int64)
    data = WellData(prior, GRID, SOURCE, positions, heads, deviation, none, np.zeros(0))
    return network.wells(data), (a > prior.low).astype(np.float64)


def set_moments(network: Corrector, seed: int = 4) -> None:
    """Measure mean and covariance of each prior on 2,000 draws."""
    rng = np.random.default_rng(seed)
    for kind, name in enumerate(KINDS):
        mean, spectrum = prior_moments((Prior(name).draw(rng, GRID, 2000) > 5.0).astype(np.float64))
        network.means[kind], network.spectra[kind] = mean, spectrum


def train_inversion(
    folder: Path,
    minutes: float,
    seed: int = 1,
    signal: str = "kalman",
    names: tuple[str, ...] = KINDS,
    start: Path | None = None,
    **arguments: Any,
) -> Corrector:
    """Train for so many CPU minutes; an interrupted run goes on from its state.

    Args:
        folder: Where the model, and the state of the run under it, are written.
        minutes: CPU minutes of one thread.
        seed: Of weights and problems.
        signal: What of the mismatch the network reads, one of SIGNALS.
        names: The priors it learns.
        start: Folder of a model whose weights it starts from, as those that are shipped.
        arguments: Of the network, and `batch_size`.
    """
    size = arguments.pop("batch_size", 16)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Corrector(signal=signal, **arguments)
    set_moments(network)
    if start is not None:
        network.load_state_dict(load_model(start)[0].state_dict())
    plan = Plan(
        objective="own_losses",
        budget_minutes=minutes,
        batch_size=size,
        learning_rate=1e-3,
        ema=0.998,
        update_each_loss=True,
        seed=seed,
    )
    record = fit(network, RandomWells(network, names), plan, folder / "run")
    how = {
        "recipe": "inversion",
        "minutes": round(record.seconds / 60, 1),
        "batches": record.batches,
        "loss": record.losses,
        "priors": list(names),
        "start": "" if start is None else start.name,
    }
    save_model(folder, network, Card(Darcy(), GRID, {"training": how}), half=True)
    return network


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--signal", default="kalman")
    parser.add_argument("--priors", default=",".join(KINDS))
    parser.add_argument("--start", type=Path, default=None)
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = tuple(given.priors.split(","))
    train_inversion(given.folder, given.minutes, given.seed, given.signal, names, given.start)


if __name__ == "__main__":
    main()
