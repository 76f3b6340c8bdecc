"""A network beside its network-free sibling: no sample ends worse than without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from neuralsolver.data.instances import random_problem
from neuralsolver.equations import NavierStokes, Problem
from neuralsolver.models import FNO
from neuralsolver.solvers import NeuralSolver, Status, TrainedSolver, trained
from neuralsolver.solvers.network_free import without_network
from neuralsolver.training import load

FLOW = NavierStokes(viscosity=1e-3, frames=6, frame_spacing=0.05, time_order=4, dealiasing="2/3")
POINTS = 16


def solver_of(corrector):
    network = NeuralSolver(
        None,
        corrector,
        error="integrated_residual",
        corrector_reads=("solution", "error"),
        step_size=1.0,
    )
    return TrainedSolver(network, FLOW, POINTS, {})


def random_network(seed, size=1.0):
    """A corrector that has learnt nothing and answers with noise of the size of the error."""
    torch.manual_seed(seed)
    frames = FLOW.frames + 1
    network = FNO(2 * frames, frames, width=8, layers=2, max_wavenumber=[4, 4])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(size)
    return network


def answers(solution):
    return solution.notes["answer_by"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-4, "polish": False}])
def test_a_harmful_network_ends_as_well_as_none(seed, options):
    solver = solver_of(random_network(seed))
    problem = Problem.random(FLOW, POINTS, 3, seed)
    guarded = solver.solve(problem, **options)
    free = without_network(solver).solve(problem, **options)
    assert (guarded.relative_residual <= free.relative_residual * (1 + 1e-5)).all()
    assert float(guarded.relative_residual.max()) < 1e-3
    assert answers(guarded) == ["classical"] * 3
    assert guarded.status == free.status
    assert "without the network" in guarded.summary()


def test_nor_is_what_newton_makes_of_it_worse():
    solver = solver_of(random_network(3, size=3.0))
    problem = Problem.random(FLOW, POINTS, 2, seed=3)
    guarded, free = (
        solver.solve(problem, polish=True),
        without_network(solver).solve(problem, polish=True),
    )
    assert (guarded.relative_residual <= free.relative_residual * (1 + 1e-5)).all()
    counts, alone = (one.notes["classical_iterations"] for one in (guarded, free))
    # a sample that needs no Newton step is not among them
    assert counts
    assert all(counts[i] >= alone[i] > 0 for i in alone)


def test_each_sample_has_its_own_answer():
    class Helpful(torch.nn.Module):
        """Knows the answer to the samples whose vorticity is larger, and harms the others."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):
            u, e = x.chunk(2, 1)
            large = u[:, 0].flatten(1).norm(dim=1) > 100.0
            return torch.where(large[:, None, None, None], -0.5 * e, 3.0 * e)

    solver = solver_of(Helpful())
    inputs = Problem.random(FLOW, POINTS, 2, seed=1).inputs
    size = inputs.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    problem = Problem(FLOW, inputs / size * torch.tensor([1.0, 200.0]).view(-1, 1, 1, 1))
    solution = solver.solve(problem, accelerate=True)
    alone = [solver.solve(problem.select([i]), accelerate=True) for i in range(2)]
    assert answers(solution)[0] == "classical"
    assert [answers(one)[0] for one in alone] == answers(solution)
    free = without_network(solver).solve(problem, accelerate=True)
    assert (solution.relative_residual <= free.relative_residual * (1 + 1e-5)).all()


def test_what_is_at_its_tolerance_is_not_solved_again():
    solver = load("kolmogorov")
    problem = random_problem(solver.equation, 64, seed=3)
    stages = []
    solution = solver.solve(problem, tolerance=0.1, observe=lambda seen: stages.append(seen.stage))
    assert solution.status == (Status.TOLERANCE,)
    assert set(stages) == {"solve"}
    assert answers(solution) == ["network"]
    assert "the answer of the solve with the network" in solution.summary()


def test_an_observer_sees_residuals_that_do_not_rise_again():
    solver = solver_of(random_network(0))
    problem = Problem.random(FLOW, POINTS, seed=1)
    seen = []
    solution = solver.solve(problem, observe=seen.append)
    second = [now for now in seen if now.stage == "safeguard"]
    assert second[0].step == seen[len(seen) - len(second) - 1].step + 1
    norms = [float(now.norms) for now in second]
    assert norms == sorted(norms, reverse=True)
    last = second[-1]
    assert torch.equal(last.u, solution.tensor[last.samples])
    assert len(solution.residual_norms) == len(seen)


def test_the_bare_iteration_is_what_is_asked_for():
    solver = solver_of(random_network(0))
    problem = Problem.random(FLOW, POINTS, 2, seed=1)
    solution = solver.solve(problem, steps=2)
    assert solution.steps.tolist() == [2, 2]
    plain = solver.solve(problem, accelerate=False)
    assert "answer_by" not in {**solution.notes, **plain.notes}


def test_on_other_grids_it_is_never_worse_either():
    solver = solver_of(random_network(1))
    for points in (12, 24):
        problem = Problem.random(FLOW, points, 2, seed=2)
        guarded, free = solver.solve(problem), without_network(solver).solve(problem)
        assert (guarded.relative_residual <= free.relative_residual * (1 + 1e-4)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kolmogorov", "navier-stokes"])
def test_the_shipped_flows_end_no_worse_under_a_shift(name):
    solver = load(name)
    shifted = replace(solver.equation, viscosity=2 * solver.equation.viscosity)
    problem = Problem.random(shifted, 64, 2, seed=5)
    guarded, free = solver.solve(problem), without_network(solver).solve(problem)
    # rounding, which depends on the batch, moves where Anderson's curve is called flat
    assert (guarded.relative_residual <= free.relative_residual * 1.01).all()


def test_a_flow_whose_curve_is_flat_stops_its_network_at_once():
    problem = Problem.random(FLOW, POINTS, seed=3)
    seen = []
    solver_of(random_network(0)).solve(problem, observe=seen.append)
    with_network = [now.step for now in seen if now.stage == "solve"]
    assert max(with_network) <= 2 * trained.FLAT_STEPS
