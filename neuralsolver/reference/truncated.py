"""Exact samples of a Gaussian vector whose signs are known.

    z ~ N(0, K)  given  sᵢ zᵢ ≥ 0

by Hamiltonian Monte Carlo that is integrated exactly (Pakman & Paninski 2014): with velocities
v ~ N(0, K) the motion z cos t + v sin t leaves the Gaussian unchanged. Where it meets a wall zᵢ = 0
it bounces, v ← v − 2 (vᵢ/Kᵢᵢ) K[:, i]; after a quarter turn, t = π/2, the velocity is drawn anew.
There is no step size and nothing is rejected.

Two chains from different starts say whether the samples can be believed: `effective_size` counts
how many independent ones a correlated chain is worth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.errors import ReferenceFailure

Array = npt.NDArray[np.float64]

QUARTER = 0.5 * np.pi
MOST_BOUNCES = 200_000
TINY = 1e-12


class SignedGaussian:
    """The chain: `advance` moves it by one quarter turn."""

    def __init__(self, covariance: Array, signs: Array, rng: np.random.Generator) -> None:
        self.covariance, self.signs, self.rng = covariance, signs, rng
        self.factor = np.linalg.cholesky(covariance)
        deviation = np.sqrt(np.diag(covariance))
        # any start with the right signs; sizes at random, so that two chains start apart
        self.z: Array = signs * deviation * rng.uniform(0.1, 1.0)
        self.bounces = 0

    def advance(self) -> Array:
        """The next state of the chain."""
        z, v = self.z, self.factor @ self.rng.standard_normal(len(self.z))
        left, last = QUARTER, -1
        for _ in range(MOST_BOUNCES):
            wall, time = _next_wall(self.signs * z, self.signs * v, last)
            if time >= left:
                self.z = z * np.cos(left) + v * np.sin(left)
                # rounding may leave a value on the wrong side of its wall
                self.z = self.signs * np.abs(self.z)
                return self.z
            cosine, sine = np.cos(time), np.sin(time)
            z, v = z * cosine + v * sine, v * cosine - z * sine
            z[wall] = 0.0
            v = v - (2.0 * v[wall] / self.covariance[wall, wall]) * self.covariance[:, wall]
            left, last = left - time, wall
            self.bounces += 1
        raise ReferenceFailure(f"truncated Gaussian: {MOST_BOUNCES} bounces in a quarter turn")


def _next_wall(z: Array, v: Array, last: int) -> tuple[int, float]:
    """The wall that z cos t + v sin t ≥ 0 meets first, and when."""
    # z = ρ cos φ, v = ρ sin φ: zero at t = φ + π/2, within (0, π) because z ≥ 0
    times = np.arctan2(v, z) + QUARTER
    times[times <= TINY] = np.inf
    if last >= 0:
        # it was just left with v > 0, z = 0: back after half a turn
        times[last] = np.pi
    wall = int(np.argmin(times))
    return wall, float(times[wall])


def effective_size(chain: Array) -> float:
    """The number of independent draws that a chain (length,) is worth (Geyer's initial pairs)."""
    length = len(chain)
    centred = chain - chain.mean()
    spectrum = np.abs(np.fft.rfft(centred, 2 * length)) ** 2
    correlation = np.fft.irfft(spectrum)[:length]
    if correlation[0] <= 0:
        return float(length)
    correlation /= correlation[0]
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(1)
    negative = np.flatnonzero(pairs < 0)
    kept = pairs[: negative[0]] if len(negative) else pairs
    return float(length / max(2.0 * kept.sum() - 1.0, 1.0 / length))
