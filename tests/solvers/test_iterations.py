"""The loop as a generator, and solves that do not know of each other."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from neuralsolver.equations import EQUATIONS, Poisson, Problem
from neuralsolver.solvers import FixedSteps, Solution, State, TrainedSolver, iterations
from neuralsolver.solvers.history import History
from neuralsolver.solvers.wrappers import Answer, Configured
from neuralsolver.training import load
from tests.networks import sine_solver


@pytest.fixture(scope="module")
def nonlinear():
    return load("nonlinear-helmholtz")


def test_a_generator_yields_what_an_observer_sees_and_can_be_left():
    problem = Problem.random(Poisson(), 24, count=2, seed=1)
    solver, seen = TrainedSolver(sine_solver(0.3), Poisson(), 24, {}), []
    solution = solver.solve(problem, observe=seen.append, tolerance=1e-8)
    running = solver.iterations(problem, tolerance=1e-8)
    for expected in seen[:4]:
        found = next(running)
        assert (found.stage, found.step) == (expected.stage, expected.step)
        assert torch.equal(found.u, expected.u)
    running.close()
    with pytest.raises(StopIteration):
        next(running)
    assert torch.equal(solver.solve(problem, tolerance=1e-8).tensor, solution.tensor)


def test_gradients_are_off_inside_and_as_they_were_outside():
    problem = Problem.random(Poisson(), 24, seed=1)
    running = sine_solver(0.3).iterations(problem, stop=FixedSteps(3))
    for seen in running:
        assert torch.is_grad_enabled()
        assert not seen.u.requires_grad


def test_seconds_are_those_spent_inside(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    problem = Problem.random(Poisson(), 16, seed=1)
    running = sine_solver(0.3).iterations(problem, stop=FixedSteps(2))
    while True:
        try:
            next(running)
        except StopIteration as end:
            solution: Solution = end.value
            break
        for _ in range(100):
            next(clock)
    # three observations and the end, one tick each
    assert solution.seconds == 4.0


def test_an_earlier_solve_changes_nothing(nonlinear):
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 64, count=2, seed=3)
    first = nonlinear.solve(problem, steps=4).tensor
    nonlinear.solve(problem, torch.randn_like(problem.zeros()), steps=2)
    assert torch.equal(nonlinear.solve(problem, steps=4).tensor, first)


def test_neighbours_that_stop_change_nothing(nonlinear):
    equation = EQUATIONS["nonlinear-helmholtz"]
    problem = Problem.random(equation, 64, count=3, seed=3)
    exact = nonlinear.solve(problem, tolerance=1e-12).tensor
    start = torch.zeros_like(exact)
    start[1:] = (1 + 1e-6) * exact[1:]  # these stop after some steps
    together = nonlinear.solve(problem, start, tolerance=1e-9, accelerate=False)
    alone = nonlinear.solve(problem.select([0]), start[:1], tolerance=1e-9, accelerate=False)
    assert 0 < int(together.steps[1:].max()) < int(together.steps[0])
    ratio = together.residual_norms[:, 0] / alone.residual_norms[:, 0]
    # a network of float32 answers a batch and a sample alike to its last digits only
    assert torch.allclose(ratio, torch.ones_like(ratio), rtol=1e-3)


def test_a_stepper_keeps_what_it_knows_of_those_who_remain(nonlinear):
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 64, count=3, seed=3)
    step, mask = nonlinear.network.stepper(), torch.tensor([True, False, True])
    with torch.no_grad():
        step(State.of(problem, problem.zeros()))
        before = step.blocks
        step.keep(mask)
    assert torch.equal(step.blocks, before[mask])


def test_threads_share_a_solver(nonlinear):
    problems = [
        Problem.random(EQUATIONS["nonlinear-helmholtz"], n, seed=seed)
        for seed, n in enumerate((64, 96, 64, 96))
    ]
    expected = [nonlinear.solve(problem, tolerance=1e-8).tensor for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda problem: nonlinear.solve(problem, tolerance=1e-8).tensor, problems)
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)


def test_nested_starts_and_polishing_are_observed(monkeypatch):
    monkeypatch.setattr("neuralsolver.solvers.trained.MAX_STEPS", 2)
    problem = Problem.random(Poisson(), 40, seed=1)
    seen = []
    poor = TrainedSolver(sine_solver(defect=1.0), Poisson(), 16, {})
    solution = poor.solve(problem, observe=seen.append, tolerance=1e-10, polish=True)
    assert solution.good
    assert [s.u.shape[-1] for s in seen if s.stage == "start"] == [16] * 4 + [8] * 2
    assert {s.u.shape[-1] for s in seen if s.stage != "start"} == {40}
    stages = [s.stage for s in seen]
    assert list(dict.fromkeys(stages)) == ["start", "solve", "safeguard", "polish"]
    last = seen[-1]
    assert last.stage == "polish"
    assert torch.equal(last.u, solution.tensor)
    assert float(last.norms) <= 1e-10 * float(last.scale)


def test_the_measured_residual_is_computed_once_per_step(monkeypatch):
    flow = EQUATIONS["navier-stokes"]
    calls = []
    invert = type(flow).invert_linear_part
    monkeypatch.setattr(
        type(flow), "invert_linear_part", lambda self, r: calls.append(1) or invert(self, r)
    )
    solver = load("navier-stokes")
    problem = Problem.random(solver.equation, 64, seed=1)
    solver.solve(problem, steps=3, accelerate=True)
    # one for the unit and one for each of four iterates
    assert len(calls) == 5


def test_a_history_counts_those_that_were_lost():
    exact = torch.ones(3, 1, 8, 8, dtype=torch.float64)
    problem = Problem(Poisson(), torch.ones(3, 1, 8, 8, dtype=torch.float64))
    history = History.of_errors(exact)

    def step(now: State):
        u = now.u * 0.5 + 0.5
        return torch.where(torch.arange(len(u)).view(-1, 1, 1, 1) == 1, u * math.nan, u)

    for seen in iterations(step, problem, problem.zeros(), FixedSteps(3)):
        history(seen)
    assert history.means()[0] == 1.0
    assert history.means()[-1] == math.inf
    errors = history.table()[:, 0]
    assert errors[-1, 0] < errors[0, 0]


def test_a_solver_with_settings_of_its_own():
    problem = Problem.random(Poisson(), 16, count=2, seed=1)
    plain = sine_solver(0.3)
    five = Configured(plain, {"stop": FixedSteps(5)})
    assert torch.equal(five.solve(problem).tensor, plain.solve(problem, stop=FixedSteps(5)).tensor)
    started = Configured(plain, {"stop": FixedSteps(0)}, start=lambda p: p.zeros() + 1)
    assert float(started.solve(problem).tensor.max()) == 1.0


def test_an_answer_is_a_solver_without_steps():
    problem = Problem.random(Poisson(), 16, count=2, seed=1)
    seen = []
    solution = Answer(lambda p: p.zeros()).solve(problem, observe=seen.append)
    assert [s.step for s in seen] == [0]
    assert solution.steps.tolist() == [0, 0]
    assert torch.allclose(solution.relative_residual, torch.ones(2).double())
