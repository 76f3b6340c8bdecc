"""The exact posterior against a dense conditional Gaussian on 16 × 16 points."""

from __future__ import annotations

import numpy as np
import pytest

from neuralsolver.reference.posterior import (
    GaussianPosterior,
    LinearMap,
    bilinear_weights,
    field_prior,
    on_grid,
)

N = 16
SOLUTION = LinearMap(factor=2.0, shift=1.5)


def dense():
    """Covariance of (f, u) on the grid, from the modes one by one."""
    prior = field_prior(N, 3.0)
    modes = prior.deviation.size
    fields = prior.field(np.eye(modes).reshape(modes, *prior.deviation.shape))
    pairs = np.concatenate([fields.reshape(modes, -1), SOLUTION(fields).reshape(modes, -1)], 1)
    return pairs.T @ pairs


def sensors(rng, sees, count=12):
    index = rng.choice(np.arange(N * N).reshape(N, N)[1:-1, 1:-1].ravel(), count, replace=False)
    of_solution = {
        "input": np.zeros(count, bool),
        "solution": np.ones(count, bool),
        "both": np.arange(count) % 2 == 1,
    }[sees]
    positions = np.stack(np.divmod(index, N), 1) / (N - 1)
    return positions, of_solution, index + of_solution * N * N


def conditional(rows, values, noise):
    """Mean and deviation of (f, u) given some of their values."""
    covariance = dense()
    observed = covariance[np.ix_(rows, rows)] + np.diag(noise**2)
    gain = np.linalg.solve(observed, covariance[rows]).T
    variance = np.diag(covariance - gain @ covariance[rows])
    return gain @ values, np.sqrt(np.maximum(variance, 0))


@pytest.mark.parametrize("sees", ["input", "solution", "both"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_mean_is_that_of_the_conditional_gaussian(sees, noise):
    rng = np.random.default_rng(1)
    positions, of_solution, rows = sensors(rng, sees, 12 if noise or sees == "input" else 5)
    sizes = np.where(of_solution, 0.01, 1.0)
    posterior = GaussianPosterior(N, 3.0, SOLUTION, positions, of_solution, noise * sizes)
    values = rng.standard_normal(len(rows)) * sizes
    mean, _ = conditional(rows, values, noise * sizes)
    for part, whole in zip(posterior.mean(values), np.split(mean, 2), strict=True):
        np.testing.assert_allclose(part.ravel(), whole, atol=2e-4 * np.abs(whole).max())


@pytest.mark.parametrize("sees", ["input", "solution", "both"])
def test_samples_have_the_mean_and_deviation_they_should(sees):
    rng = np.random.default_rng(2)
    positions, of_solution, rows = sensors(rng, sees)
    noise = np.full(12, 0.05)
    posterior = GaussianPosterior(N, 3.0, SOLUTION, positions, of_solution, noise)
    values = np.where(of_solution, 0.01, 1.0) * rng.standard_normal(12)
    count = 4000
    mean, deviation = conditional(rows, values, noise)
    for samples, middle, spread in zip(
        posterior.samples(values, count, rng),
        np.split(mean, 2),
        np.split(deviation, 2),
        strict=True,
    ):
        drawn = samples.reshape(count, -1)
        inside = spread > 1e-6 * spread.max()
        off = (drawn.mean(0) - middle)[inside] / spread[inside] * np.sqrt(count)
        assert np.abs(off).max() < 5
        assert abs(np.square(off).mean() - 1) < 0.9
        ratio = drawn.std(0)[inside] / spread[inside]
        assert np.abs(ratio - 1).max() < 0.06


def test_samples_pass_through_sensors_without_noise():
    rng = np.random.default_rng(3)
    positions, of_solution, rows = sensors(rng, "input")
    posterior = GaussianPosterior(N, 3.0, SOLUTION, positions, of_solution, np.zeros(12))
    values = rng.standard_normal(12)
    fields, solutions = posterior.samples(values, 3, rng)
    np.testing.assert_allclose(fields.reshape(3, -1)[:, rows], np.tile(values, (3, 1)), atol=1e-7)
    np.testing.assert_allclose(solutions, SOLUTION(fields), atol=1e-14)


def test_joining_equal_modes_leaves_the_covariance_on_the_grid_as_it_was():
    whole, joined = (field_prior(N, 3.0, folded=folded) for folded in (False, True))
    assert whole.deviation.shape == (128, 128)
    assert joined.deviation.shape == (N, N)

    def covariance(prior):
        weights = np.zeros((N, N))
        weights[3, 7] = 1.0
        return prior.field(prior.form(weights) / 1.0)

    np.testing.assert_allclose(covariance(joined), covariance(whole), rtol=1e-10)


def test_sensors_between_grid_points_are_functions_of_all_modes():
    rng = np.random.default_rng(4)
    positions = rng.random((6, 2))
    posterior = GaussianPosterior(N, 1.0, SOLUTION, positions, np.zeros(6, bool), np.zeros(6))
    assert not on_grid(positions, N)
    assert posterior.prior.deviation.shape == (128, 128)
    # far from the sensors little is known, at a grid point next to one almost everything
    positions[0] = np.array([5.0, 6.0]) / (N - 1) + 1e-6
    near = GaussianPosterior(N, 1.0, SOLUTION, positions, np.zeros(6, bool), np.zeros(6))
    deviation = near.samples(np.zeros(6), 200, rng)[0].std(0)
    assert deviation[5, 6] < 1e-4
    assert np.median(deviation) > 0.02


def test_a_sensor_of_the_solution_on_the_wall_changes_nothing():
    rng = np.random.default_rng(5)
    positions, of_solution, _ = sensors(rng, "input")
    values = rng.standard_normal(12)
    without = GaussianPosterior(N, 1.0, SOLUTION, positions, of_solution, np.zeros(12))
    wall = np.concatenate([positions, [[0.0, 0.4]]])
    added = GaussianPosterior(N, 1.0, SOLUTION, wall, np.append(of_solution, True), np.zeros(13))
    for first, second in zip(without.mean(values), added.mean(np.append(values, 0)), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-9)


def test_bilinear_weights_reproduce_linear_functions():
    rng = np.random.default_rng(6)
    positions = np.concatenate([rng.random((20, 2)), [[1.0, 1.0], [0.0, 1.0]]])
    line = np.linspace(0, 1, N)
    field = 2 + 3 * line[:, None] - 5 * line
    read = (bilinear_weights(positions, N) * field).sum((1, 2))
    np.testing.assert_allclose(read, 2 + positions @ [3, -5], atol=1e-12)
