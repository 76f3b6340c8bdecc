"""Samplers on small grids, with the exact denoiser where a network would be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import ReferenceSolver, solve_reference
from neuralsolver.equations import Darcy, Helmholtz, Observed, Poisson, Problem, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.models import SongUNet
from neuralsolver.samplers import (
    Denoiser,
    DiffusionENS,
    ErrorConditionedDenoiser,
    ExactPosterior,
    Fill,
    Palette,
    Schedule,
)
from neuralsolver.samplers.conditions import centred, conditions, encode_inputs
from neuralsolver.samplers.diffusion_ens import ERROR_CHANNELS, error_signal, nearest_pair
from neuralsolver.samplers.methods import METHODS, build
from neuralsolver.samplers.palette import PALETTE_CHANNELS
from paper.baselines.projection import LeastNormENS
from paper.denoiser_training import measure_sizes, widen
from tests.samplers.gaussian import GaussianDenoiser

N = 16


def observed(equation, count=60, seed=1, sees=("input",), noise=0.0):
    problem = Problem.random(equation, N, seed=seed)
    u = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    fields = {"input": (equation.input_names[0], problem.inputs), "solution": ("solution", u)}
    seen = {fields[see][0]: fields[see][1][0, 0].numpy() for see in sees}
    return Observed(equation, N, Sensors.random(seen, count, seed, noise)), problem.inputs, u


def error(field, true):
    return float((field - true[0, 0]).norm() / true.norm())


def test_exact_samples_fit_the_sensors_solve_the_equation_and_surround_the_truth():
    problem, _inputs, u = observed(Poisson())
    samples = ExactPosterior().sample(problem, 40, seed=2)
    assert float(samples.mismatch.max()) < 1e-6
    assert float(samples.relative_residual.max()) < 1e-11
    assert error(samples.mean[1], u) < 0.15
    assert torch.equal(samples.solutions, ExactPosterior().sample(problem, 40, 2).solutions)
    low, high = samples.quantiles((0.02, 0.98))[1]
    inside = ((u[0, 0] >= low) & (u[0, 0] <= high))[1:-1, 1:-1]
    assert float(inside.double().mean()) > 0.5
    assert "40 samples by exact" in samples.summary()
    assert "spread" in samples.summary()


def test_exact_darcy_samples_have_the_seen_phases():
    problem, _inputs, u = observed(Darcy())
    samples = ExactPosterior().sample(problem, 12, seed=3)
    assert float(samples.mismatch.max()) == 0
    assert set(samples.inputs.unique().tolist()) == {3.0, 12.0}
    assert float(samples.relative_residual.max()) < 1e-10
    assert error(samples.mean[1], u) < 0.15
    wrong = Sensors(problem.sensors.positions, "permeability", problem.sensors.values + 1)
    with pytest.raises(InvalidInput, match="3 or 12"):
        ExactPosterior().sample(Observed(Darcy(), N, wrong))


def test_more_knowledge_means_less_error():
    errors = []
    for sees in (("input",), ("input", "solution")):
        problem, _, u = observed(Poisson(), 40, sees=sees)
        errors.append(error(ExactPosterior().sample(problem, 60).mean[1], u))
    assert errors[1] < 0.3 * errors[0]


def test_fills_are_one_answer_and_refuse_sensors_of_the_solution():
    problem, _, u = observed(Poisson())
    samples = Fill("spline").sample(problem, 3)
    assert len(samples) == 3
    assert float(samples.deviation[1].max()) == 0
    assert error(samples.mean[1], u) < error(Fill("nearest").sample(problem).mean[1], u)
    with pytest.raises(InvalidInput, match="sensors of source only"):
        Fill().sample(observed(Poisson(), sees=("solution",))[0])


def networks(equation):
    torch.manual_seed(0)
    size = {"width": 8, "multipliers": (1, 2), "patch": 2}
    base = Denoiser(SongUNet(PALETTE_CHANNELS, 2, **size), measure_sizes(equation, N))
    wider = SongUNet(ERROR_CHANNELS, 2, **size)
    widen(base.network, wider)
    return base, ErrorConditionedDenoiser(base, wider)


@pytest.mark.parametrize("equation", [Poisson(), Darcy()], ids=lambda e: e.name)
def test_diffusion_ens_starts_as_its_base_and_samples_agree_afterwards(equation):
    base, conditioned = networks(equation)
    problems = [observed(equation, seed=seed)[0] for seed in (1, 2)]
    first, second = (
        sampler.sample_each(problems, 2, [5, 6])
        for sampler in (Palette(base, Schedule(4)), DiffusionENS(conditioned, Schedule(4)))
    )
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one.solutions, other.solutions)
    # a problem and its seed give the same samples alone; in a batch to rounding
    alone = Palette(base, Schedule(4)).sample(problems[1], 2, seed=6)
    torch.testing.assert_close(alone.solutions, first[1].solutions, rtol=1e-3, atol=1e-4)
    projected = LeastNormENS(conditioned, Schedule(4)).sample(problems[0])
    assert projected.method == "diffusion-ens+gn"
    assert float(projected.relative_residual.max()) < 1e-6
    solved = DiffusionENS(conditioned, Schedule(4), ReferenceSolver()).sample(problems[0])
    assert solved.method == "diffusion-ens+ens"
    assert float(solved.relative_residual.max()) < 1e-9


def test_the_error_signal_is_zero_for_true_pairs_and_proposes_the_right_change():
    equation = Poisson()
    problem, inputs, u = observed(equation)
    sensors = problem.sensors
    told = conditions(
        equation, N, [(sensors.positions, sensors.values)], measure_sizes(equation, N)
    )
    x = told.encode(encode_inputs(equation, inputs), u)
    again = told.decode(x)
    torch.testing.assert_close(again[0], inputs)
    torch.testing.assert_close(again[1], u)
    assert float(error_signal(x, told)[1].abs().max()) < 1e-9
    spoiled = x.clone()
    spoiled[0, 1, 7, 8] += 1.0
    # one wrong point: its own residual over the diagonal is the whole mistake
    assert float(error_signal(spoiled, told)[1][0, 0, 7, 8]) == pytest.approx(1.0, abs=1e-6)


def test_without_sensors_the_units_are_those_of_the_prior():
    sizes = measure_sizes(Poisson(), N)
    nothing = (np.zeros((0, 2)), np.zeros(0))
    told = conditions(Poisson(), N, [nothing], sizes)
    assert told.scale.flatten().tolist() == list(sizes.prior)
    assert float(told.fill.abs().max()) == 0
    assert float(told.filled_solution.abs().max()) == 0
    assert sizes.of(20)[1] < sizes.of(0)[1]
    assert sizes.of(200)[0] < sizes.of(20)[0]


def test_samplers_are_built_by_name():
    base, conditioned = networks(Poisson())
    models = {"poisson-palette": base, "poisson-diffusion-ens": conditioned}
    for method in METHODS:
        sampler = build(method, "poisson", 3, models.__getitem__, ReferenceSolver)
        assert method.startswith(sampler.name)
    with pytest.raises(InvalidInput, match="one of exact"):
        build("magic", "poisson", None, models.__getitem__, None)
    with pytest.raises(InvalidInput, match="at least 2"):
        build("palette", "poisson", 1, models.__getitem__, None)


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


@pytest.mark.parametrize("equation", [Helmholtz(), Poisson()], ids=lambda e: e.name)
def test_the_nearest_pair_agrees_and_is_nearer_than_a_solve(equation):
    problem = Problem.random(equation, 16, 2, seed=4)
    exact = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    generator = torch.Generator().manual_seed(5)
    scale = torch.tensor([[3.0, 0.01], [2.0, 0.02]], dtype=torch.float64)
    noise = torch.randn(2, 2, 16, 16, generator=generator, dtype=torch.float64)
    f = problem.inputs + scale[:, :1, None, None] * noise[:, :1]
    u = problem.impose(exact + scale[:, 1:, None, None] * noise[:, 1:])
    f2, u2 = nearest_pair(equation, f, u, scale)
    residual = Problem(equation, f2).residual(u2)
    assert float(residual.abs().max()) < 1e-6 * float(f.abs().max())

    def distance(g, v):
        steps = torch.cat([g - f, v - u], 1) / scale[:, :, None, None]
        return float(steps.square().sum())

    solved = torch.from_numpy(solve_reference(equation, f.numpy()).solution)
    assert distance(f2, u2) < distance(f, solved)
    assert distance(f2, u2) < distance(problem.inputs, exact)


def test_two_phases_stay_as_they_are():
    problem = Problem.random(Darcy(), 16, 1, seed=6)
    u = problem.zeros() + 0.1
    f2, u2 = nearest_pair(Darcy(), problem.inputs, u, torch.ones(1, 2))
    assert torch.equal(f2, problem.inputs)
    assert torch.equal(u2, u)


def test_a_network_that_reads_inputs_refuses_sensors_of_the_solution():
    problem = observed(Poisson(), 30, sees=("input", "solution"))[0]
    with pytest.raises(InvalidInput, match="sensors of source only"):
        Palette(GaussianDenoiser(Poisson(), N), Schedule(2)).sample(problem, 1)
