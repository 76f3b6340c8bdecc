"""The mismatch of the wells, brought back to the field.

With p the probability of the high phase, a = low + (high − low) p, J = ∂G/∂p at the iterate, C the
prior covariance of p (diagonal in cosines) and R the noise, the corrector reads

    δ = C Jᵀ (J C Jᵀ + R)⁻¹ (d − G(p))                      the Kalman form of the mismatch
    μ = p̄ + C Jᵀ (J C Jᵀ + R′)⁻¹ (d − G(p) + J(p − p̄))     linear estimate from the prior mean
    v = diag C − diag C Jᵀ (J C Jᵀ + R′)⁻¹ J C               the variance that remains
    g = Jᵀ R⁻¹ (d − G(p))                                   the adjoint gradient

with R′ = R + ¼ mean (d − G)², because the linearisation errs by about the mismatch. All are fields
on the network's grid of 64 × 64 points; a finer grid sees p by linear interpolation, and J by its
transpose. Cells whose phase is known (wells with a core sample, or cells that a sampler has fixed)
keep it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.inversion.forward import WellData, interpolation
from neuralsolver.reference.posterior import bilinear_weights

Array = npt.NDArray[np.float64]

GRID = 64
"""Points a side of the network's grid."""
FIELD_CHANNELS, SCALARS = 13, 7
SIGNALS = ("kalman", "gradient", "none")
"""What of the mismatch the network reads; the last two are ablations."""
LARGEST_LOGIT = 8.0


@dataclass(frozen=True, eq=False)
class Wells:
    """One inverse problem as the network sees it: p on GRID × GRID points.

    Args:
        data: Heads, noise and prior, on any grid.
        mean: Prior probability of the high phase.
        spectrum: Prior variances of the orthonormal cosine coefficients of p, (GRID, GRID).
        kind: Which prior, an index.
    """

    data: WellData
    mean: float
    spectrum: Tensor
    kind: int

    def permeability(self, p: Array) -> Array:
        """a on the model's grid of p on the network's."""
        n, prior = self.data.resolution, self.data.prior
        if n != GRID:
            fine = interpolation(GRID, n)
            p = fine @ p @ fine.T
        return prior.low + (prior.high - prior.low) * p

    def restrict(self, fields: Array) -> Array:
        """The transpose of what brings p to the model's grid, for (m, n, n)."""
        n = self.data.resolution
        if n == GRID:
            return fields
        fine = interpolation(GRID, n)
        restricted: Array = fine.T @ fields @ fine
        return restricted

    @property
    def scatter(self) -> Array:
        """Each well as bilinear weights on the network's grid, (m, GRID, GRID)."""
        return bilinear_weights(self.data.positions, GRID)


def signal_channels(
    wells: Wells, logit: Tensor, known: Tensor, value: Tensor, signal: str = "kalman"
) -> tuple[Tensor, Tensor]:
    """What the corrector reads at one iterate.

    Args:
        wells: The problem.
        logit: The iterate, (GRID, GRID).
        known: 1 where the phase is known, (GRID, GRID).
        value: The phase there, 0 or 1.
        signal: One of SIGNALS.

    Returns:
        Fields (FIELD_CHANNELS, GRID, GRID) and numbers (SCALARS,), both float32.
    """
    data = wells.data
    p = torch.where(known > 0, value, logit.sigmoid())
    channels = torch.zeros(FIELD_CHANNELS, GRID, GRID)
    channels[0], channels[1] = logit / 4, 2 * p - 1
    channels[11], channels[12] = known, known * (2 * value - 1)
    noise = torch.from_numpy(data.safe_noise / data.size).float()
    scatter = torch.from_numpy(wells.scatter).float()
    channels[9] = scatter.sum(0)
    misfit = torch.zeros_like(noise)
    if signal == "none":
        heads = torch.from_numpy(data.heads / data.size).float()
        channels[2] = torch.from_numpy(fill(data.positions, data.heads / data.size)).float()
        channels[10] = torch.einsum("m,mij->ij", heads, scatter)
    elif signal == "gradient":
        misfit = _gradient_channels(wells, p, noise, channels)
    else:
        misfit = _kalman_channels(wells, p, noise, channels)
    if signal != "none" and len(noise):
        spread = (noise.square() + misfit.square().mean() / 4).sqrt()
        channels[10] = torch.einsum("m,mij->ij", (misfit / spread).asinh(), scatter)
    level = float(noise.mean()) if len(noise) else 1.0
    missed = float((misfit / noise).square().mean().sqrt()) if len(noise) else 0.0
    scalars = torch.zeros(SCALARS)
    scalars[0] = math.log10(level) + 2
    scalars[1] = math.log10(1 + len(noise)) - 2
    scalars[2] = math.log10(1e-1 + missed)
    scalars[3] = float(known.mean().sqrt())
    scalars[4 + wells.kind] = 1.0
    return channels, scalars


def _kalman_channels(wells: Wells, p: Tensor, noise: Tensor, channels: Tensor) -> Tensor:
    """Fills in δ, μ, v and g; returns the mismatch in units of the rms head."""
    data = wells.data
    u, forms = data.model.sensitivities(wells.permeability(p.double().numpy()))
    scale = (data.prior.high - data.prior.low) / data.size
    jacobian = torch.from_numpy(wells.restrict(forms) * scale).float()
    misfit = torch.from_numpy((data.heads - data.model.rows @ _inner(u)) / data.size).float()
    cosines, deviation = _cosines(), wells.spectrum.sqrt()
    white = ((cosines @ jacobian @ cosines.T) * deviation).flatten(1)
    gram = white @ white.T
    adaptive = noise.square() + misfit.square().mean() / 4 if len(noise) else noise
    offset = torch.einsum("mij,ij->m", jacobian, p - wells.mean)
    found = []
    for variance, right in (
        (noise.square(), misfit[:, None]),
        (adaptive, torch.stack([misfit, misfit + offset], 1)),
    ):
        factor = torch.linalg.cholesky(gram + torch.diag(variance))
        found += list((white.T @ torch.cholesky_solve(right, factor)).T)
    change, damped, estimate = (
        cosines.T @ (deviation * field.view(GRID, GRID)) @ cosines for field in found
    )
    spread = cosines.T @ (deviation * white.view(-1, GRID, GRID)) @ cosines
    reduced = torch.linalg.solve_triangular(factor, spread.flatten(1), upper=False)
    total = cosines.square().T @ wells.spectrum @ cosines.square()
    channels[2] = 2 * change.clamp(-2, 2)
    channels[3] = 2 * (wells.mean + estimate).clamp(-1, 2) - 1
    channels[4] = 2 * damped.clamp(-2, 2)
    remaining = total - reduced.square().sum(0).view(GRID, GRID)
    channels[5] = (remaining / total).clamp(0, 1).sqrt()
    _local_channels(u, jacobian, misfit, noise, channels)
    channels[7] = (jacobian.square() / noise.square()[:, None, None]).sum(0).mul(100).log1p() / 4
    return misfit


def _local_channels(
    u: Array, jacobian: Tensor, misfit: Tensor, noise: Tensor, channels: Tensor
) -> None:
    gradient = torch.einsum("m,mij->ij", misfit / noise.square(), jacobian)
    size = gradient.square().mean().sqrt().clamp_min(1e-12)
    channels[6] = (gradient / size).asinh()
    channels[8] = _to_grid(u / np.sqrt(np.mean(u**2)))


def _gradient_channels(wells: Wells, p: Tensor, noise: Tensor, channels: Tensor) -> Tensor:
    """The ablation: one adjoint solve, g, the filled heads and what they miss."""
    data = wells.data
    permeability = wells.permeability(p.double().numpy())
    missed = (data.heads - data.model.heads(permeability[None])[0]) / data.size
    u, gradient = data.model.gradient(permeability, missed, 1 / noise.double().numpy() ** 2)
    _local_channels(
        u,
        torch.from_numpy(wells.restrict(gradient[None])).float(),
        torch.ones(1),
        torch.ones(1),
        channels,
    )
    filled = torch.from_numpy(fill(data.positions, data.heads / data.size)).float()
    channels[2] = filled
    channels[3] = filled - _to_grid(u / data.size)
    return torch.from_numpy(missed).float()


def fill(positions: Array, values: Array) -> Array:
    """Values between scattered wells and zero sides by a thin-plate spline, (GRID, GRID)."""
    from scipy.interpolate import RBFInterpolator

    line = np.linspace(0.0, 1.0, GRID)
    side = np.linspace(0.0, 1.0, 17)
    ends = np.concatenate([[(t, 0.0), (t, 1.0), (0.0, t), (1.0, t)] for t in side])
    corners = np.unique(ends, axis=0)
    places = np.concatenate([positions, corners])
    known = np.concatenate([values, np.zeros(len(corners))])
    points = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    spline = RBFInterpolator(places, known, smoothing=1e-6)
    filled: Array = spline(points).reshape(GRID, GRID)
    return filled


def _inner(u: Array) -> Array:
    return np.ascontiguousarray(u[1:-1, 1:-1]).ravel()


def _to_grid(u: Array) -> Tensor:
    if len(u) != GRID:
        coarse = interpolation(len(u), GRID)
        u = coarse @ u @ coarse.T
    return torch.from_numpy(u).float()


@lru_cache(maxsize=1)
def _cosines() -> Tensor:
    """The orthonormal cosine transform of GRID points, (modes, points)."""
    k = torch.arange(GRID, dtype=torch.float64)
    table = torch.cos(math.pi / GRID * k[:, None] * (k + 0.5)) * math.sqrt(2 / GRID)
    table[0] /= math.sqrt(2)
    return table.float()


def prior_moments(phases: Array) -> tuple[float, Tensor]:
    """The mean of p and the variances of its cosine coefficients, of draws (S, GRID, GRID)."""
    centred = torch.from_numpy(phases - phases.mean()).float()
    cosines = _cosines()
    variances = (cosines @ centred @ cosines.T).square().mean(0)
    return float(phases.mean()), (variances + variances.T) / 2
