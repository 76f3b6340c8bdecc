"""Fills of scattered values."""

from __future__ import annotations

import numpy as np
import pytest

from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import nearest_value, thin_plate_spline

N = 24


def scattered(aligned, count=60):
    rng = np.random.default_rng(1)
    if aligned:
        chosen = rng.choice(N * N, count, replace=False)
        positions = np.stack(np.divmod(chosen, N), 1) / (N - 1)
    else:
        positions = rng.random((count, 2))
    return positions, rng.standard_normal(count)


@pytest.mark.parametrize("aligned", [True, False])
def test_the_spline_is_the_thin_plate_spline(aligned):
    """Its weights of r² ln r and of a plane, by a dense solve."""
    positions, values = scattered(aligned)

    def bending(squared):
        return 0.5 * squared * np.log(np.maximum(squared, 1e-300))

    plane = np.column_stack([np.ones(len(values)), positions])
    kernel = bending(((positions[:, None] - positions) ** 2).sum(-1))
    system = np.block([[kernel, plane], [plane.T, np.zeros((3, 3))]])
    weights = np.linalg.solve(system, np.append(values, np.zeros(3)))
    line = np.linspace(0, 1, N)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    expected = bending(((grid[:, None] - positions) ** 2).sum(-1)) @ weights[:-3]
    expected += weights[-3] + grid @ weights[-2:]
    got = thin_plate_spline(positions, values, N)
    np.testing.assert_allclose(got.ravel(), expected, atol=1e-8)


def test_sensors_on_one_line_make_no_plane():
    line = np.linspace(0, 1, 5)
    with pytest.raises(InvalidInput, match="three that are not on one line"):
        thin_plate_spline(np.stack([line, line], 1), line, N)


def test_the_spline_passes_through_its_values_and_keeps_planes():
    positions, values = scattered(True)
    index = np.rint(positions * (N - 1)).astype(int)
    got = thin_plate_spline(positions, values, N)
    np.testing.assert_allclose(got[index[:, 0], index[:, 1]], values, atol=1e-9)
    plane = thin_plate_spline(positions, 1 + positions @ [2.0, -3.0], N)
    line = np.linspace(0, 1, N)
    np.testing.assert_allclose(plane, 1 + 2 * line[:, None] - 3 * line, atol=1e-8)


def test_the_nearest_sensor_is_found():
    positions, values = scattered(False)
    point = np.array([5, 17]) / (N - 1)
    nearest = np.argmin(np.linalg.norm(positions - point, axis=1))
    assert nearest_value(positions, values, N)[5, 17] == values[nearest]
