"""ENS for inversion: the posterior probability of every cell, and samples, by reading the mismatch.

    ℓ_{k+1} = C(ℓ_k, mismatch of G(p_k) brought back),   p = sigmoid(ℓ),   ℓ_0 = prior mean

G is solved exactly in every step. `probability` is the marginal of the posterior, by training.

Samples come from the same network as from a masked diffusion: a few random cells are drawn from
the present probability and kept as known, the mismatch of the new expected field is read again,
more cells are drawn, and so on. Cells drawn together share a smooth random threshold (a Gaussian
copula), so that neighbours agree. At the end the edges of a sample are moved until it fits,

    s ← [blur(s) + γ C Jᵀ (J C Jᵀ + R)⁻¹ (d − G(s)) > ½],   γ = 1, ½ or ¼,

as long as that lowers the misfit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.ndimage import gaussian_filter
from scipy.special import ndtr
from torch import Tensor

from neuralsolver.inversion.corrector import Corrector
from neuralsolver.inversion.forward import WellData, interpolation
from neuralsolver.inversion.mismatch import GRID, LARGEST_LOGIT, Wells, _cosines, signal_channels

Array = npt.NDArray[np.float64]

STEPS = 5
"""Corrections from the prior mean."""
KNOWN_SHARES = (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0)
"""The share of the cells that a sample has fixed after each round."""
EDGE_MOVES, EDGE_WIDTH, GOOD_MISFIT = 3, 1.0, 1.2
"""Moves of a sample's edges at the end, their blur in cells, and the misfit that is good enough."""


def correct(
    network: Corrector,
    problems: Sequence[Wells],
    logit: Tensor,
    known: Tensor,
    value: Tensor,
) -> Tensor:
    """One correction of logits (B, 64, 64) of as many problems."""
    read = [
        signal_channels(*row, network.signal)
        for row in zip(problems, logit, known, value, strict=True)
    ]
    fields, scalars = (torch.stack(part) for part in zip(*read, strict=True))
    with torch.inference_mode():
        following = network(fields, scalars)
    fixed = LARGEST_LOGIT * (2 * value - 1)
    return torch.where(known > 0, fixed, following.clone())


def probability(
    network: Corrector,
    wells: Wells,
    known: Tensor | None = None,
    value: Tensor | None = None,
    *,
    steps: int | None = None,
    observe: Callable[[Tensor], None] | None = None,
) -> Tensor:
    """The logits of the high phase on the network's grid, (64, 64).

    Args:
        network: The trained corrector.
        wells: The problem.
        known: 1 where the phase is known.
        value: The phase there.
        steps: Corrections; STEPS, and one for a network that reads no mismatch.
        observe: Is shown the logits after every correction.
    """
    known = torch.zeros(GRID, GRID) if known is None else known
    value = torch.zeros(GRID, GRID) if value is None else value
    logit = torch.full((1, GRID, GRID), float(np.log(wells.mean / (1 - wells.mean))))
    for _ in range(steps or (1 if network.signal == "none" else STEPS)):
        logit = correct(network, [wells], logit, known[None], value[None])
        if observe is not None:
            observe(logit[0])
    return logit[0]


def sample_phases(
    network: Corrector,
    wells: Wells,
    logit: Tensor,
    count: int,
    seed: int,
    known: Tensor | None = None,
    value: Tensor | None = None,
    told: Callable[[float], None] | None = None,
) -> Tensor:
    """`count` samples of the phases, (count, 64, 64) of 0 and 1, given the logits of all cells."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(23,)))
    known = torch.zeros(GRID, GRID) if known is None else known
    value = torch.zeros(GRID, GRID) if value is None else value
    drawn = []
    for index in range(count):
        fixed, phase, present = known.clone(), value.clone(), logit
        order = torch.from_numpy(rng.random((GRID, GRID))).float()
        for share in KNOWN_SHARES:
            last = share == 1.0
            chosen = (order <= share) & (fixed == 0)
            threshold = torch.from_numpy(_thresholds(wells.spectrum, rng, last)).float()
            phase = torch.where(chosen, (present.sigmoid() > threshold).float(), phase)
            fixed = torch.where(chosen, 1.0, fixed)
            if not last:
                state = (present[None], fixed[None], phase[None])
                present = correct(network, [wells], *state)[0]
        drawn.append(fit_heads(wells, phase, known, value))
        if told is not None:
            told((index + 1) / count)
    return torch.stack(drawn)


def fit_heads(wells: Wells, phase: Tensor, known: Tensor, value: Tensor) -> Tensor:
    """A sample (64, 64) whose edges are moved towards the heads; known cells keep their phase."""
    everything, data = torch.ones(GRID, GRID), wells.data

    def misfit(trial: Tensor) -> float:
        return float(data.misfit(wells.permeability(trial.double().numpy())[None])[0])

    reached = misfit(phase)
    for _ in range(EDGE_MOVES if len(data.heads) else 0):
        if reached <= GOOD_MISFIT:
            break
        change = signal_channels(wells, torch.zeros(GRID, GRID), everything, phase)[0][2] / 2
        blurred = torch.from_numpy(gaussian_filter(phase.numpy(), EDGE_WIDTH, mode="nearest"))
        for size in (1.0, 0.5, 0.25):
            trial = torch.where(known > 0, value, (blurred + size * change > 0.5).float())
            if (found := misfit(trial)) < reached:
                phase, reached = trial, found
                break
        else:
            break
    return phase


def _thresholds(spectrum: Tensor, rng: np.random.Generator, smooth: bool) -> Array:
    """A random field, uniform on (0, 1) at every point, with the correlation of the prior."""
    power = spectrum.double().numpy()
    power = power**2 if smooth else power
    cosines = _cosines().double().numpy()
    field = cosines.T @ (np.sqrt(power) * rng.standard_normal((GRID, GRID))) @ cosines
    deviation = np.sqrt((cosines**2).T @ power @ cosines**2)
    uniform: Array = ndtr(field / deviation)
    return uniform


def network_view(network: Corrector, data: WellData) -> tuple[Wells, Tensor, Tensor]:
    """The problem as the network sees it, with the known cells and their phases."""
    known, value = torch.zeros(GRID, GRID), torch.zeros(GRID, GRID)
    if len(data.known):
        cells = np.rint(data.known * (GRID - 1) / (data.resolution - 1)).astype(np.int64)
        known[cells[:, 0], cells[:, 1]] = 1.0
        high = data.values > np.sqrt(data.prior.low * data.prior.high)
        value[cells[:, 0], cells[:, 1]] = torch.from_numpy(high).float()
    return network.wells(data), known, value


def _on_grid(field: Array, resolution: int) -> Array:
    if resolution == GRID:
        return field
    fine = interpolation(GRID, resolution)
    values: Array = fine @ field @ fine.T
    return values


def network_probability(network: Corrector, data: WellData) -> Array:
    """P(a = high) of every vertex, (n, n)."""
    logit = probability(network, *network_view(network, data)).double().numpy()
    values: Array = 1 / (1 + np.exp(-_on_grid(logit, data.resolution)))
    return values


def network_samples(
    network: Corrector,
    data: WellData,
    count: int,
    seed: int,
    told: Callable[[float], None] | None = None,
) -> tuple[Array, Array]:
    """Permeabilities (count, n, n) and P(a = high), (n, n)."""
    wells, known, value = network_view(network, data)
    logit = probability(network, wells, known, value)
    phases = sample_phases(network, wells, logit, count, seed, known, value, told)
    drawn = [_on_grid(phase, data.resolution) >= 0.5 for phase in phases.double().numpy()]
    fields = np.where(np.stack(drawn), data.prior.high, data.prior.low)
    marginal = 1 / (1 + np.exp(-_on_grid(logit.double().numpy(), data.resolution)))
    return data.fix(fields), marginal
