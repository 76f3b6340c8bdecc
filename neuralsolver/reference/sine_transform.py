"""The discrete sine transform and the 5-point Laplacian it diagonalises.

On the m = n − 2 interior points of a side, h = 1/(n − 1), the vectors

    S_jk = √(2h) sin(π j k h),   j, k = 1 … m          (S = Sᵀ = S⁻¹)

are the eigenvectors of the second difference with zero walls, with eigenvalues

    μ_k = −(4/h²) sin²(π k h / 2).

Odd modes are symmetric about the middle of the side and even modes antisymmetric, so each half of
S acts on data folded to half its length: half the work. The modes are kept in the order
(1, 3, 5, …, 2, 4, 6, …), which nobody outside this module sees.

Two ways to the same numbers: matrix products on small grids (at n = 128, where n − 1 is prime,
they are 9× faster than a fast transform), the fast transform on large ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

from neuralsolver.reference.products import Real, matmul

Array = npt.NDArray[np.float64]

FAST_TRANSFORM_FROM = 200
"""Measured on one AVX2 core: below, matrix products always win; from here on the fast transform
wins or draws (n = 256, 512), unless n − 1 happens to be prime."""


@dataclass(frozen=True)
class SineTransform:
    """The orthonormal 2-D sine transform on the interior of an n × n grid; symmetric, S S = I.

    `single` is the same transform in float32, for preconditioners. The tables are read-only and
    the methods allocate what they write, so one instance serves any number of threads.
    """

    resolution: int
    single: bool = False
    modes: npt.NDArray[np.int64] = field(init=False, repr=False)
    _odd: Real = field(init=False, repr=False)
    _even: Real = field(init=False, repr=False)
    _fast: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        interior = self.resolution - 2
        fast = self.resolution >= FAST_TRANSFORM_FROM
        ordered = np.arange(1, interior + 1)
        folded = np.concatenate([ordered[0::2], ordered[1::2]])
        half = (interior + 1) // 2
        points = ordered[:half]
        dtype = np.float32 if self.single else np.float64
        object.__setattr__(self, "_fast", fast)
        object.__setattr__(self, "modes", ordered if fast else folded)
        tables = ordered[:0] if fast else points
        odd = _sines(tables, ordered[0::2], self.resolution - 1)
        even = _sines(tables[: interior // 2], ordered[1::2], self.resolution - 1)
        object.__setattr__(self, "_odd", np.ascontiguousarray(odd.T, dtype=dtype))
        object.__setattr__(self, "_even", np.ascontiguousarray(even.T, dtype=dtype))

    def forward(self, values: Real) -> Real:
        """Point values (m, m) to mode amplitudes (m, m), in the order of `modes`."""
        if self._fast:
            return _fast_sine(values)
        return _columns_to_modes(
            _rows_to_modes(values, self._odd, self._even), self._odd, self._even
        )

    def inverse(self, amplitudes: Real) -> Real:
        """Mode amplitudes (m, m), in the order of `modes`, to point values (m, m)."""
        if self._fast:
            return _fast_sine(amplitudes)
        rows = _rows_to_points(amplitudes, self._odd, self._even)
        return _columns_to_points(rows, self._odd, self._even)


@lru_cache(maxsize=8)
def sine_transform(resolution: int, single: bool = False) -> SineTransform:
    """The transform for n × n grids, its tables computed once."""
    return SineTransform(resolution, single)


@lru_cache(maxsize=8)
def laplacian_symbol(resolution: int) -> Array:
    """Eigenvalues μ_j + μ_k of the 5-point Dirichlet Laplacian, in the order of the transform."""
    spacing = 1.0 / (resolution - 1)
    modes = sine_transform(resolution).modes
    side = -((2.0 / spacing) ** 2) * np.sin(0.5 * np.pi * spacing * modes) ** 2
    symbol: Array = side[:, None] + side
    symbol.setflags(write=False)
    return symbol


def _sines(points: npt.NDArray[np.int64], modes: npt.NDArray[np.int64], intervals: int) -> Array:
    """√(2h) sin(π j k h); the angle is reduced in integers so that no digit is lost."""
    turns = np.outer(points, modes) % (2 * intervals)
    sines: Array = np.sqrt(2.0 / intervals) * np.sin(np.pi * turns / intervals)
    return sines


def _fast_sine(values: Real) -> Real:
    transformed: Real = scipy.fft.dstn(values, type=1, norm="ortho", workers=1)
    return transformed


def _rows_to_modes(x: Real, odd: Real, even: Real) -> Real:
    low, high = len(odd), len(even)
    sums = x[:low].copy()
    sums[:high] += x[: low - 1 : -1]
    differences = x[:high] - x[: low - 1 : -1]
    modes = np.empty_like(x)
    matmul(odd, sums, out=modes[:low])
    matmul(even, differences, out=modes[low:])
    return modes


def _columns_to_modes(x: Real, odd: Real, even: Real) -> Real:
    low, high = len(odd), len(even)
    sums = x[:, :low].copy()
    sums[:, :high] += x[:, : low - 1 : -1]
    differences = x[:, :high] - x[:, : low - 1 : -1]
    modes = np.empty_like(x)
    matmul(sums, odd.T, out=modes[:, :low])
    matmul(differences, even.T, out=modes[:, low:])
    return modes


def _rows_to_points(y: Real, odd: Real, even: Real) -> Real:
    low, high = len(odd), len(even)
    symmetric = matmul(odd.T, y[:low], np.empty_like(y[:low]))
    antisymmetric = matmul(even.T, y[low:], np.empty_like(y[low:]))
    points = np.empty_like(y)
    points[:low] = symmetric
    points[:high] += antisymmetric
    np.subtract(symmetric[:high], antisymmetric, out=points[: low - 1 : -1])
    return points


def _columns_to_points(y: Real, odd: Real, even: Real) -> Real:
    low, high = len(odd), len(even)
    symmetric = matmul(y[:, :low], odd, np.empty_like(y[:, :low]))
    antisymmetric = matmul(y[:, low:], even, np.empty_like(y[:, low:]))
    points = np.empty_like(y)
    points[:, :low] = symmetric
    points[:, :high] += antisymmetric
    np.subtract(symmetric[:, :high], antisymmetric, out=points[:, : low - 1 : -1])
    return points
