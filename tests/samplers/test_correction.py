"""Reconstruction by correction, guidance to sensors of the solution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solver import ReferenceSolver
from neuralsolver.equations import Darcy, Helmholtz, Observed, Poisson, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers import Correction, ExactPosterior, Fill, Palette, Schedule
from neuralsolver.samplers.conditions import centred, conditions
from neuralsolver.samplers.projection import least_residual
from tests.samplers.gaussian import GaussianDenoiser
from tests.samplers.test_samplers import N, error, observed


@pytest.mark.parametrize("sees", [("input",), ("solution",), ("input", "solution")])
def test_correction_comes_near_the_exact_mean(sees):
    # sensors on a random part of the grid, the same problem that the exact posterior has
    problem, _, u = observed(Poisson(), 60, sees=sees)
    corrected = Correction(ReferenceSolver()).sample(problem, 2)
    exact = error(ExactPosterior().sample(problem, 100).mean[1], u)
    found = error(corrected.mean[1], u)
    assert found < 1.5 * exact + 0.002
    assert float(corrected.mismatch.max()) < 0.02
    assert float(corrected.relative_residual.max()) < 1e-9
    assert torch.equal(corrected.solutions[0], corrected.solutions[1])


def test_correction_of_a_permeability_has_the_seen_phases():
    problem, _, u = observed(Darcy())
    samples = Correction(ReferenceSolver()).sample(problem, 1)
    assert float(samples.mismatch.max()) == 0
    assert error(samples.mean[1], u) < 0.2
    with pytest.raises(InvalidInput, match="sensors of permeability only"):
        Correction(ReferenceSolver()).sample(observed(Darcy(), sees=("solution",))[0])


def test_problems_with_different_numbers_of_sensors_are_corrected_alike():
    problems = [observed(Poisson(), count, seed=count)[0] for count in (40, 60)]
    together = Correction(ReferenceSolver()).sample_each(problems, 1, [0, 0])
    alone = Correction(ReferenceSolver()).sample(problems[1], 1)
    torch.testing.assert_close(together[1].solutions, alone.solutions)


def test_the_fill_of_a_source_has_no_mean_and_one_of_a_permeability_keeps_it():
    field = np.random.default_rng(0).standard_normal((N, N)) + 3.0
    weights = np.ones(N)
    weights[[0, -1]] = 0.5
    for equation in (Poisson(), Helmholtz()):
        assert abs(weights @ centred(equation, field) @ weights) < 1e-10
    assert centred(Darcy(), field) is field
    # every cosine but the constant has no mean in this sense
    cosine = np.cos(3 * np.pi * np.arange(N) / (N - 1))[:, None] * np.ones(N)
    np.testing.assert_allclose(centred(Poisson(), cosine), cosine, atol=1e-14)


def test_a_centred_spline_is_better_than_a_spline():
    errors = []
    for name in ("spline", "centred-spline"):
        found = []
        for seed in range(8):
            problem, _, u = observed(Poisson(), seed=seed)
            found.append(error(Fill(name).sample(problem, 1).mean[1], u))
        errors.append(np.mean(found))
    assert errors[1] < 0.95 * errors[0]


def test_guidance_with_an_exact_denoiser_is_the_exact_posterior():
    problem, _, u = observed(Poisson(), 20, sees=("solution",))
    denoiser = GaussianDenoiser(Poisson(), N)
    guided = Palette(denoiser, Schedule(30)).sample(problem, 16, seed=1)
    exact = ExactPosterior().sample(problem, 100)
    free = Palette(denoiser, Schedule(30)).sample(observed(Poisson(), 4)[0], 16, seed=1)
    assert float(guided.mismatch.max()) < 0.05
    assert error(guided.mean[1], u) < 0.3 * error(free.mean[1], u)
    # the spread is that of the exact posterior, not only its mean
    inner = (slice(2, -2), slice(2, -2))
    ratio = guided.deviation[1][inner].mean() / exact.deviation[1][inner].mean()
    assert 0.5 < float(ratio) < 2.0


def test_sensors_of_the_solution_must_be_equally_many():
    places = [[0.2, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.8]]
    first, second = (
        Observed(Poisson(), N, Sensors(places * 2, names, np.ones(8)))
        for names in (["source"] * 4 + ["solution"] * 4, ["source"] * 5 + ["solution"] * 3)
    )
    sampler = Palette(GaussianDenoiser(Poisson(), N), Schedule(2))
    with pytest.raises(InvalidInput, match="equally many"):
        sampler.sample_each([first, second], 1, [0, 0])


def test_the_least_residual_of_a_system_that_is_not_symmetric():
    generator = torch.Generator().manual_seed(1)
    matrix = torch.eye(9).double() + 0.3 * torch.randn(9, 9, generator=generator).double()
    right = torch.randn(3, 9, generator=generator, dtype=torch.float64)
    right[1] = 0.0
    found = least_residual(lambda rows: rows @ matrix.T, right, 9, 1e-12)
    torch.testing.assert_close(found @ matrix.T, right)


def test_the_network_is_told_of_the_input_only():
    problem, inputs, _ = observed(Poisson(), 30, sees=("input", "solution"))
    seen = problem.sensors.of("source")
    told = conditions(
        Poisson(), N, [(seen.positions, seen.values)], GaussianDenoiser(Poisson(), N).sizes
    )
    assert int(told.counts[0]) == 30
    assert float((told.fill - inputs).norm() / inputs.norm()) < 0.5


def test_sensors_on_a_line_are_refused():
    places = np.stack([np.linspace(0, 1, 6), np.full(6, 0.5)], 1)
    problem = Observed(Poisson(), N, Sensors(places, "source", np.arange(6.0)))
    for sampler in (Fill(), Palette(GaussianDenoiser(Poisson(), N), Schedule(2))):
        with pytest.raises(InvalidInput, match="not on one line"):
            sampler.sample(problem, 1)
