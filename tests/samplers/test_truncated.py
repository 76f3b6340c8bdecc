"""Gaussian vectors whose signs are known."""

from __future__ import annotations

import numpy as np

from neuralsolver.samplers.exact import SignedGaussian, effective_size


def states(covariance, signs, seed, count):
    chain = SignedGaussian(covariance, signs, np.random.default_rng(seed))
    return np.array([chain.advance() for _ in range(count)])


def test_the_chain_has_the_moments_of_rejected_draws():
    covariance = np.array([[1.0, 0.8, -0.3], [0.8, 2.0, 0.1], [-0.3, 0.1, 0.5]])
    signs = np.array([1.0, -1.0, 1.0])
    drawn = states(covariance, signs, 1, 6000)[20:]
    assert (signs * drawn >= 0).all()
    rng = np.random.default_rng(2)
    free = rng.multivariate_normal(np.zeros(3), covariance, 400_000)
    kept = free[(signs * free >= 0).all(1)]
    np.testing.assert_allclose(drawn.mean(0), kept.mean(0), atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(kept.T), atol=0.04)


def test_two_chains_from_different_starts_meet():
    rng = np.random.default_rng(3)
    points = rng.random((40, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    covariance = np.exp(-distance / 0.4) + 1e-9 * np.eye(40)
    signs = np.sign(points[:, 0] - 0.5)
    first, second = (states(covariance, signs, seed, 700)[50:] for seed in (4, 5))
    assert min(effective_size(chain[:, i]) for chain in (first, second) for i in (0, 9)) > 200
    scatter = np.sqrt(first.var(0) / 200 + second.var(0) / 200)
    assert (np.abs(first.mean(0) - second.mean(0)) < 5 * scatter).all()


def test_a_sluggish_chain_is_worth_less():
    rng = np.random.default_rng(6)
    white = rng.standard_normal(4000)
    slow = np.zeros(4000)
    for i in range(1, 4000):
        slow[i] = 0.9 * slow[i - 1] + white[i]
    assert effective_size(white) > 3000
    # (1 − 0.9)/(1 + 0.9) of its length
    assert 100 < effective_size(slow) < 400
