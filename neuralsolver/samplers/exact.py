"""The exact posterior as a sampler, and the two fills that need no prior at all.

    Poisson, Helmholtz    Gaussian: sensors of f, of u, or of both, with or without noise
    Darcy                 the permeability is the sign of a Gaussian field: exact signed Gaussian
                          samples at the sensors, kriged to the grid, thresholded, solved

See `neuralsolver.reference.posterior`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Darcy, Equation, Helmholtz, Poisson
from neuralsolver.equations.base import Array
from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.reference.posterior import GaussianPosterior, LinearMap
from neuralsolver.samplers.conditions import (
    centred,
    decode_inputs,
    filled,
    input_sensors,
    nearest_value,
    thin_plate_spline,
)
from neuralsolver.samplers.samples import Drawn, Sampler, Told

BURN_IN = 40
"""Quarter turns before the first sample of a signed Gaussian; it forgets its start within five."""
BETWEEN = 4
"""Quarter turns from one sample to the next."""
NUGGET = 1e-9
"""Part of the variance added to the covariance of signed values, for its Cholesky factor."""
QUARTER = 0.5 * np.pi
MOST_BOUNCES = 200_000
TINY = 1e-12


class ExactPosterior(Sampler):
    """Exact samples of the posterior, for the random fields that the equations draw.

    Args:
        fitted: Amplitude and correlation length of a Gaussian input are those under which the
            sensors are most likely, instead of the equation's own.
    """

    name = "exact"

    def __init__(self, fitted: bool = False) -> None:
        self.fitted = fitted

    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        drawn = []
        for i, (problem, seed) in enumerate(zip(observed, seeds, strict=True)):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6,)))
            if self.fitted:
                posterior, notes = fitted_posterior(problem)
                inputs, u = posterior.samples(problem.sensors.values, count, rng)
                drawn.append((_tensor(inputs), _tensor(u), notes))
            else:
                drawn.append(posterior_samples(problem.equation, problem, count, rng))
            told((i + 1) / len(observed))
        return drawn


def gaussian_posterior(
    observed: Observed, amplitude: float, solution: LinearMap
) -> GaussianPosterior:
    """The posterior of a Gaussian input; its sensors without their values."""
    sensors = observed.sensors
    seen = np.array([name == "solution" for name in sensors.fields], dtype=bool)
    return GaussianPosterior(
        observed.resolution, amplitude, solution, sensors.positions, seen, sensors.deviations
    )


FEWEST_FITTED = 8
"""Sensors that two numbers of a prior can be fitted to."""


def fitted_posterior(observed: Observed) -> tuple[GaussianPosterior, dict[str, Any]]:
    """The posterior under the amplitude s and inverse length τ that maximise p(values | s, τ)."""
    if len(observed.sensors) < FEWEST_FITTED:
        expected = f"at least {FEWEST_FITTED} to fit a prior to"
        raise InvalidInput("sensors", expected, len(observed.sensors))
    solution, own = linear_map(observed.equation), _amplitude(observed.equation)
    first = gaussian_posterior(observed, own, solution)

    def posterior(logs: Array) -> GaussianPosterior:
        amplitude, length = np.exp(np.clip(logs, -20.0, 20.0))
        return replace(first, amplitude=float(own * amplitude), inverse_length=float(3.0 * length))

    def unlikely(logs: Array) -> float:
        return -posterior(logs).log_likelihood(observed.sensors.values)

    simplex = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 0.7]])
    options: Any = {"initial_simplex": simplex, "xatol": 0.02, "fatol": 0.01, "maxfev": 120}
    bounds = [(-10.0, 10.0), (float(np.log(1 / 3)), float(np.log(8.0)))]
    found = minimize(unlikely, simplex[0], method="Nelder-Mead", bounds=bounds, options=options)
    best = posterior(found.x)
    notes = {"amplitude": best.amplitude / own, "inverse_length": best.inverse_length}
    return best, {"prior": "fitted", **{k: round(v, 4) for k, v in notes.items()}}


@singledispatch
def linear_map(equation: Equation) -> LinearMap:
    """u as a linear image of the input, for the equations of which it is one."""
    raise InvalidInput("equation", "one with an exact posterior: " + _KNOWN, equation.name)


_KNOWN = "poisson, helmholtz (linear), darcy"


@linear_map.register
def _poisson_map(equation: Poisson) -> LinearMap:
    return LinearMap(equation.scale, 0.0)


@linear_map.register
def _helmholtz_map(equation: Helmholtz) -> LinearMap:
    if not equation.linear:
        raise InvalidInput("equation", "one with an exact posterior: " + _KNOWN, equation.name)
    return LinearMap(1.0, equation.wavenumber**2)


@singledispatch
def posterior_samples(
    equation: Equation, observed: Observed, count: int, rng: np.random.Generator
) -> Drawn:
    """Exact samples of input and solution."""
    solution = linear_map(equation)
    posterior = gaussian_posterior(observed, _amplitude(equation), solution)
    inputs, u = posterior.samples(observed.sensors.values, count, rng)
    return _tensor(inputs), _tensor(u), {}


@posterior_samples.register
def _darcy_samples(
    equation: Darcy, observed: Observed, count: int, rng: np.random.Generator
) -> Drawn:
    if not observed.inputs_only:
        got = "sensors of the solution, which is not linear in it"
        raise InvalidInput("sensors", "sensors of the permeability for the exact posterior", got)
    if observed.sensors.noise:
        raise InvalidInput("sensor noise", "none for two phases", observed.sensors.noise)
    signs = phases(equation, observed.sensors)
    posterior = gaussian_posterior(observed, 1.0, LinearMap(1.0, 0.0))
    covariance = posterior.covariance()
    covariance[np.diag_indices_from(covariance)] *= 1 + NUGGET
    chain = SignedGaussian(covariance, signs, rng)
    for _ in range(BURN_IN):
        chain.advance()
    states = np.array([chain.advance() for _ in range(BETWEEN * count)])
    fields = np.concatenate(
        [posterior.samples(state, 1, rng)[0] for state in states[BETWEEN - 1 :: BETWEEN]]
    )
    permeability = np.where(fields >= 0, equation.high, equation.low)[:, None]
    solved = solve_reference(equation, permeability)
    sizes = np.linalg.norm(states, axis=1)
    notes = {"effective_size": effective_size(sizes) / BETWEEN, "bounces": chain.bounces}
    return torch.from_numpy(permeability), torch.from_numpy(solved.solution), notes


class SignedGaussian:
    """A chain of exact samples z ~ N(0, K) given sᵢ zᵢ ≥ 0 (Pakman & Paninski 2014).

    With velocities v ~ N(0, K) the motion z cos t + v sin t leaves the Gaussian unchanged. Where it
    meets a wall zᵢ = 0 it bounces, v ← v − 2 (vᵢ/Kᵢᵢ) K[:, i]; after a quarter turn, t = π/2, the
    velocity is drawn anew. There is no step size and nothing is rejected.
    """

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


def phases(equation: Darcy, sensors: Sensors) -> Array:
    """±1 for the two phases; anything else cannot have been seen."""
    high = np.isclose(sensors.values, equation.high)
    low = np.isclose(sensors.values, equation.low)
    if not (high | low).all():
        wrong = sensors.values[~(high | low)][0]
        raise InvalidInput("value of a sensor", f"{equation.low:g} or {equation.high:g}", wrong)
    return np.where(high, 1.0, -1.0)


FILLS = {
    "spline": thin_plate_spline,
    "centred-spline": thin_plate_spline,
    "nearest": nearest_value,
}


class Fill(Sampler):
    """A deterministic fill of the input, then a solve: every sample is the same.

    The centred spline knows that sources have no mean; the others know nothing of the prior.
    """

    def __init__(self, name: str = "spline") -> None:
        if name not in FILLS:
            raise InvalidInput("fill", " or ".join(FILLS), name)
        self.name = name

    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        drawn: list[Drawn] = []
        for problem in observed:
            sensors = input_sensors(problem)
            equation = problem.equation
            seen = (sensors.positions, sensors.values, problem.resolution)
            field = filled(equation, *seen, FILLS[self.name])
            if self.name == "centred-spline":
                field = centred(equation, field)
            inputs = decode_inputs(equation, _tensor(field[None]), True)
            u = torch.from_numpy(solve_reference(equation, inputs.numpy()).solution)
            drawn.append((inputs.expand(count, -1, -1, -1), u.expand(count, -1, -1, -1), {}))
        return drawn


def _amplitude(equation: Equation) -> float:
    return float(equation.source_amplitude)  # type: ignore[attr-defined]


def _tensor(fields: Array) -> Tensor:
    return torch.from_numpy(fields)[:, None]
