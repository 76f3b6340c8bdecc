"""Constant-coefficient Dirichlet problems on the unit square, solved directly.

    Δu + s u = f  in Ω = (0, 1)²,   u = 0 on ∂Ω

with the 5-point Laplacian on n × n vertices, h = 1/(n − 1). The sine transform S diagonalises it:

    û_jk = f̂_jk / (μ_j + μ_k + s),   μ_k = −(4/h²) sin²(π k h / 2).

s = κ² is the Helmholtz equation, s = 0 Poisson's, s < 0 the screened Poisson equation.
Fields are (B, n, n) with the boundary ring; the ring of the right-hand side is not read and the
ring of the solution is exactly zero. Samples are solved one by one with the same operations, so
a sample's solution has the same bits alone and in any batch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.errors import InvalidInput
from neuralsolver.reference.sine_transform import laplacian_symbol, sine_transform

Array = npt.NDArray[np.float64]

SINGULAR = 1e-12
"""A shift closer than this, relative to the largest eigenvalue, to an eigenvalue is singular:
the solution would have no correct digit left at double precision's 1e-16 relative accuracy."""


def solve_shifted_laplacian(source: npt.ArrayLike, shift: float) -> Array:
    """u with Δu + shift·u = source, (B, n, n) → (B, n, n)."""
    fields = checked_fields("source", source)
    resolution = fields.shape[-1]
    symbol = shifted_symbol(resolution, shift)
    transform = sine_transform(resolution)
    solution = np.zeros_like(fields)
    for sample, result in zip(fields, solution, strict=True):
        amplitudes = transform.forward(sample[1:-1, 1:-1])
        amplitudes /= symbol
        result[1:-1, 1:-1] = transform.inverse(amplitudes)
    return solution


def smallest_singular_value(resolution: int, shift: float) -> float:
    """σ_min of the discrete Δ + shift: the distance from −shift to the spectrum, exact."""
    check_resolution(resolution)
    return float(np.min(np.abs(laplacian_symbol(resolution) + _checked_shift(shift))))


def first_eigenvalue(resolution: int) -> float:
    """The smallest eigenvalue of −Δ on the grid; 2π² in the limit."""
    check_resolution(resolution)
    return float(np.min(-laplacian_symbol(resolution)))


def laplacian(values: Array) -> Array:
    """The 5-point Laplacian of interior point values (m, m) with zero walls around them."""
    spacing = 1.0 / (len(values) + 1)
    result = -4.0 * values
    result[1:] += values[:-1]
    result[:-1] += values[1:]
    result[:, 1:] += values[:, :-1]
    result[:, :-1] += values[:, 1:]
    result /= spacing**2
    return result


def shifted_symbol(resolution: int, shift: float) -> Array:
    """The eigenvalues of Δ + shift; `InvalidInput` when one of them vanishes."""
    base = laplacian_symbol(resolution)
    symbol: Array = base + _checked_shift(shift)
    nearest = np.min(np.abs(symbol))
    if nearest <= SINGULAR * np.max(np.abs(base)):
        raise InvalidInput(
            "shift", f"no eigenvalue of −Δ on the {resolution} × {resolution} grid", shift
        )
    return symbol


def checked_fields(name: str, values: npt.ArrayLike) -> Array:
    """`values` as float64 (B, n, n), finite and at least 3 × 3, or `InvalidInput`."""
    fields = np.ascontiguousarray(values, dtype=np.float64)
    if fields.ndim != 3 or fields.shape[1] != fields.shape[2]:
        raise InvalidInput(name, "shape (B, n, n)", f"shape {fields.shape}")
    check_resolution(fields.shape[-1])
    if not np.isfinite(fields).all():
        raise InvalidInput(name, "finite values", "NaN or infinity")
    return fields


def check_resolution(resolution: int) -> None:
    """`InvalidInput` when the grid has no interior."""
    if resolution < 3:
        raise InvalidInput("resolution", "at least 3 points per side", resolution)


def _checked_shift(shift: float) -> float:
    if not np.isfinite(shift):
        raise InvalidInput("shift", "a finite number", shift)
    return float(shift)
