"""DiffusionPDE and PCFM with an exact denoiser, as samplers and as solvers."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Helmholtz, Poisson, Problem
from neuralsolver.samplers import Schedule
from neuralsolver.samplers.methods import METHODS, build
from paper.baselines.diffusion_pde import DiffusionPDE
from paper.baselines.named_samplers import ForwardSampler
from paper.baselines.pcfm import PCFM
from tests.samplers.gaussian import GaussianDenoiser
from tests.samplers.test_samplers import N, error, networks, observed


def test_diffusion_pde_with_an_exact_denoiser_comes_near_the_truth():
    problem, _, u = observed(Poisson())
    denoiser = GaussianDenoiser(Poisson(), N)
    samples = DiffusionPDE(denoiser, Schedule(300)).sample(problem, 2, seed=1)
    assert float(samples.mismatch.max()) < 0.1
    assert error(samples.mean[1], u) < 0.3
    # an exact denoiser only knows pairs that solve the equation
    assert float(samples.relative_residual.max()) < 1e-6


@pytest.mark.parametrize("sees", [("input",), ("solution",)])
def test_pcfm_meets_its_constraints(sees):
    problem, _, u = observed(Poisson(), sees=sees)
    samples = PCFM(GaussianDenoiser(Poisson(), N), 30).sample(problem, 2, seed=1)
    assert float(samples.mismatch.max()) < 1e-3
    assert float(samples.relative_residual.max()) < 1e-3
    assert error(samples.mean[1], u) < 0.8


@pytest.mark.parametrize("equation", [Poisson(), Helmholtz(2.0)], ids=lambda e: e.name)
def test_a_sampler_is_a_solver_of_the_forward_problem(equation):
    problem = Problem.random(equation, N, 2, seed=3)
    u = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    solver = ForwardSampler(PCFM(GaussianDenoiser(Poisson(), N), 4), seed=5)
    solution = solver.solve(problem)
    assert float((solution.tensor - u).norm() / u.norm()) < 1e-6
    assert torch.equal(solver.solve(problem).tensor, solution.tensor)


def test_the_baselines_are_built_by_name():
    models = {"poisson-palette": networks(Poisson())[0]}
    for method in ("diffusion-pde", "pcfm"):
        assert method in METHODS
        assert build(method, "poisson", 3, models.__getitem__, None).name == method
