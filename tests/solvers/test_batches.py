"""A batch in parts gives what the whole batch gives."""

from __future__ import annotations

import pytest
import torch

import neuralsolver as ns
from neuralsolver.equations import Darcy, Helmholtz, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers import solve_batch


@pytest.mark.parametrize("name", ["helmholtz", "darcy"])
def test_parts_on_threads_are_the_batch_up_to_rounding(name):
    solver, done = ns.load(name), []
    problem = Problem.random(solver.equation, 64, count=5, seed=8)
    whole = solver.solve(problem)
    before = torch.get_num_threads()
    parts = solve_batch(
        solver, problem, threads=2, part=2, report=lambda *counts: done.append(counts)
    )
    assert torch.get_num_threads() == before
    assert torch.allclose(parts.tensor, whole.tensor, rtol=1e-9, atol=1e-12)
    assert parts.status == whole.status
    assert parts.steps.tolist() == whole.steps.tolist()
    assert parts.residual_norms.shape == whole.residual_norms.shape
    assert torch.equal(parts.residual_norms.isnan(), whole.residual_norms.isnan())
    assert parts.u.shape == whole.u.shape
    assert done[0] == (0, 5)
    assert done[-1] == (5, 5)
    assert sorted(done) == done


def test_notes_count_the_samples_of_the_whole_batch(monkeypatch):
    """Beyond resonance the corrector needs Newton's help, in every part."""
    monkeypatch.setattr("neuralsolver.solvers.trained.MOST_WAVES", 100.0)
    solver, equation = ns.load("helmholtz"), Helmholtz(wavenumber=25.0)
    problem = Problem.random(equation, 64, count=3, seed=1)
    options = {"tolerance": 1e-8, "polish": True}
    parts = solve_batch(solver, problem, threads=1, part=1, **options)
    whole = solver.solve(problem, **options)
    assert parts.good
    assert set(parts.notes["classical_iterations"]) == set(whole.notes["classical_iterations"])


def test_a_batch_has_gradients_and_a_single_sample_is_a_batch():
    solver = ns.load("darcy")
    a = torch.full((3, 9, 9), 4.0, dtype=torch.float64, requires_grad=True)
    solve_batch(solver, Problem(Darcy(), a, batch=True), threads=2).u[1].sum().backward()
    norms = a.grad.flatten(1).norm(dim=1)
    assert norms[1] > 0
    assert norms[0] == norms[2] == 0
    one = Problem.random(Poisson(), 16)
    assert solve_batch(ns.load("poisson"), one).notes["remarks"]


def test_no_threads_are_refused():
    with pytest.raises(InvalidInput, match="threads"):
        solve_batch(ns.load("poisson"), Problem.random(Poisson(), 16), threads=0)
