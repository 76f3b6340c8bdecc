"""The loop, its stopping rules and Definition 1, with networks whose behaviour is known."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from neuralsolver.equations import EQUATIONS, Helmholtz, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.models import FNO
from neuralsolver.solvers import FixedSteps, NeuralSolver, ResidualBelow, ResidualPlateau, Status
from neuralsolver.solvers.loop import State, iterate
from neuralsolver.solvers.norms import residual_norm
from tests.networks import Constant, SineInverse, sine_solver


@pytest.fixture
def problem():
    return Problem.random(Poisson(), 24, count=4, seed=1)


def test_error_falls_by_the_defect_in_every_step(problem):
    solution = sine_solver(defect=0.3).solve(problem, stop=FixedSteps(6))
    ratios = solution.residual_norms[1:] / solution.residual_norms[:-1]
    assert torch.allclose(ratios, torch.full_like(ratios, 0.3), rtol=1e-3)
    assert solution.status == (Status.FINISHED,) * 4
    assert solution.steps.tolist() == [6] * 4


def test_float64_problem_with_float32_network_reaches_round_off(problem):
    solver = sine_solver(defect=0.1)
    refined = solver.solve(problem, stop=ResidualBelow(1e-12))
    assert refined.good
    single = solver.solve(problem.in_precision(torch.float32), stop=FixedSteps(30))
    assert float(single.relative_residual.min()) > 1e-7
    assert float(refined.relative_residual.max()) <= 1e-12


def test_a_sample_that_has_stopped_is_not_computed(problem):
    """Samples start at different distances, so they stop one after another."""
    exact = sine_solver(defect=0.0).solve(problem, stop=FixedSteps(40)).tensor
    distance = torch.tensor([1e-2, 1e-4, 1e-6, 0.0])[:, None, None, None]
    solver = sine_solver(defect=0.3)
    start = exact * (1 + distance)
    solution = solver.solve(problem, start, stop=ResidualBelow(1e-8))
    steps = solution.steps.tolist()
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > steps[1] > steps[2] > steps[3] == 0
    assert solver.corrector.samples == sum(steps)
    assert solution.good
    for sample in range(4):
        assert torch.isfinite(solution.residual_norms[: steps[sample] + 1, sample]).all()
        assert torch.isnan(solution.residual_norms[steps[sample] + 1 :, sample]).all()


def test_solving_together_is_solving_alone(problem):
    solver = sine_solver(defect=0.4)
    together = solver.solve(problem, stop=ResidualBelow(1e-9))
    for sample in range(4):
        alone = solver.solve(problem.select([sample]), stop=ResidualBelow(1e-9))
        assert torch.allclose(alone.tensor[0], together.tensor[sample], rtol=1e-6, atol=1e-9)


def test_divergence_is_a_status_with_the_best_iterate(problem):
    bad = sine_solver(defect=-30.0)
    solution = bad.solve(problem, stop=FixedSteps(50))
    assert solution.status == (Status.DIVERGED,) * 4
    assert not solution.good
    assert torch.isfinite(solution.tensor).all()
    assert torch.equal(solution.tensor, problem.zeros())


def test_nan_from_the_network_is_divergence(problem):
    solver = NeuralSolver(
        None, Constant(float("nan")), error="scaled_residual", corrector_reads=("error",)
    )
    solution = solver.solve(problem, stop=FixedSteps(3))
    assert solution.status == (Status.DIVERGED,) * 4
    assert torch.isfinite(solution.tensor).all()


def test_plateau_is_not_called_convergence(problem):
    solver = sine_solver(defect=1.0)
    solution = solver.solve(problem, stop=ResidualPlateau(max_steps=50, window=5))
    assert solution.status == (Status.STALLED,) * 4
    assert not solution.good
    assert max(solution.steps.tolist()) <= 10


def test_tolerance_that_is_not_reached_is_said(problem):
    solution = sine_solver(defect=0.9).solve(problem, stop=ResidualBelow(1e-8, max_steps=5))
    assert solution.status == (Status.STEP_LIMIT,) * 4
    assert not solution.good
    assert "STEP_LIMIT" in solution.summary()


def test_observer_sees_every_iterate_residual_and_correction(problem):
    seen = []
    sine_solver().solve(problem, stop=FixedSteps(3), observe=seen.append)
    assert [s.step for s in seen] == [0, 1, 2, 3]
    assert seen[0].correction is None
    for before, after in pairwise(seen):
        assert torch.allclose(after.u, before.u + after.correction)
        assert torch.equal(after.residual, problem.residual(after.u))


def test_no_corrector_is_a_neural_operator(problem):
    predictor = FNO(1, 1, width=4, layers=1, max_wavenumber=(2, 2))
    solution = NeuralSolver(predictor).solve(problem)
    expected = problem.impose(predictor(problem.inputs.float()).double())
    assert torch.equal(solution.tensor, expected.detach())
    assert solution.steps.tolist() == [0] * 4
    with pytest.raises(InvalidInput, match="corrector"):
        NeuralSolver(predictor).stepper()(State.of(problem, solution.tensor))


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "nonlinear-helmholtz", "darcy"])
def test_exact_solution_is_a_fixed_point_of_the_scaled_signal(name):
    """Whatever the network says, a vanishing residual gives a vanishing correction."""
    equation = EQUATIONS[name]
    problem = Problem.random(equation, 16, count=2)
    solver = NeuralSolver(
        None,
        Constant(7.0),
        error="scaled_residual",
        corrector_reads=("inputs", "solution", "error"),
    )
    u = torch.randn(2, 1, 16, 16, dtype=torch.float64)
    u = problem.impose(u)
    assert torch.equal(solver.stepper()(State(problem, u, torch.zeros_like(u))), u)


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e8])
def test_scaled_signal_is_equivariant_under_a_change_of_units(factor):
    torch.manual_seed(0)
    solver = NeuralSolver(
        None,
        FNO(1, 1, width=6, layers=2, max_wavenumber=(3, 3)),
        error="scaled_residual",
        corrector_reads=("error",),
    )
    problem = Problem.random(Helmholtz(), 16, count=2)
    scaled = Problem(problem.equation, factor * problem.inputs)
    u = solver.solve(problem, stop=FixedSteps(2)).tensor
    v = solver.solve(scaled, stop=FixedSteps(2)).tensor
    assert torch.allclose(v, factor * u, rtol=1e-4, atol=1e-5 * factor * float(u.abs().max()))


def test_inputs_are_not_changed(problem):
    before = problem.inputs.clone()
    start = torch.randn_like(problem.zeros())
    kept = start.clone()
    sine_solver().solve(problem, start, stop=FixedSteps(2))
    assert torch.equal(problem.inputs, before)
    assert torch.equal(start, kept)


def test_a_step_with_memory_is_told_who_remains(problem):
    class Remembering:
        def __init__(self):
            self.inner = sine_solver(defect=0.3).stepper()
            self.kept = []

        def __call__(self, now):
            return self.inner(now)

        def keep(self, mask):
            self.kept.append(mask.tolist())

    exact = sine_solver(defect=0.0).solve(problem, stop=FixedSteps(40)).tensor
    step = Remembering()
    start = exact * torch.tensor([1.0, 2.0, 1.001, 1.0])[:, None, None, None]
    with torch.no_grad():
        iterate(step, problem, start, ResidualBelow(1e-9))
    assert step.kept[0] == [False, True, True, False]
    assert len(step.kept) == 2


def test_bad_settings_name_the_field():
    network = SineInverse()
    for build in (
        lambda: NeuralSolver(None, network, error="guess"),
        lambda: NeuralSolver(None, network, corrector_reads=("error", "colour")),
        lambda: FixedSteps(-1),
        lambda: ResidualBelow(0.0),
    ):
        with pytest.raises(InvalidInput, match=r"expected .* got"):
            build()


def test_residual_norm_is_the_root_mean_square():
    r = torch.full((2, 1, 3, 3), 2.0)
    assert residual_norm(r).tolist() == [2.0, 2.0]
