"""The recipes on flows: they learn, and a contractive corrector does not know where it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from neuralsolver.equations import NavierStokes, Problem, equation_named
from neuralsolver.experiments.recipes import make_plan, make_solver
from neuralsolver.experiments.trainings import SCALES, recipes_for
from neuralsolver.solvers import Iterate
from neuralsolver.training import fit
from neuralsolver.training.objectives import OBJECTIVES, Batch, relative_l2
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
    changes = {"batches": 12, "warmup": 1, "learning_rate": 4e-3}
    plan = make_plan(recipe, examples.equation, TINY, **changes)
    before = loss(solver, plan, examples)
    record = fit(solver, examples, plan, tmp_path)
    after = loss(solver, plan, examples)
    assert record.skipped == 0
    assert math.isfinite(after)
    assert after < 0.9 * before


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
            return solver.correction(Iterate(Problem(equation, w), v, r))

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
