"""Reconstruction by correction, guidance to sensors of the solution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.equations import Darcy, Observed, Poisson, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers import ExactPosterior, Palette, Schedule
from paper.baselines.guidance import Guided
from paper.baselines.mismatch_correction import Correction
from paper.baselines.projection import least_residual
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


def test_guidance_with_an_exact_denoiser_is_the_exact_posterior():
    problem, _, u = observed(Poisson(), 20, sees=("solution",))
    denoiser = GaussianDenoiser(Poisson(), N)
    guided = Guided(denoiser, Schedule(30)).sample(problem, 16, seed=1)
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
    sampler = Guided(GaussianDenoiser(Poisson(), N), Schedule(2))
    with pytest.raises(InvalidInput, match="equally many"):
        sampler.sample_each([first, second], 1, [0, 0])


def test_the_least_residual_of_a_system_that_is_not_symmetric():
    generator = torch.Generator().manual_seed(1)
    matrix = torch.eye(9).double() + 0.3 * torch.randn(9, 9, generator=generator).double()
    right = torch.randn(3, 9, generator=generator, dtype=torch.float64)
    right[1] = 0.0
    found = least_residual(lambda rows: rows @ matrix.T, right, 9, 1e-12)
    torch.testing.assert_close(found @ matrix.T, right)
