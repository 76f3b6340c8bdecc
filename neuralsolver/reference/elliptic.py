"""Constant-coefficient Dirichlet problems on the unit square and cube, solved directly.

    Δu + s u = f  in Ω = (0, 1)^d,   u = 0 on ∂Ω

with the 5-point (7-point) Laplacian on n points a side, h = 1/(n − 1). The sine transform S
diagonalises it:

    û_jk = f̂_jk / (μ_j + μ_k + s),   μ_k = −(4/h²) sin²(π k h / 2).

s = κ² is the Helmholtz equation, s = 0 Poisson's, s < 0 the screened Poisson equation.
Fields are (B, n, n) or (B, n, n, n) with their boundary; that of the right-hand side is not read
and that of the solution is exactly zero. Samples are solved one by one with the same operations, so
a sample's solution has the same bits alone and in any batch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.errors import InvalidInput
from neuralsolver.reference.transforms import Array, laplacian_symbol, sine_transform

SINGULAR = 1e-12
"""A shift closer than this, relative to the largest eigenvalue, to an eigenvalue is singular:
the solution would have no correct digit left at double precision's 1e-16 relative accuracy."""


def solve_shifted_laplacian(source: npt.ArrayLike, shift: float) -> Array:
    """u with Δu + shift·u = source, both (B, n, n) or (B, n, n, n)."""
    fields = checked_fields("source", source)
    symbol = shifted_symbol(fields.shape[-1], shift, fields.ndim - 1)
    inside = (slice(1, -1),) * symbol.ndim
    solution = np.zeros_like(fields)
    for sample, result in zip(fields, solution, strict=True):
        result[inside] = sine_transform(sine_transform(sample[inside]) / symbol)
    return solution


def smallest_singular_value(resolution: int, shift: float) -> float:
    """σ_min of the discrete Δ + shift in 2-D: the distance from −shift to the spectrum, exact."""
    check_resolution(resolution)
    return float(np.min(np.abs(laplacian_symbol(resolution) + _checked_shift(shift))))


def shifted_symbol(resolution: int, shift: float, dimension: int = 2) -> Array:
    """The eigenvalues of Δ + shift; `InvalidInput` when one of them vanishes."""
    base = laplacian_symbol(resolution, dimension)
    symbol: Array = base + _checked_shift(shift)
    nearest = np.min(np.abs(symbol))
    if nearest <= SINGULAR * np.max(np.abs(base)):
        raise InvalidInput(
            "shift", f"no eigenvalue of −Δ on the {resolution} × {resolution} grid", shift
        )
    return symbol


def checked_fields(name: str, values: npt.ArrayLike) -> Array:
    """`values` as finite float64 fields of at least 3 points a side, or `InvalidInput`."""
    fields = np.ascontiguousarray(values, dtype=np.float64)
    if fields.ndim not in (3, 4) or len(set(fields.shape[1:])) != 1:
        raise InvalidInput(name, "shape (B, n, n) or (B, n, n, n)", f"shape {fields.shape}")
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
