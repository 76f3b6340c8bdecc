"""Flows on grids other than the trained one, with a corrector that is known to converge.

u ← u − L⁻¹F(u) with L = ∂ₜ − νΔ is Picard's iteration: a slow viscous flow needs no network.
Where digits count, it is asked for float64, for a `TrainedSolver` works in float32.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Grid, NavierStokes, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.fourier import resample
from neuralsolver.solvers import (
    FixedSteps,
    NeuralSolver,
    ResidualPlateau,
    State,
    Status,
    TrainedSolver,
    iterate,
)
from neuralsolver.solvers.torus import SpectralStep
from neuralsolver.solvers.wrappers import Configured
from tests.networks import Clocked

TRAINED = 16
COARSER, FINER = 12, 24
GRIDS = (COARSER, TRAINED, FINER)
FLOW = NavierStokes(viscosity=2e-3, start_time=0.0, frame_spacing=0.05, frames=4, time_order=4)


class Picard(nn.Module):
    """Minus the integrated residual, or so many times that."""

    def __init__(self, gain=1.0):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))

    def forward(self, x):
        return -self.gain * x


def picard(equation=FLOW, gain=1.0, stop=None):
    network = NeuralSolver(
        None,
        Picard(gain),
        error="integrated_residual",
        corrector_reads=("error",),
        step_size=1.0,
        stop=stop,
    )
    return TrainedSolver(network, equation, TRAINED, {})


def exactly(equation=FLOW):
    """The same in the precision of the problem."""
    return Configured(picard(equation), {"precision": torch.float64})


def on_trained(problem):
    return problem.resampled(Grid.torus(TRAINED, TRAINED))


def clocked():
    network = NeuralSolver(Clocked(5), Clocked(5), clock_steps=5)
    return TrainedSolver(network, FLOW, TRAINED, {})


@functools.cache
def trajectories(frames, count, modes):
    equation = replace(FLOW, frames=frames)
    drawn = 2 * Problem.random(equation, 2 * modes + 2, count, seed=3).inputs
    return torch.from_numpy(solve_reference(equation, resample(drawn, 32).numpy()).solution)


def flow(resolution, equation=FLOW, count=1, modes=4):
    """The same smooth initial states on any grid, and what becomes of them."""
    exact = resample(trajectories(equation.frames, count, modes), resolution)
    return Problem(equation, exact[:, :, 0]), exact


def distance(u, exact):
    """Relative, and only where something is unknown."""
    return float((u.double() - exact)[:, :, 1:].norm() / exact[:, :, 1:].norm())


def still_distance(exact):
    return distance(exact[:, :, :1].expand_as(exact), exact)


@pytest.mark.parametrize("resolution", GRIDS)
@pytest.mark.parametrize("dealiasing", ["none", "3/2", "2/3"])
def test_a_flow_is_solved_on_every_grid(resolution, dealiasing):
    equation = replace(FLOW, dealiasing=dealiasing)
    problem, exact = flow(resolution, equation, count=2)
    solution = picard(equation).solve(problem)
    assert solution.status == (Status.PLATEAU,) * 2
    assert solution.tensor.shape == exact.shape
    assert torch.equal(solution.tensor[:, :, 0], problem.inputs.float())
    # the modes that every one of these residuals advects on every one of these grids
    found, true = (resample(u, 8) for u in (solution.tensor, exact))
    assert distance(found, true) < 0.01 * still_distance(true)


def test_on_the_trained_grid_it_is_the_plain_iteration():
    problem, _ = flow(TRAINED)
    plain = picard().network.solve(problem, stop=FixedSteps(4))
    assert torch.equal(exactly().solve(problem, steps=4).tensor, plain.tensor)


def test_on_a_coarser_grid_the_flow_of_the_trained_one_is_cut():
    problem, _ = flow(COARSER)
    solution = exactly().solve(problem, steps=5)
    fine = picard().network.solve(on_trained(problem), stop=FixedSteps(5))
    assert torch.equal(solution.tensor[:, :, 1:], resample(fine.tensor, COARSER)[:, :, 1:])
    # what is reported of it belongs to the grid that was asked for
    assert solution.problem.resolution == COARSER
    expected = (
        problem.preconditioned_residual(problem.residual(solution.tensor)).square().mean().sqrt()
    )
    assert float(solution.residual_norms[-1]) == pytest.approx(float(expected))
    assert solution.steps.tolist() == [5]


def with_beyond(problem):
    """The problem with a wave that the trained grid does not have."""
    r = torch.arange(problem.resolution).double() / problem.resolution
    return Problem(problem.equation, problem.inputs + 0.01 * torch.cos(2 * math.pi * 10 * r))


def test_modes_that_the_trained_grid_does_not_have_are_in_the_initial_frame_only():
    problem = with_beyond(flow(FINER)[0])
    u = exactly().solve(problem, steps=3).tensor
    beyond = u - resample(resample(u, TRAINED), FINER)
    assert torch.equal(u[:, :, 0], problem.inputs)
    assert float(beyond[:, :, 0].abs().max()) == pytest.approx(0.01, rel=0.1)
    assert float(beyond[:, :, 1:].abs().max()) < 1e-14


@pytest.mark.parametrize(
    "dealiasing",
    [
        "none",
        "3/2",
    ],
)
def test_the_residual_of_the_finer_grid_makes_the_modes_of_the_trained_one_right(dealiasing):
    """Modes 6 and 7 are beyond a third of 16 points and have neighbours on 24."""
    equation = replace(FLOW, dealiasing=dealiasing)
    problem, exact = flow(FINER, equation)
    solution = exactly(equation).solve(problem, steps=8)
    low, true = (resample(u, TRAINED) for u in (solution.tensor, exact))
    high, high_true = (u - resample(resample(u, 12), TRAINED) for u in (low, true))
    assert distance(low, true) < 1e-3 * still_distance(true)
    assert distance(high, high_true) < 0.2 * still_distance(high_true)


def test_with_the_two_thirds_rule_the_modes_up_to_a_third_are_made_right():
    """12 points have the modes up to 5, a third of 16."""
    equation = replace(FLOW, dealiasing="2/3")
    problem, exact = flow(FINER, equation)
    solution = exactly(equation).solve(problem, steps=8)
    low, true = (resample(u, 12) for u in (solution.tensor, exact))
    assert distance(low, true) < 1e-2 * still_distance(true)


def test_the_finer_grid_corrects_what_the_trained_one_cannot_see():
    """Products of waves that are beyond the trained grid: their aliases are wrong on it."""
    problem, exact = flow(32, count=1, modes=11)
    nested = picard().network.solve(on_trained(problem), stop=FixedSteps(10))
    corrected = exactly().solve(problem, steps=10)
    true = resample(exact, TRAINED)
    before, after = distance(nested.tensor, true), distance(resample(corrected.tensor, 16), true)
    assert after < 0.9 * before


@pytest.mark.parametrize("resolution", GRIDS)
def test_a_given_start_is_where_it_begins(resolution):
    problem, exact = flow(resolution)
    solution = exactly().solve(problem, exact, steps=0)
    assert torch.allclose(solution.tensor, exact, atol=1e-13)
    assert distance(picard().solve(problem, exact.float(), steps=1).tensor, exact) < 1e-4


@pytest.mark.parametrize("resolution", GRIDS)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_as_many_steps_as_asked_for(resolution, steps):
    problem, _ = flow(resolution, count=2)
    seen = []
    solution = picard().solve(problem, None, seen.append, steps=steps)
    assert solution.steps.tolist() == [steps] * 2
    assert solution.status == (Status.FINISHED,) * 2
    here = [at.step for at in seen if at.stage == "solve"]
    # on a coarser grid nothing but the answer is on the grid of the problem
    assert here == ([steps] if resolution < TRAINED else list(range(steps + 1)))
    elsewhere = [at.step for at in seen if at.stage == "start"]
    assert elsewhere == ([] if resolution == TRAINED else list(range(steps + 1)))


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("resolution", GRIDS)
def test_without_a_wish_it_goes_on_for_as_long_as_the_residual_improves(resolution, accelerate):
    problem, _ = flow(resolution)
    solution = picard().solve(problem, accelerate=accelerate)
    assert solution.status == (Status.PLATEAU,)
    assert int(solution.steps) >= ResidualPlateau().window
    two = picard(stop=FixedSteps(2)).solve(problem, accelerate=accelerate)
    assert two.steps.tolist() == [2]


@pytest.mark.parametrize("resolution", GRIDS)
def test_a_tolerance_is_reached_or_the_steps_run_out(resolution, monkeypatch):
    problem, _ = flow(resolution)
    assert picard().solve(problem, tolerance=0.1).status == (Status.TOLERANCE,)
    monkeypatch.setattr("neuralsolver.solvers.trained.MAX_STEPS", 3)
    below_the_floor = picard().solve(problem, tolerance=1e-9, polish=False)
    assert below_the_floor.status == (Status.STEP_LIMIT,)
    # three with its network, three without
    assert below_the_floor.steps.tolist() == [6]


@pytest.mark.parametrize("resolution", GRIDS)
def test_steps_are_plain_unless_they_are_to_be_accelerated(resolution):
    """A corrector that goes a third of the way is slow, and mixing makes up for it."""
    problem, _ = flow(resolution)
    slow = picard(gain=0.3)
    by_default, plain, mixed = (
        slow.solve(problem, steps=6, accelerate=accelerate) for accelerate in (None, False, True)
    )
    assert torch.equal(by_default.tensor, plain.tensor)
    assert float(mixed.relative_residual) < 0.5 * float(plain.relative_residual)
    # and with a tolerance it is the other way round
    by_default, plain, mixed = (
        slow.solve(problem, problem.first_guess(), tolerance=0.1, accelerate=accelerate)
        for accelerate in (None, False, True)
    )
    assert torch.equal(by_default.tensor, mixed.tensor)
    assert int(mixed.steps) < int(plain.steps)


def test_samples_of_a_finer_grid_stop_one_by_one():
    problem, _ = flow(FINER, count=2)
    mixed = Problem(FLOW, torch.cat([0.05 * problem.inputs, problem.inputs]))
    start = mixed.first_guess()
    solution = picard(gain=0.5).solve(mixed, start, tolerance=0.01)
    assert solution.status == (Status.TOLERANCE,) * 4
    assert len(set(solution.steps.tolist())) > 1
    for i in range(4):
        alone = picard(gain=0.5).solve(mixed.select([i]), start[[i]], tolerance=0.01)
        assert alone.steps.tolist() == solution.steps[[i]].tolist()
        assert torch.allclose(alone.tensor, solution.tensor[[i]], atol=1e-5)


@pytest.mark.parametrize("resolution", GRIDS)
def test_an_array_comes_back_as_an_array(resolution):
    problem, exact = flow(resolution)
    field = problem.inputs[0, 0].numpy()
    u = picard().solve(Problem(FLOW, field.astype(np.float32))).u
    assert isinstance(u, np.ndarray)
    assert u.shape == (5, resolution, resolution)
    assert distance(torch.from_numpy(u)[None, None], exact) < 0.05 * still_distance(exact)


@pytest.mark.parametrize("resolution", GRIDS)
@pytest.mark.parametrize("gain", [-1e5, math.inf, math.nan])
def test_a_corrector_that_blows_up_is_a_status(resolution, gain):
    problem, _ = flow(resolution, count=2)
    solution = picard(gain=gain).solve(problem, accelerate=False)
    assert solution.status == (Status.DIVERGED,) * 2
    # the best iterate: the first guess
    guess = problem.first_guess().float()
    assert torch.allclose(solution.tensor, guess, atol=1e-6)
    # and without its network there is an answer after all
    guarded = picard(gain=gain).solve(problem)
    assert guarded.status == (Status.PLATEAU,) * 2
    assert guarded.notes["answer_by"] == ["classical"] * 2


def test_every_grid_has_a_clock_of_its_own():
    solver = clocked()
    corrector = solver.network.corrector
    solver.solve(flow(FINER)[0], steps=3)
    assert corrector.seen == [1 / 5, 2 / 5, 3 / 5] * 2
    corrector.seen.clear()
    iterate(SpectralStep(solver.network, TRAINED), *started(FINER), FixedSteps(6))
    assert corrector.seen == [1 / 5, 2 / 5, 3 / 5, 4 / 5, 1.0, 6 / 5]


def started(resolution):
    problem = flow(resolution)[0]
    return problem, problem.first_guess()


def test_a_network_on_the_finer_grid_reads_the_trained_one():
    seen = []

    class Reading(Picard):
        def forward(self, x):
            seen.append(x)
            return super().forward(x)[:, -5:]

    network = NeuralSolver(None, Reading(), step_size=0.1)
    problem, u = started(FINER)
    residual = problem.residual(u)
    SpectralStep(network, TRAINED)(State.of(problem, u))
    fields = (problem.inputs, u[:, 0], residual[:, 0])
    expected = torch.cat([resample(field, TRAINED) for field in fields], 1).float()
    assert torch.allclose(seen[0], expected, atol=1e-6)


@pytest.mark.parametrize("resolution", GRIDS)
def test_an_operator_predicts_on_its_own_grid(resolution):
    problem, _ = flow(resolution)
    operator = TrainedSolver(NeuralSolver(Clocked(5)), FLOW, TRAINED, {})
    u = operator.solve(problem).tensor
    change = (u - problem.first_guess())[:, :, 1:]
    assert torch.allclose(change, torch.full_like(change, 1e-3), atol=1e-6)
    with pytest.raises(InvalidInput, match="steps: expected 0"):
        operator.solve(problem, steps=1)


@pytest.mark.parametrize("frames", [5, 6])
def test_other_frames_than_trained_are_named(frames):
    problem = flow(TRAINED, replace(FLOW, frames=frames))[0]
    with pytest.raises(InvalidInput, match=f"frames: expected 4, as trained, got {frames}"):
        picard().solve(problem)


def test_what_a_flow_cannot_be_asked_for_is_named():
    problem = flow(TRAINED)[0]
    with pytest.raises(InvalidInput, match="steps: expected either steps or a tolerance"):
        picard().solve(problem, steps=1, tolerance=0.1)
    with pytest.raises(InvalidInput, match="tolerance: expected a positive finite number"):
        picard().solve(problem, tolerance=-1.0)
    with pytest.raises(InvalidInput, match=r"problem: expected .*initial vorticity"):
        picard().solve(Problem.random(Poisson(), TRAINED))


@pytest.mark.parametrize("resolution", [11, 17, 25])
def test_a_grid_of_an_odd_number_of_points_is_named(resolution):
    field = np.ones((resolution, resolution))
    with pytest.raises(InvalidInput, match=f"resolution: expected an even number.*{resolution}"):
        picard().solve(Problem(FLOW, field))
    with pytest.raises(InvalidInput, match="resolution: expected an even number"):
        flow(TRAINED)[0].resampled(Grid.torus(resolution, resolution))
