"""Fills of scattered values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator

from neuralsolver.reference.fills import nearest_sensor, nearest_value, thin_plate_spline

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
    positions, values = scattered(aligned)
    line = np.linspace(0, 1, N)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    expected = RBFInterpolator(positions, values, kernel="thin_plate_spline")(grid)
    got = thin_plate_spline(positions, values, N)
    np.testing.assert_allclose(got.ravel(), expected, atol=1e-8)


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
    distance, number = nearest_sensor(positions, N)
    point = np.array([5, 17]) / (N - 1)
    all_distances = np.linalg.norm(positions - point, axis=1)
    assert number[5, 17] == np.argmin(all_distances)
    assert distance[5, 17] == pytest.approx(all_distances.min())
    assert nearest_value(positions, values, N)[5, 17] == values[number[5, 17]]
