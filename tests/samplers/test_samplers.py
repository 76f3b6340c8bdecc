"""Samplers on small grids, with the exact denoiser where a network would be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.data.reference_solver import ReferenceSolver
from neuralsolver.equations import Darcy, Observed, Poisson, Problem, Sensors
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
from neuralsolver.samplers.conditions import conditions, encode_inputs, measure_sizes
from neuralsolver.samplers.denoiser import PALETTE_CHANNELS
from neuralsolver.samplers.diffusion_ens import ERROR_CHANNELS, error_signal, widen
from neuralsolver.samplers.methods import METHODS, build

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
    projected = DiffusionENS(conditioned, Schedule(4), finish="gauss-newton").sample(problems[0])
    assert projected.method == "diffusion-ens+gn"
    assert float(projected.relative_residual.max()) < 1e-6


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
        if method != "diffusion-ens+ens":
            sampler = build(method, "poisson", 3, models.__getitem__, ReferenceSolver)
            assert sampler.name in (method, method.removesuffix("+gn"))
    with pytest.raises(InvalidInput, match="one of diffusion-ens"):
        build("magic", "poisson", None, models.__getitem__, None)
    with pytest.raises(InvalidInput, match="at least 2"):
        build("palette", "poisson", 1, models.__getitem__, None)
