"""Markov chains over the normals of a prior: preconditioned Crank-Nicolson, tempered.

    ξ' = √(1 − β²) ξ + β ζ,  ζ ~ N(0, I);   accepted with min(1, exp((Φ(ξ) − Φ(ξ')) / T))

leaves N(0, I) weighted by exp(−Φ/T) unchanged, Φ = ½‖R^(−½)(d − G)‖², whatever the number of
normals. A ladder of temperatures T = 1 … T_max runs side by side and neighbours are exchanged, so
that the cold chain leaves a mode. In every other move ζ renews a random part of the numbers only:
few of a large field's modes, or one channel. The chain is asymptotically exact; R̂ and the
effective number of samples (of the logarithm of the likelihood and of cells) say how far it is
from that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuralsolver.inversion.forward import WellData
from neuralsolver.samplers.exact import effective_size

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChainResult:
    """What `run_chains` kept.

    Args:
        samples: Permeabilities (chains · kept, n, n).
        r_hat: The largest R̂ of Φ and of 16 block means of the field.
        effective: The smallest effective number of samples of the same.
        solves: Forward solves in all.
    """

    samples: Array
    r_hat: float
    effective: float
    solves: int


def run_chains(
    data: WellData,
    steps: int = 20_000,
    *,
    chains: int = 2,
    rungs: int = 6,
    hottest: float = 200.0,
    keep: int = 100,
    seed: int = 0,
    start: Array | None = None,
) -> ChainResult:
    """Tempered chains from independent starts; the first half of each is burn-in.

    Args:
        data: The problem.
        steps: Moves of every rung of every chain.
        chains: Independent chains, at least 2 for R̂.
        rungs: Temperatures of the ladder.
        hottest: The highest temperature.
        keep: Samples to keep of each chain.
        seed: Of everything.
        start: Normals (any number, dimension) to start from instead of the prior.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(41,)))
    results = [_one(data, steps, rungs, hottest, keep, rng, start) for _ in range(chains)]
    traces = np.stack([trace for _, trace in results])  # (chains, kept, quantities)
    samples = np.concatenate([fields for fields, _ in results])
    r_hat = float(np.max([gelman_rubin(traces[:, :, q]) for q in range(traces.shape[2])]))
    sizes = [sum(effective_size(trace[:, q]) for trace in traces) for q in range(traces.shape[2])]
    return ChainResult(samples, r_hat, float(np.min(sizes)), chains * rungs * (steps + 1))


def _one(
    data: WellData,
    steps: int,
    rungs: int,
    hottest: float,
    keep: int,
    rng: np.random.Generator,
    start: Array | None,
) -> tuple[Array, Array]:
    prior, n = data.prior, data.resolution
    size = prior.dimension(n)
    temperatures = np.geomspace(1.0, hottest, rungs)

    def potential(normals: Array) -> tuple[float, Array]:
        a = data.fix(prior.fields(normals[None], n))
        missed = (data.heads - data.model.heads(a)[0]) / data.safe_noise
        return float(missed @ missed) / 2, a[0]

    states = rng.standard_normal((rungs, size))
    if start is not None:
        states = start[rng.integers(len(start), size=rungs)].copy()
    found = [potential(state) for state in states]
    values, fields = np.array([f[0] for f in found]), [f[1] for f in found]
    rates = np.full((rungs, 2), 0.2)
    kept, trace = [], []
    every = max(1, steps // 2 // keep)
    for step in range(steps):
        for rung in range(rungs):
            kind = step % 2
            rate = rates[rung, kind]
            part = np.ones(size) if kind == 0 else (rng.random(size) < max(2 / size, 0.05))
            beta = rate * part
            trial = np.sqrt(1 - beta**2) * states[rung] + beta * rng.standard_normal(size)
            value, field = potential(trial)
            chance = np.exp(min(0.0, (values[rung] - value) / temperatures[rung]))
            if rng.random() < chance:
                states[rung], values[rung], fields[rung] = trial, value, field
            if step < steps // 2:  # adapted during burn-in only
                rates[rung, kind] = min(
                    1.0, rate * np.exp((chance - 0.25) / np.sqrt(1 + step / 20))
                )
        low = int(rng.integers(rungs - 1)) if rungs > 1 else 0
        if rungs > 1:
            gain = (values[low] - values[low + 1]) * (
                1 / temperatures[low] - 1 / temperatures[low + 1]
            )
            if rng.random() < np.exp(min(0.0, gain)):
                for table in (states, values):
                    table[[low, low + 1]] = table[[low + 1, low]]
                fields[low], fields[low + 1] = fields[low + 1], fields[low]
        if step >= steps // 2 and (step - steps // 2) % every == 0:
            kept.append(fields[0].copy())
            trace.append([values[0], *_blocks(fields[0])])
    return np.stack(kept), np.array(trace)


def _blocks(field: Array) -> Array:
    """The mean logarithm over 4 × 4 blocks, (16,)."""
    parts = [np.array_split(rows, 4, axis=1) for rows in np.array_split(np.log(field), 4)]
    return np.array([part.mean() for row in parts for part in row])


def gelman_rubin(traces: Array) -> float:
    """R̂ of chains (chains, length), each split in halves."""
    half = traces.shape[1] // 2
    split = np.concatenate([traces[:, :half], traces[:, half : 2 * half]])
    within = split.var(axis=1, ddof=1).mean()
    between = half * split.mean(1).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt((half - 1) / half + between / (half * within)))
