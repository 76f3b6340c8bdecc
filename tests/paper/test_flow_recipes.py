"""The recipes on flows: they learn, and a contractive corrector does not know where it is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from neuralsolver.equations import NavierStokes, Problem, equation_named
from neuralsolver.solvers import State
from neuralsolver.training import fit
from neuralsolver.training.objectives import OBJECTIVES, Batch, h1_norm, relative_l2
from neuralsolver.training.presets import SCALES, recipes_for
from neuralsolver.training.recipes import make_plan, make_solver
from tests.training.job import InMemory

RECIPES = recipes_for(NavierStokes())
TINY = SCALES["tiny"]
ACCURATE = {"frames": 6, "time_order": 4, "dealiasing": "2/3"}


@pytest.fixture(scope="module", params=["navier-stokes", "kolmogorov"])
def examples(request):
    return InMemory(equation_named(request.param, ACCURATE), TINY.batch_size, 16)


def loss(solver, plan, examples):
    """The whole loss of all examples, from the first guess."""
    inputs, target = examples.tensors()
    batch = Batch(Problem(examples.equation, inputs), target, plan.unroll)
    return sum(float(part.detach()) for part in OBJECTIVES[plan.objective](solver, batch))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_few_batches_lower_the_loss(recipe, examples, tmp_path):
    solver = make_solver(recipe, examples.equation, TINY, seed=1)
    changes = {"warmup": 1, "learning_rate": 4e-3, "ema": 0.0}
    plan = replace(make_plan(recipe, examples.equation, TINY, **changes), batches=12)
    before = loss(solver, plan, examples)
    record = fit(solver, examples, plan, tmp_path)
    after = loss(solver, plan, examples)
    assert record.skipped == 0
    assert math.isfinite(after)
    assert after < 0.9 * before


def test_the_paper_s_own_residual_trains_too(tmp_path):
    """Second order in time, products with their aliases: `--set time_order=2 dealiasing=none`."""
    equation = equation_named("navier-stokes", {"frames": 6})
    assert (equation.time_order, equation.dealiasing) == (2, "none")
    examples = InMemory(equation, TINY.batch_size, 16)
    solver = make_solver("paper", equation, TINY, seed=1)
    changes = {"warmup": 1, "learning_rate": 4e-3, "ema": 0.0}
    plan = replace(make_plan("paper", equation, TINY, **changes), batches=12)
    before = loss(solver, plan, examples)
    fit(solver, examples, plan, tmp_path)
    assert loss(solver, plan, examples) < 0.9 * before


def test_on_the_torus_the_h1_norm_goes_around():
    n = 32
    r = torch.arange(n, dtype=torch.float64) / n
    wave = torch.sin(2 * math.pi * r)[None, None, None, :, None].expand(1, 1, 3, n, n)
    moved = torch.roll(wave, 7, -2)
    assert torch.allclose(h1_norm(wave, around=True), h1_norm(moved, around=True))
    assert not torch.allclose(h1_norm(wave), h1_norm(moved))
    # 1/2 for the square of a sine, (2π)² times that for its slope
    expected = math.sqrt(wave.numel() * 0.5 * (1 + (2 * math.pi) ** 2))
    assert float(h1_norm(wave, around=True)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("recipe", "shift"),
    [
        ("contractive-cnn", (3, 5)),
        ("paper-cnn", (3, 5)),
        # a transformer: whole tokens of its coarsest level, 4 points
        ("contractive", (4, 8)),
    ],
)
def test_the_corrector_of_a_flow_does_not_know_the_place(recipe, shift):
    equation = NavierStokes(frames=6)
    solver = make_solver(recipe, equation, TINY).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # a network starts by answering zero, which commutes with anything
        for parameter in solver.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).double())
    inputs, u, residual = (
        torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))
        for seed, shape in enumerate([(2, 1, 16, 16), (2, 1, 7, 16, 16), (2, 1, 7, 16, 16)])
    )

    def correction(by):
        w, v, r = (field.roll(by, (-2, -1)) for field in (inputs, u, residual))
        with torch.no_grad():
            return solver.correction(State(Problem(equation, w), v, r))

    here = correction((0, 0))
    assert float(here.std()) > 1e-3
    torch.testing.assert_close(correction(shift), here.roll(shift, (-2, -1)), rtol=0, atol=1e-11)
    assert not torch.allclose(correction(shift), here, rtol=0, atol=1e-3)


def test_the_operators_know_the_place():
    """The forcing is not among the inputs: without coordinates an operator could not learn it."""
    equation = NavierStokes(frames=6)
    inputs = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 1, 16, 16)))
    for recipe in ("operator", "operator-cnn", "fno"):
        solver = make_solver(recipe, equation, TINY)
        with torch.no_grad():
            here = solver.predict(Problem(equation, inputs)).roll((4, 8), (-2, -1))
            there = solver.predict(Problem(equation, inputs.roll((4, 8), (-2, -1))))
        assert not torch.allclose(here, there, atol=1e-2), recipe


def test_the_relative_loss_of_a_prediction(examples):
    inputs, target = examples.tensors()
    problem = Problem(examples.equation, inputs)
    solver = make_solver("operator-cnn", examples.equation, TINY)
    found = [float(part.detach()) for part in relative_l2(solver, Batch(problem, target, 0))]
    with torch.no_grad():
        u = solver.predict(problem).numpy()
    ratios = [
        np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(u, target.numpy(), strict=True)
    ]
    assert found == pytest.approx([np.mean(ratios)], rel=1e-6)
