"""The error signals and the loss of the ablations."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.equations import Darcy, Helmholtz, Problem
from neuralsolver.solvers.error_signals import ERROR_SIGNALS
from neuralsolver.solvers.loop import State
from neuralsolver.training.objectives import Batch, reconstruction, squared_norm
from paper.table_recipes import RESIDUAL_WEIGHT, reconstruction_and_residual
from tests.training.job import InMemory
from tests.training.test_fit import awake


def test_zero_field_ablation_ignores_the_residual():
    problem = Problem.random(Helmholtz(), 16, count=2)
    u = problem.zeros()
    for residual in (torch.zeros_like(u), torch.randn_like(u)):
        error, scale = ERROR_SIGNALS["zero_field"](State(problem, u, residual))
        assert float(error.abs().max()) == 0.0
        assert float(scale.max()) == 1.0


def test_gradient_signal_is_the_gradient_of_half_the_squared_residual_in_its_units():
    problem = Problem.random(Darcy(), 12, count=1)
    u = problem.impose(torch.randn(1, 1, 12, 12, dtype=torch.float64))
    gradient, _ = ERROR_SIGNALS["residual_gradient"](State.of(problem, u))
    direction, step = torch.randn_like(u), 1e-6

    def energy(v):
        return 0.5 * problem.residual(v).square().sum()

    slope = (energy(u + step * direction) - energy(u - step * direction)) / (2 * step)
    in_units = max(problem.grid.spacing) ** 2 * float(slope)
    assert float((gradient * direction).sum()) == pytest.approx(in_units, rel=1e-6)


def test_a_residual_term_adds_the_relative_residual():
    examples = InMemory(Helmholtz(), 24, 16)
    solver = awake("paper-residual-loss")
    inputs, target = examples.tensors(slice(0, 2))
    problem = Problem(Helmholtz(), inputs)
    batch = Batch(problem, target, steps=1)
    plain = [loss.detach().item() for loss in reconstruction(solver, batch)]
    both = [loss.detach().item() for loss in reconstruction_and_residual(solver, batch)]
    u = solver.predict(problem).detach()
    size = squared_norm(problem.residual(problem.zeros()))
    for before, after in zip(plain, both, strict=True):
        term = RESIDUAL_WEIGHT * (squared_norm(problem.residual(u)) / size).mean() / 2
        assert after - before == pytest.approx(float(term), rel=1e-4)
        u = solver.stepper()(State.of(problem, u)).detach()
