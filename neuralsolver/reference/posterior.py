"""What sensors say about a Gaussian field and the solution it drives: the exact answer.

The cosine field is f = Σ σ_m ξ_m φ_m with independent standard normals ξ, and the solution of a
linear equation is linear in it, u = c (Δ + s)⁻¹ f. A sensor of either is therefore a linear form of
the ξ, and N of them are y = Hξ + ε with a matrix H of N rows. Given y,

    E ξ = Hᵀ K⁻¹ y,        K = H Hᵀ + noise²                          (kriging)
    ξ' + Hᵀ K⁻¹ (y − Hξ' − ε')                                        (Matheron: an exact sample)

with ξ', ε' drawn from the prior. No generative method can do better than this one on average, which
makes it both the classical row and the floor of every table.

On a grid of n points a side the modes p and 2(n−1) − p have the same values, and independent
coefficients of equal modes add up to one: the prior needs n² modes then, not 128². Only sensors of
f between grid points tell them apart. Sensors of u between grid points see the bilinear
interpolation of the discrete solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from neuralsolver.reference.elliptic import solve_shifted_laplacian
from neuralsolver.reference.random_fields import COSINE_MODES, _cosine_amplitude

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

JITTER = 1e-10
"""Added to the unit diagonal of K: sensors of u without noise are nearly dependent."""


@dataclass(frozen=True, eq=False)
class FieldPrior:
    """The cosine field on n × n points as Σ σ ξ φφ: `basis` (n, modes), `deviation` (modes²)."""

    resolution: int
    basis: Array
    deviation: Array

    def field(self, coefficients: Array) -> Array:
        """The fields (…, n, n) of coefficients ξ (…, modes, modes)."""
        values: Array = self.basis @ (self.deviation * coefficients) @ self.basis.T
        return values

    def form(self, weights: Array) -> Array:
        """The linear form Σ weights · field as one of the coefficients: the adjoint of `field`."""
        values: Array = self.deviation * (self.basis.T @ weights @ self.basis)
        return values

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """`count` independent fields (count, n, n)."""
        return self.field(rng.standard_normal((count, *self.deviation.shape)))


@lru_cache(maxsize=8)
def field_prior(
    resolution: int, amplitude: float = 1.0, folded: bool = True, inverse_length: float = 3.0
) -> FieldPrior:
    """The prior of `amplitude` times the cosine field; `folded` joins modes equal on the grid."""
    full = amplitude * _cosine_amplitude(2.0, inverse_length)
    modes = np.arange(COSINE_MODES)
    if not folded or resolution >= COSINE_MODES:
        return FieldPrior(resolution, _cosines(np.linspace(0, 1, resolution), COSINE_MODES), full)
    period = 2 * (resolution - 1)
    alias = np.minimum(modes % period, period - modes % period)
    # a mode that shows as the constant is √2 times φ₀ = 1
    factor = np.where((alias == 0) & (modes > 0), 2.0, 1.0)
    variance = np.zeros((resolution, resolution))
    np.add.at(variance, (alias[:, None], alias[None, :]), full**2 * factor[:, None] * factor)
    basis = _cosines(np.arange(resolution) / (resolution - 1), resolution)
    return FieldPrior(resolution, basis, np.sqrt(variance))


@dataclass(frozen=True, eq=False)
class LinearMap:
    """u = factor (Δ + shift)⁻¹ f between zero walls: Poisson and Helmholtz."""

    factor: float
    shift: float

    def __call__(self, fields: Array) -> Array:
        """Solutions (B, n, n) of sources (B, n, n)."""
        return self.factor * solve_shifted_laplacian(fields, self.shift)


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """The field and its solution given sensors at `positions` (N, 2); `of_solution` (N,) says which
    of the two a sensor sees, `noise` (N,) is its standard deviation."""

    resolution: int
    amplitude: float
    solution: LinearMap
    positions: Array
    of_solution: Flags
    noise: Array
    inverse_length: float = 3.0

    def mean(self, values: Array) -> tuple[Array, Array]:
        """E f and E u, each (n, n)."""
        coefficients = self._forms.T @ self._weigh(values)
        field = self.prior.field(coefficients.reshape(self.prior.deviation.shape))
        return field, self.solution(field[None])[0]

    def samples(self, values: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Exact samples of f and u, each (count, n, n)."""
        shape = self.prior.deviation.shape
        drawn = rng.standard_normal((count, shape[0] * shape[1]))
        noise = self.noise[:, None] * rng.standard_normal((len(self.noise), count))
        missing = values[:, None] - self._forms @ drawn.T - noise
        drawn += (self._forms.T @ self._weigh(missing)).T
        fields = self.prior.field(drawn.reshape(count, *shape))
        return fields, self.solution(fields)

    def log_likelihood(self, values: Array) -> float:
        """ln p(values) of this prior and noise, up to a constant; blind sensors count nothing."""
        seen = self._unit > 0
        determinant = 2 * np.log(np.diag(self._factor[0])[seen]).sum()
        determinant -= 2 * np.log(self._unit[seen]).sum()
        return -0.5 * float(values @ self._weigh(values) + determinant)

    def covariance(self) -> Array:
        """That of what the sensors see, without their noise, (N, N)."""
        values: Array = self._forms @ self._forms.T
        return values

    @cached_property
    def prior(self) -> FieldPrior:
        direct = self.positions[~self.of_solution]
        folded = on_grid(direct, self.resolution)
        return field_prior(self.resolution, self.amplitude, folded, self.inverse_length)

    @cached_property
    def _forms(self) -> Array:
        """H: each sensor as a linear form of the coefficients, (N, modes²)."""
        modes = len(self.prior.deviation)
        first, second = (_cosines(axis, modes) for axis in self.positions.T)
        forms = self.prior.deviation * first[:, :, None] * second[:, None, :]
        driven = np.flatnonzero(self.of_solution)
        if len(driven):
            weights = bilinear_weights(self.positions[driven], self.resolution)
            # the solution operator is symmetric: the weights are moved onto f
            forms[driven] = self.prior.form(self.solution(weights))
        return forms.reshape(len(self.positions), modes**2)

    @cached_property
    def _unit(self) -> Array:
        """What brings each sensor to unit variance."""
        variance = np.einsum("ij,ij->i", self._forms, self._forms) + self.noise**2
        # a sensor of the solution on a wall sees the zero that is known anyway
        blind = variance == 0
        return np.where(blind, 0.0, 1.0 / np.sqrt(np.where(blind, 1.0, variance)))

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        scaled = self._unit[:, None] * self._forms
        gram = scaled @ scaled.T
        gram[np.diag_indices_from(gram)] += (self._unit * self.noise) ** 2 + JITTER
        factor, lower = cho_factor(gram, lower=True, overwrite_a=True)
        return factor, lower

    def _weigh(self, values: Array) -> Array:
        """K⁻¹ values."""
        weighed: Array = (self._unit * cho_solve(self._factor, (self._unit * values.T).T).T).T
        return weighed


def on_grid(positions: Array, resolution: int) -> bool:
    """Whether all positions are grid points."""
    scaled = positions * (resolution - 1)
    return bool((np.abs(scaled - np.rint(scaled)) < 1e-9 * resolution).all())


def bilinear_weights(positions: Array, resolution: int) -> Array:
    """Each position as weights (n, n) on the grid around it."""
    scaled = np.clip(positions, 0.0, 1.0) * (resolution - 1)
    low = np.minimum(scaled.astype(int), resolution - 2)
    part = scaled - low
    weights = np.zeros((len(positions), resolution, resolution))
    row = np.arange(len(positions))
    for i in (0, 1):
        for j in (0, 1):
            share = np.abs(1 - i - part[:, 0]) * np.abs(1 - j - part[:, 1])
            weights[row, low[:, 0] + i, low[:, 1] + j] += share
    return weights


def _cosines(points: Array, modes: int) -> Array:
    """φ_p at points in [0, 1], (points, modes)."""
    values: Array = np.sqrt(2.0) * np.cos(np.pi * np.outer(points, np.arange(modes)))
    values[:, 0] = 1.0
    return values
