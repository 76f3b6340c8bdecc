"""Gaussian random fields on the unit square.

Cosine field, zero-Neumann basis on (0, 1)²

    f(x, y) = Σ_{p,q} σ_pq ξ_pq φ_p(x) φ_q(y),    φ_0 = 1,  φ_p(x) = √2 cos(pπx)
    σ_pq    = τ^(α−1) (π²(p² + q²) + τ²)^(−α/2),  σ_00 = 0

so f ~ N(0, τ^(2α−2) (−Δ + τ²)^(−α)) without its mean.

Periodic field on the unit torus

    w(x, y) = Re Σ_k σ_k (ξ_k + iη_k) exp(2πi k·(x, y))
    σ_k     = √2 τ^(α−1) (4π²|k|² + τ²)^(−α/2),   σ_0 = 0

The ξ, η are independent standard normals, α is the smoothness and τ the inverse length.
A field is a *function*: its modes are a fixed set and all of them are always drawn, so the same
state of the generator gives the same function at every resolution.
Arrays are indexed [x, y].
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

from neuralsolver.errors import InvalidInput
from neuralsolver.reference.transforms import Array, matmul

COSINE_MODES = 128
"""The cosine field has the modes 0 ≤ p, q < 128: all that the paper's 128 × 128 grid carries."""

BOX_MODES = 64
"""The cosine field in a cube has so many modes along each axis."""

PERIODIC_MODES = 64
"""The periodic field has the modes |k_x|, |k_y| < 64: all that a 128 × 128 torus resolves."""


def cosine_field(
    rng: np.random.Generator,
    resolution: int,
    *,
    smoothness: float = 2.0,
    inverse_length: float = 3.0,
) -> Array:
    """One cosine field at the vertices x_i = i/(n−1), boundary included: (n, n).

    >>> import neuralsolver as ns, numpy as np
    >>> ns.cosine_field(np.random.default_rng(0), 16).shape
    (16, 16)
    """
    _check(resolution, smoothness, inverse_length)
    normals = rng.standard_normal((COSINE_MODES, COSINE_MODES))
    basis = _cosine_basis(resolution)
    amplitude = _cosine_amplitude(smoothness, inverse_length)
    field = matmul(matmul(basis, amplitude * normals), basis.T)
    return np.asarray(field, dtype=np.float64)


def periodic_field(
    rng: np.random.Generator,
    resolution: int,
    *,
    smoothness: float = 2.5,
    inverse_length: float = 7.0,
) -> Array:
    """One periodic field on the torus grid x_i = i/n: (n, n).

    Below n = 128 only the modes |k| < n/2 are kept: the field is then the band-limited projection
    of the same function instead of its aliased point values.

    >>> import numpy as np
    >>> from neuralsolver.reference.random_fields import periodic_field
    >>> field = periodic_field(np.random.default_rng(0), 16)
    >>> field.shape, bool(abs(field.mean()) < 1e-12)
    ((16, 16), True)
    """
    _check(resolution, smoothness, inverse_length)
    width = 2 * PERIODIC_MODES - 1
    real, imaginary = rng.standard_normal((2, width, width))
    coefficients = _periodic_amplitude(smoothness, inverse_length) * (real + 1j * imaginary)

    kept = min(PERIODIC_MODES, (resolution + 1) // 2)
    modes = np.arange(1 - kept, kept)
    inside = np.ix_(modes + PERIODIC_MODES - 1, modes + PERIODIC_MODES - 1)
    spectrum = np.zeros((resolution, resolution), dtype=np.complex128)
    spectrum[np.ix_(modes % resolution, modes % resolution)] = coefficients[inside]
    field = scipy.fft.ifft2(spectrum, norm="forward", workers=1)
    return np.ascontiguousarray(field.real)


def box_field(
    rng: np.random.Generator,
    resolution: int,
    *,
    smoothness: float = 2.0,
    inverse_length: float = 3.0,
) -> Array:
    """One cosine field in the unit cube, (n, n, n), with the modes 0 ≤ p, q, r < 64."""
    _check(resolution, smoothness, inverse_length)
    squares = (np.pi * np.arange(BOX_MODES)) ** 2
    eigenvalues = squares[:, None, None] + squares[:, None] + squares
    amplitude = _amplitude(eigenvalues, smoothness, inverse_length, origin=(0, 0, 0))
    field = amplitude * rng.standard_normal(eigenvalues.shape)
    basis = _cosine_basis(resolution)[:, :BOX_MODES]
    for _ in range(3):  # the last axis becomes points and goes first
        field = np.moveaxis(field @ basis.T, -1, 0)
    return np.ascontiguousarray(field)


def two_phase(field: npt.ArrayLike, low: float, high: float) -> Array:
    """The two-valued field: `high` where field ≥ 0, `low` elsewhere."""
    return np.where(np.asarray(field) >= 0.0, float(high), float(low))


def log_normal(field: npt.ArrayLike, low: float, high: float) -> Array:
    """A positive field whose logarithm has the mean and the deviation of that of two equal phases.

    ln a = ½ ln(low·high) + ½ ln(high/low) g with the field as g, at mean 0 and deviation 1.
    """
    g = np.asarray(field, dtype=np.float64)
    g = (g - g.mean()) / g.std()
    return np.asarray(np.sqrt(low * high) * np.power(high / low, g / 2))


def cosine_variance(smoothness: float = 2.0, inverse_length: float = 3.0) -> float:
    """The variance of the cosine field averaged over the square, Σ σ_pq² (0.0853 by default).

    A few large modes carry it: the mean square of a single field scatters by about 60 %.
    """
    return float(np.sum(_cosine_amplitude(smoothness, inverse_length) ** 2))


@lru_cache(maxsize=8)
def _cosine_basis(resolution: int) -> Array:
    """φ_p(x_i) as a matrix (n, modes). The angle pπi/(n−1) is reduced in integers: exact zeros."""
    period = 2 * (resolution - 1)
    turns = np.outer(np.arange(resolution), np.arange(COSINE_MODES)) % period
    basis: Array = np.sqrt(2.0) * np.cos(2.0 * np.pi * turns / period)
    basis[:, 0] = 1.0
    basis.setflags(write=False)
    return basis


@lru_cache(maxsize=8)
def _cosine_amplitude(smoothness: float, inverse_length: float) -> Array:
    squares = (np.pi * np.arange(COSINE_MODES)) ** 2
    return _amplitude(squares[:, None] + squares, smoothness, inverse_length, origin=(0, 0))


@lru_cache(maxsize=8)
def _periodic_amplitude(smoothness: float, inverse_length: float) -> Array:
    centre = PERIODIC_MODES - 1
    squares = (2.0 * np.pi * np.arange(-centre, centre + 1)) ** 2
    eigenvalues = squares[:, None] + squares
    amplitude = _amplitude(eigenvalues, smoothness, inverse_length, origin=(centre, centre))
    amplitude *= np.sqrt(2.0)
    return amplitude


def _amplitude(
    eigenvalues: Array, smoothness: float, inverse_length: float, *, origin: tuple[int, ...]
) -> Array:
    """τ^(α−1) (μ + τ²)^(−α/2) for the eigenvalues μ of −Δ, zero for the constant mode."""
    amplitude: Array = inverse_length ** (smoothness - 1.0) * (eigenvalues + inverse_length**2) ** (
        -smoothness / 2.0
    )
    amplitude[origin] = 0.0
    return amplitude


def _check(resolution: int, smoothness: float, inverse_length: float) -> None:
    if resolution < 3:
        raise InvalidInput("resolution", "at least 3 points per side", resolution)
    if not (np.isfinite(smoothness) and smoothness > 1.0):
        raise InvalidInput("smoothness", "a finite number > 1 (finite variance in 2-D)", smoothness)
    if not (np.isfinite(inverse_length) and inverse_length > 0.0):
        raise InvalidInput("inverse_length", "a finite number > 0", inverse_length)
