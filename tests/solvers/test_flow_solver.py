"""A neural solver of flows: where it starts, what its residual is compared with, its clock."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.equations import NavierStokes, Poisson, Problem
from neuralsolver.fields.fourier import vorticity_derivatives
from neuralsolver.models import FNO
from neuralsolver.solvers import FixedSteps, NeuralSolver, ResidualBelow, State
from neuralsolver.training.objectives import Batch, contraction, reconstruction
from paper.table_recipes import reconstruction_and_residual
from tests.networks import Clocked, SpaceTime

FLOW = NavierStokes(frames=4)


@pytest.fixture
def problem():
    return Problem.random(FLOW, 16, 3, seed=1)


def size(residual):
    """RMS per sample of what a residual has added up to over time: L⁻¹r."""
    return FLOW.invert_linear_part(residual).square().mean((1, 2, 3, 4)).sqrt()


def still_residual(problem):
    """v·∇w − νΔw − f of the initial state in every frame, which is all that is left of F."""
    v1, v2, w1, w2, diffusion = vorticity_derivatives(problem.inputs)
    rest = v1 * w1 + v2 * w2 - FLOW.viscosity * diffusion - FLOW.forcing_field(problem.inputs)
    return rest[:, :, None].expand(-1, -1, 5, -1, -1)


def test_residuals_are_compared_with_the_flow_that_stands_still(problem):
    solver = NeuralSolver(None, Clocked(5), step_size=0.1)
    stood = solver.solve(problem, stop=FixedSteps(0))
    assert torch.equal(stood.tensor, problem.first_guess())
    still = size(still_residual(problem))
    assert torch.allclose(stood.residual_scale, still, rtol=1e-12)
    assert torch.allclose(stood.relative_residual, torch.ones(3).double(), rtol=1e-12)
    moved = solver.solve(problem, stop=FixedSteps(3))
    expected = size(problem.residual(moved.tensor))
    assert torch.allclose(moved.residual_norms[-1], expected)
    assert torch.allclose(moved.relative_residual, expected / still)
    # a trajectory of zeros jumps after frame 0, by which no residual should be measured
    assert (size(problem.residual(problem.zeros())) > 2 * still).all()


def test_a_tolerance_is_a_share_of_that_residual(problem):
    solver = NeuralSolver(None, Clocked(5))
    done = solver.solve(problem, stop=ResidualBelow(1.001, max_steps=0))
    assert done.good
    assert not solver.solve(problem, stop=ResidualBelow(0.999, max_steps=0)).good


def test_a_prediction_is_added_to_the_flow_that_stands_still(problem):
    u = NeuralSolver(Clocked(5)).predict(problem)
    assert torch.equal(u[:, :, 0], problem.inputs)
    change = u - problem.first_guess()
    assert torch.allclose(change[:, :, 1:], torch.tensor(1e-3).double(), atol=1e-9)


def test_a_network_in_space_and_time_reads_the_inputs_in_every_frame(problem):
    network = SpaceTime()
    u = NeuralSolver(network).predict(problem)
    assert network.read.shape == (3, 1, 5, 16, 16)
    for frame in range(5):
        assert torch.equal(network.read[:, :, frame], problem.inputs.float())
    assert torch.equal(u[:, :, 0], problem.inputs)
    assert torch.allclose(u[:, :, 1:], 2 * problem.inputs[:, :, None], atol=1e-6)


def test_a_corrector_in_space_and_time_reads_frame_by_frame(problem):
    network = SpaceTime()
    solver = NeuralSolver(None, network, step_size=1.0)
    u = problem.first_guess()
    residual = problem.residual(u)
    solver.stepper()(State.of(problem, u))
    assert network.read.shape == (3, 3, 5, 16, 16)
    assert torch.equal(network.read[:, 1:2], u.float())
    assert torch.equal(network.read[:, 2:], residual.float())


def test_an_fno_in_space_and_time_predicts_a_trajectory(problem):
    torch.manual_seed(0)
    network = FNO(
        1, 1, width=4, layers=1, max_wavenumber=[2, 3, 3], padding_mode="circular", time_padding=1
    )
    with torch.no_grad():
        u = NeuralSolver(network).predict(problem)
    assert u.shape == (3, 1, 5, 16, 16)
    assert torch.equal(u[:, :, 0], problem.inputs)
    # it knows the time, so that no two frames are equal
    assert all(not torch.allclose(u[:, :, i], u[:, :, i + 1]) for i in range(4))


def test_the_clock_counts_corrections_and_goes_on_past_those_of_training(problem):
    predictor, corrector = Clocked(5), Clocked(5)
    solver = NeuralSolver(predictor, corrector, step_size=1e-3, clock_steps=5)
    for _ in range(2):  # every solution starts its own clock
        corrector.seen.clear()
        solver.solve(problem, stop=FixedSteps(7))
        assert corrector.seen == [1 / 5, 2 / 5, 3 / 5, 4 / 5, 1.0, 6 / 5, 7 / 5]
    assert set(predictor.seen) == {1.0}


@pytest.mark.parametrize(
    ("objective", "count"),
    # without a predictor, the first guess has nothing to learn
    [(reconstruction, 4), (reconstruction_and_residual, 5)],
)
def test_training_shows_the_clock_of_solving(objective, count, problem):
    corrector = Clocked(5)
    solver = NeuralSolver(None, corrector, clock_steps=5)
    losses = list(objective(solver, Batch(problem, problem.first_guess(), steps=4)))
    assert len(losses) == count
    assert corrector.seen == [1 / 5, 2 / 5, 3 / 5, 4 / 5]


def test_without_clock_steps_every_correction_is_the_same_map(problem):
    corrector = Clocked(5)
    solver = NeuralSolver(None, corrector)
    solver.solve(problem, stop=FixedSteps(3))
    list(contraction(solver, Batch(problem, problem.zeros(), steps=2)))
    assert corrector.seen == [1.0] * 5


def test_contraction_without_a_predictor_has_no_loss_of_a_prediction():
    problem = Problem.random(Poisson(), 9, 2)
    batch = Batch(problem, torch.ones(2, 1, 9, 9).double(), steps=2)
    assert len(list(contraction(NeuralSolver(None, Clocked()), batch))) == 2
    assert len(list(contraction(NeuralSolver(Clocked(), Clocked()), batch))) == 3
