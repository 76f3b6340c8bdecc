"""Newton's method on trajectories: it reaches a tolerance, or says that it did not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from neuralsolver.data.instances import random_problem
from neuralsolver.equations import NavierStokes, Problem
from neuralsolver.equations.flow_integration import Tangent
from neuralsolver.fields.jacobian import linearisation
from neuralsolver.solvers import Status, TrainedSolver
from neuralsolver.solvers.krylov import least_residual
from neuralsolver.solvers.network_free import without_network
from neuralsolver.solvers.newton import polished
from neuralsolver.solvers.solution import Solution
from neuralsolver.training import load
from tests.solvers.test_safeguard import FLOW, POINTS, random_network, solver_of


def smooth_flow(count=1, seed=0):
    """A flow that its frames resolve: modes up to three, slow."""
    draw = torch.Generator().manual_seed(seed)
    r = torch.arange(POINTS, dtype=torch.float64) / POINTS
    x, y = torch.meshgrid(r, r, indexing="ij")
    fields = []
    for _ in range(count):
        k = torch.randint(1, 4, (2,), generator=draw).tolist()
        phase = torch.rand(1, generator=draw).item()
        wave = torch.cos(2 * torch.pi * (k[0] * x + phase)) + torch.sin(2 * torch.pi * k[1] * y)
        fields.append(wave)
    return Problem(FLOW, torch.stack(fields)[:, None])


def test_the_tangent_inverts_the_jacobian_of_what_frames_resolve():
    problem = smooth_flow()
    u = without_network(solver_of(random_network(0))).solve(problem).tensor.double()
    times = torch.linspace(0, 1, FLOW.frames + 1, dtype=torch.float64)[:, None, None]
    e = times**2 * smooth_flow(seed=5).inputs[0]
    e = e[None, None]
    answer = Tangent(u, FLOW.viscosity, FLOW.frame_spacing)(e)
    back = problem.preconditioned_residual(linearisation(problem, u)(answer))
    plain = problem.preconditioned_residual(linearisation(problem, u)(e))
    assert float((back - e).norm()) < 1e-3 * float(e.norm())
    # without advection it would be far off
    assert float((plain - e).norm()) > 0.02 * float(e.norm())


def test_the_tangent_is_linear_and_starts_from_nothing():
    problem = smooth_flow()
    u = problem.first_guess()
    tangent = Tangent(u, FLOW.viscosity, FLOW.frame_spacing)
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randn(u.shape, generator=draw, dtype=torch.float64) for _ in range(2))
    together = tangent(2 * a - 3 * b)
    assert torch.allclose(together, 2 * tangent(a) - 3 * tangent(b), atol=1e-10)
    assert torch.equal(tangent(a)[:, :, 0], a[:, :, 0])


def test_directions_in_turn_solve_a_small_system():
    draw = torch.Generator().manual_seed(2)
    matrix = torch.eye(6).double() + 0.3 * torch.randn(6, 6, generator=draw, dtype=torch.float64)
    right = torch.randn(6, generator=draw, dtype=torch.float64)
    calls = []

    def direction(name, factor):
        def answer(r):
            calls.append(name)
            return factor * r

        return answer

    maps = [direction("one", 1.0), direction("other", -2.0)]
    x, count = least_residual(lambda z: matrix @ z, right, maps, 6, 1e-12)
    assert torch.allclose(matrix @ x, right, atol=1e-10)
    assert calls == ["one", "other"] * 3
    assert count == 6
    assert least_residual(lambda z: matrix @ z, right, maps, 6, 1e3)[1] == 0


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-8])
def test_a_tolerance_is_reached_even_with_a_harmful_network(tolerance):
    solver = solver_of(random_network(0))
    problem = smooth_flow(count=2)
    solution = solver.solve(problem, tolerance=tolerance, polish=True)
    assert solution.status == (Status.TOLERANCE,) * 2
    assert float(solution.relative_residual.max()) <= tolerance * (1 + 1e-3)
    # the network got nowhere, so that what needs none did it
    assert solution.notes["answer_by"] == ["classical"] * 2


def test_from_the_first_guess_it_takes_derivatives_and_counts_them():
    problem = smooth_flow().in_precision(torch.float64)
    start = Solution.of(problem, problem.first_guess())
    seen, running = [], polished(start, 1e-6)
    while True:
        try:
            seen.append(next(running))
        except StopIteration as end:
            solution = end.value
            break
    assert solution.status == (Status.TOLERANCE,)
    assert {now.stage for now in seen} == {"polish"}
    assert [now.step for now in seen] == list(range(1, len(seen) + 1))
    assert solution.notes["classical_iterations"][0] > 0
    assert torch.equal(seen[-1].u, solution.tensor)


def test_small_tolerances_are_worked_on_in_double_precision():
    solver = solver_of(random_network(0))
    problem = smooth_flow()
    for tolerance, precision in ((1e-3, torch.float32), (1e-7, torch.float64)):
        solution = solver.solve(problem, tolerance=tolerance, polish=True)
        assert solution.tensor.dtype is precision
        assert solution.good


def test_what_cannot_be_reached_is_said():
    solver: TrainedSolver = solver_of(random_network(0))
    # vortices that cross the box between two frames: nothing resolves them
    fast = NavierStokes(**{**vars(FLOW), "frame_spacing": 1.0})
    solver = replace(solver, equation=fast)
    problem = Problem.random(fast, POINTS, seed=1)
    solution = solver.solve(problem, tolerance=1e-9, polish=True)
    assert not solution.good
    assert solution.status[0] in (Status.STALLED, Status.STEP_LIMIT, Status.DIVERGED)


@pytest.mark.slow
def test_a_shipped_flow_reaches_a_tolerance():
    solver = load("kolmogorov")
    problem = random_problem(solver.equation, 64, seed=4)
    solution = solver.solve(problem, tolerance=1e-4, polish=True)
    assert solution.status == (Status.TOLERANCE,)
