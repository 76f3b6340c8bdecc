"""Scattered values made a field, without any knowledge of the prior: what one would try first.

    thin-plate spline     s(x) = Σ wⱼ φ(|x − xⱼ|) + a + b·x,   φ(r) = r² ln r,   s(xᵢ) = yᵢ

the interpolant of least bending ∫|D²s|², and the value of the nearest sensor. With all sensors on
the grid φ is needed at whole distances only: it is looked up, and the sum is a convolution.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.linalg import lu_factor, lu_solve
from scipy.spatial import cKDTree

from neuralsolver.errors import InvalidInput

Array = npt.NDArray[np.float64]


def thin_plate_spline(positions: Array, values: Array, resolution: int) -> Array:
    """The spline through `values` (N,) at `positions` (N, 2), on n × n points."""
    count = len(values)
    lattice = positions * (resolution - 1)
    whole = np.rint(lattice).astype(np.int64)
    aligned = bool((np.abs(lattice - whole) < 1e-9 * resolution).all())
    if aligned:
        offset = np.abs(whole[:, None] - whole[None])
        kernel = _table(resolution)[offset[..., 0], offset[..., 1]]
    else:
        kernel = _bending(((positions[:, None] - positions[None]) ** 2).sum(-1))
    linear = np.column_stack([np.ones(count), positions])
    if np.linalg.matrix_rank(linear) < 3:
        raise InvalidInput("sensors of the input", "three that are not on one line", count)
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = kernel
    system[:count, count:], system[count:, :count] = linear, linear.T
    right = np.concatenate([values, np.zeros(3)])
    weights = lu_solve(lu_factor(system, overwrite_a=True, check_finite=False), right)
    line = np.linspace(0.0, 1.0, resolution)
    plane = weights[count] + weights[count + 1] * line[:, None] + weights[count + 2] * line
    if aligned:
        placed = np.zeros((2 * resolution, 2 * resolution))
        np.add.at(placed, (whole[:, 0], whole[:, 1]), weights[:count])
        spectrum = scipy.fft.rfft2(placed) * _spectrum(resolution)
        bent: Array = scipy.fft.irfft2(spectrum, s=placed.shape)[:resolution, :resolution]
        bent += plane
        return bent
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 1, 2)
    bent = _bending(((grid - positions[None]) ** 2).sum(-1)) @ weights[:count]
    bent = bent.reshape(resolution, resolution)
    bent += plane
    return bent


def nearest_value(positions: Array, values: Array, resolution: int) -> Array:
    """The value of the nearest sensor, on n × n points."""
    filled: Array = values[nearest_sensor(positions, resolution)[1]]
    return filled


def nearest_sensor(positions: Array, resolution: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """The distance to the nearest sensor and its number, each (n, n)."""
    line = np.linspace(0.0, 1.0, resolution)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1)
    distance, number = cKDTree(positions).query(grid)
    return np.asarray(distance), np.asarray(number)


def _bending(squared: Array) -> Array:
    """r² ln r from r²."""
    values: Array = 0.5 * squared * np.log(np.maximum(squared, 1e-300))
    return values


@lru_cache(maxsize=4)
def _table(resolution: int) -> Array:
    """φ at whole distances (i, j) on the grid."""
    squares = (np.arange(resolution) / (resolution - 1)) ** 2
    return _bending(squares[:, None] + squares)


@lru_cache(maxsize=4)
def _spectrum(resolution: int) -> npt.NDArray[np.complex128]:
    """The transform of φ on a grid twice as large, where a convolution does not wrap around."""
    whole = np.minimum(np.arange(2 * resolution), 2 * resolution - np.arange(2 * resolution))
    squares = (whole / (resolution - 1)) ** 2
    transformed: npt.NDArray[np.complex128] = scipy.fft.rfft2(_bending(squares[:, None] + squares))
    return transformed
