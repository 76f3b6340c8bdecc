"""Ensemble smoother with multiple data assimilation (ES-MDA; Emerick & Reynolds 2013).

N_a times, for every member x of the ensemble with its heads y = G(x):

    x ← x + L ∘ C_xy (M ∘ C_yy + α R)⁻¹ (d + √α ε − y),   α = N_a

with covariances of the ensemble. x is the Gaussian field behind the prior (two-phase, log-normal),
or ln a where there is none (channels, ellipses). L and M taper covariances with the distance from
a well (Gaspari-Cohn), which removes the spurious ones of a small ensemble; none without a radius.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.inversion.forward import WellData

Array = npt.NDArray[np.float64]


def smooth_ensemble(
    data: WellData,
    members: int = 200,
    steps: int = 6,
    *,
    seed: int = 0,
    radius: float | None = None,
) -> Array:
    """An ensemble of the posterior.

    Args:
        data: The problem.
        members: Size of the ensemble; every step solves as many forward problems.
        steps: Data assimilations N_a.
        seed: Of the ensemble and the perturbed data.
        radius: Distance at which covariances are tapered to zero; None leaves them.

    Returns:
        Permeabilities (members, n, n); between the phases where the prior has no Gaussian field.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(31,)))
    prior, n = data.prior, data.resolution
    latent = prior.latent(rng.standard_normal((members, prior.dimension(n))), n)
    state = latent if prior.gaussian else np.log(prior.permeability(latent))
    noise = data.safe_noise
    taper = None if radius is None else _tapers(data.positions, n, radius)
    for _ in range(steps if len(data.heads) else 0):
        seen = data.model.heads(data.fix(_permeability(data, state)))
        deviations = seen - seen.mean(0)
        flat = state.reshape(members, -1)
        cross = (flat - flat.mean(0)).T @ deviations / (members - 1)
        own = deviations.T @ deviations / (members - 1)
        if taper is not None:
            cross, own = cross * taper[0], own * taper[1]
        wanted = data.heads + np.sqrt(steps) * noise * rng.standard_normal(seen.shape)
        weights = np.linalg.solve(own + steps * np.diag(noise**2), (wanted - seen).T)
        state = state + (cross @ weights).T.reshape(state.shape)
    return data.fix(_permeability(data, state))


def _permeability(data: WellData, state: Array) -> Array:
    if data.prior.gaussian:
        return data.prior.permeability(state)
    return np.clip(np.exp(state), 0.5 * data.prior.low, 2 * data.prior.high)


def _tapers(positions: Array, resolution: int, radius: float) -> tuple[Array, Array]:
    line = np.linspace(0.0, 1.0, resolution)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 1, 2)
    to_wells = np.linalg.norm(points - positions, axis=-1)
    between = np.linalg.norm(positions[:, None] - positions, axis=-1)
    return gaspari_cohn(to_wells / radius), gaspari_cohn(between / radius)


def gaspari_cohn(distance: Array) -> Array:
    """The fifth-order taper: 1 at distance 0, 0 from distance 1 on."""
    r = 2 * np.clip(distance, 0.0, 1.0)
    near = 1 - 5 / 3 * r**2 + 5 / 8 * r**3 + r**4 / 2 - r**5 / 4
    safe = np.maximum(r, 1.0)
    far = 4 - 5 * r + 5 / 3 * r**2 + 5 / 8 * r**3 - r**4 / 2 + r**5 / 12 - 2 / (3 * safe)
    return np.where(r <= 1, near, np.clip(far, 0.0, None))
