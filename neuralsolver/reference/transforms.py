"""Sine transforms, and sums and products whose bits do not depend on the number of BLAS threads.

On the m = n − 2 interior points of a side, h = 1/(n − 1), the vectors

    S_jk = √(2h) sin(π j k h),   j, k = 1 … m          (S = Sᵀ = S⁻¹)

are the eigenvectors of the second difference between zero values, with eigenvalues

    μ_k = −(4/h²) sin²(π k h / 2).

A threaded BLAS cuts a product where its threads meet, and the cut shows in the last bit; it also
waits for its threads, which on a busy machine costs a hundred times the product. OpenBLAS runs
products of at most 2¹⁸ multiplications on the calling thread, so larger ones are cut here, always
at the same places.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

Array = npt.NDArray[np.float64]
Real = npt.NDArray[np.floating]

SERIAL_LIMIT = 2**18
FAST_TRANSFORM_FROM = 200
"""Points of a side from which on the fast transform wins. Below, products with S are as fast, and
almost three times faster where n − 1 is prime, as at n = 128."""


def sine_transform(values: Real) -> Real:
    """The orthonormal sine transform along every axis of (m, …, m); it is its own inverse.

    Args:
        values: Interior point values or amplitudes, in float64, or in float32 for preconditioners.

    Returns:
        Amplitudes or point values, of the same type.
    """
    m = len(values)
    if m + 2 >= FAST_TRANSFORM_FROM:
        return np.asarray(scipy.fft.dstn(values, type=1, norm="ortho", workers=1))
    sines = _sines(m, values.dtype.name)
    for _ in range(values.ndim):  # the first axis becomes modes and goes last
        product = matmul(sines, values.reshape(m, -1)).reshape(values.shape)
        values = np.moveaxis(product, 0, -1)
    return np.ascontiguousarray(values)


@lru_cache(maxsize=8)
def laplacian_symbol(resolution: int, dimension: int = 2) -> Array:
    """The eigenvalues μ_j + μ_k (+ μ_l) of the Dirichlet Laplacian on n points a side."""
    spacing = 1.0 / (resolution - 1)
    modes = np.arange(1, resolution - 1)
    side = -((2.0 / spacing) ** 2) * np.sin(0.5 * np.pi * spacing * modes) ** 2
    symbol: Array = np.sum(np.meshgrid(*dimension * [side], indexing="ij"), axis=0)
    symbol.setflags(write=False)
    return symbol


def matmul(left: Real, right: Real) -> Real:
    """left @ right."""
    rows, inner = left.shape
    columns = right.shape[1]
    out = np.empty((rows, columns), dtype=left.dtype)
    if rows <= columns:
        width = _width(columns, rows * inner)
        for i in range(0, columns, width):
            np.matmul(left, right[:, i : i + width], out=out[:, i : i + width])
    else:
        width = _width(rows, columns * inner)
        for i in range(0, rows, width):
            np.matmul(left[i : i + width], right, out=out[i : i + width])
    return out


def dot(x: Real, y: Real) -> float:
    """Σ xy over all entries."""
    return float(np.einsum("i,i->", x.ravel(), y.ravel()))


def norm(x: Real) -> float:
    """(Σ x²)^½ over all entries."""
    return float(np.sqrt(dot(x, x)))


@lru_cache(maxsize=8)
def _sines(interior: int, dtype: str) -> Real:
    """S; the angle is reduced in integers so that no digit is lost."""
    modes, intervals = np.arange(1, interior + 1), interior + 1
    turns = np.outer(modes, modes) % (2 * intervals)
    sines: Array = np.sqrt(2.0 / intervals) * np.sin(np.pi * turns / intervals)
    return sines.astype(dtype)


def _width(length: int, cost: int) -> int:
    """The width of equal pieces of `length`, each of at most SERIAL_LIMIT multiplications."""
    widest = max(1, SERIAL_LIMIT // max(1, cost))
    pieces = -(-length // widest)
    return -(-length // pieces)
