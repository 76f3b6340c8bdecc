"""Gradient descent, Newton and Gauss-Newton against the reference solutions."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, Darcy, Helmholtz, NavierStokes, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers import Status
from neuralsolver.solvers.newton import Newton
from paper.baselines.minimisers import (
    GaussNewton,
    GradientDescent,
    noise_start,
    noised,
)

LINEAR = ("poisson", "helmholtz", "darcy")
SOLVERS = (
    GradientDescent(steps=5),
    Newton(),
    GaussNewton(),
)


def nonlinear(count: int = 3) -> Problem:
    return Problem.random(EQUATIONS["nonlinear-helmholtz"], 24, count=count, seed=1)


def answer(problem: Problem) -> torch.Tensor:
    known = solve_reference(problem.equation, problem.inputs.numpy())
    assert known.solved.all()
    return torch.from_numpy(known.solution)


def relative_error(u: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return (u - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)


@pytest.mark.parametrize("method", [Newton, GaussNewton])
@pytest.mark.parametrize("name", LINEAR)
def test_one_step_solves_a_linear_equation(method, name):
    problem = Problem.random(EQUATIONS[name], 24, count=2, seed=1)
    solution = method(tolerance=1e-11).solve(problem)
    assert solution.status == (Status.TOLERANCE,) * 2
    assert solution.steps.tolist() == [1, 1]
    assert float(relative_error(solution.tensor, answer(problem)).max()) < 1e-10


@pytest.mark.parametrize("method", [Newton, GaussNewton])
def test_convergence_from_zero_is_quadratic(method):
    """eₖ₊₁ ≤ C eₖ² with one C for all steps, down to round-off."""
    problem = Problem.random(Helmholtz(wavenumber=3.0, nonlinearity=4.0), 24, count=3, seed=2)
    exact, errors = answer(problem), []
    solution = method(tolerance=1e-12).solve(
        problem, observe=lambda seen: errors.append(float((seen.u - exact[seen.samples]).norm()))
    )
    assert solution.good
    assert float(relative_error(solution.tensor, exact).max()) < 1e-9
    shrinking = [(e, after) for e, after in pairwise(errors) if after > 1e-9]
    assert len(shrinking) >= 3
    constants = [after / e**2 for e, after in shrinking]
    assert max(constants) < 10 * min(constants)
    assert shrinking[-1][1] < 1e-2 * shrinking[-1][0]


def test_normal_equations_square_the_condition():
    """Gauss-Newton takes the steps of Newton with fewer correct digits."""
    problem = Problem.random(Darcy(), 24, count=1, seed=3)
    exact = answer(problem)
    errors = [float(relative_error(solver.solve(problem).tensor, exact)) for solver in SOLVERS[1:]]
    assert errors[1] > 2 * errors[0]


@pytest.mark.parametrize("solver", [Newton(), GaussNewton()], ids=repr)
def test_newton_from_noise_says_that_it_did_not_converge(solver):
    problem = nonlinear()
    solution = solver.solve(problem, noise_start(problem, seed=0))
    assert solution.status == (Status.DIVERGED,) * 3
    assert not solution.good
    assert torch.isfinite(solution.tensor).all()
    # the best iterate is returned, and it is not worse than the start
    assert (
        solution.relative_residual * solution.residual_scale <= solution.residual_norms[0]
    ).all()


@pytest.mark.parametrize("solver", [Newton(), GaussNewton()], ids=repr)
def test_a_singular_jacobian_is_divergence_of_its_sample(solver):
    """PINO's stencil leaves rows of zeros next to the walls."""
    problem = Problem.random(Darcy(stencil="wide"), 16, count=2)
    solution = solver.solve(problem)
    assert solution.status == (Status.DIVERGED,) * 2
    assert torch.equal(solution.tensor, problem.zeros())


@pytest.mark.parametrize("name", ["nonlinear-helmholtz", *LINEAR])
def test_descent_never_rises(name):
    problem = Problem.random(EQUATIONS[name], 16, count=2, seed=1)
    starts = [None, noise_start(problem, 0)]
    eta = (
        5e-9 if name == "darcy" else 1e-6
    )  # below 2/L, where L grows with the permeability squared
    for start in starts:
        solution = GradientDescent(step_size=eta, steps=25).solve(problem, start)
        assert solution.status == (Status.STEP_LIMIT,) * 2
        assert (solution.residual_norms[1:] < solution.residual_norms[:-1]).all()


def test_a_step_goes_down_the_gradient_of_the_mean_square_residual():
    problem = nonlinear()
    start = noise_start(problem, 0)
    free = start.clone().requires_grad_(True)
    for i in range(problem.batch):
        problem.residual(free)[i].square().mean().backward()
    seen = []
    GradientDescent(step_size=1e-6, steps=1).solve(problem, start, observe=seen.append)
    expected = problem.impose(start - 1e-6 * free.grad)
    assert torch.allclose(seen[1].u, expected, rtol=1e-12, atol=0)


def test_a_step_beyond_the_bound_is_divergence():
    problem = nonlinear(2)
    solution = GradientDescent(step_size=1e-3, steps=50).solve(problem)
    assert solution.status == (Status.DIVERGED,) * 2
    assert torch.isfinite(solution.tensor).all()


def test_descent_works_on_a_flow_and_keeps_its_first_frame():
    problem = Problem.random(NavierStokes(frames=3), 16, count=2)
    solution = GradientDescent(steps=10).solve(problem)
    assert (solution.residual_norms[1:] < solution.residual_norms[:-1]).all()
    assert torch.equal(solution.tensor[:, :, 0], problem.inputs)
    with pytest.raises(InvalidInput, match="between walls"):
        Newton().solve(problem)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solving_together_is_solving_alone(solver):
    """Samples that start at different distances stop one after another."""
    problem = nonlinear()
    start = (
        answer(problem) * torch.tensor([1.0, 1.5, 0.0], dtype=torch.float64)[:, None, None, None]
    )
    together = solver.solve(problem, start)
    for i in range(problem.batch):
        alone = solver.solve(problem.select([i]), start[i : i + 1])
        assert torch.equal(alone.tensor[0], together.tensor[i])
        assert alone.status[0] is together.status[i]
        assert alone.steps[0] == together.steps[i]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_inputs_are_not_changed_and_the_answer_is_repeated(solver):
    problem = nonlinear()
    start = torch.randn(3, 1, 24, 24, generator=torch.Generator().manual_seed(0)).double()
    inputs, kept = problem.inputs.clone(), start.clone()
    first, second = (solver.solve(problem, start) for _ in range(2))
    assert torch.equal(first.tensor, second.tensor)
    assert torch.equal(problem.inputs, inputs)
    assert torch.equal(start, kept)
    assert first.seconds > 0


def test_single_precision_inputs_still_reach_the_tolerance():
    problem = nonlinear().in_precision(torch.float32)
    solution = Newton(tolerance=1e-10).solve(problem)
    assert solution.good
    assert solution.tensor.dtype == torch.float64


def test_no_memory_is_a_status(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("neuralsolver.solvers.sparse_newton.splu", full)
    assert Newton().solve(nonlinear()).status == (Status.OUT_OF_MEMORY,) * 3


def test_starts_have_zero_walls_and_depend_on_seed_and_sample_only():
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 64, count=2)
    exact = torch.randn(2, 1, 64, 64, generator=torch.Generator().manual_seed(0)).double()
    for make in (noise_start, lambda p, seed: noised(exact[: p.batch], p, seed)):
        field = make(problem, 3)
        assert torch.equal(field, make(problem, 3))
        assert torch.equal(field, problem.impose(field))
        assert torch.equal(field[:1], make(problem.select([0]), 3))
        assert not torch.equal(field, make(problem, 4))
        assert not torch.equal(field[0], field[1])


def test_noise_is_rough_inside_and_smooth_near_the_walls():
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 64)
    field = noise_start(problem, 0)[0, 0]
    assert float(field[16:-16, 16:-16].std()) == pytest.approx(6.0, rel=0.1)
    along_wall = torch.diff(field[1, 8:-8])
    assert float(along_wall.std()) < 0.2 * float(torch.diff(field[32, 8:-8]).std())


def test_noised_is_four_times_the_field_and_rough_noise():
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 64)
    u = answer(problem)
    noise = (noised(u, problem, 0) - 4 * u)[0, 0]
    assert 1.0 < float(noise[24:40, 24:40].std()) < 3.5
    assert float(noise[:2].abs().max()) < 1e-5
    blocks = torch.nn.functional.avg_pool2d(noise[None, None, 16:48, 16:48], 8)
    assert float(blocks.std()) < 0.1 * float(noise[16:48, 16:48].std())


def test_bad_settings_name_the_field():
    flow = Problem.random(NavierStokes(frames=2), 16)
    for build in (
        lambda: Newton(steps=-1),
        lambda: GaussNewton(tolerance=0.0),
        lambda: GradientDescent(step_size=0.0),
        lambda: GradientDescent(steps=-1),
        lambda: noise_start(flow, 0),
        lambda: noised(flow.zeros(), flow, 0),
    ):
        with pytest.raises(InvalidInput, match=r"expected .* got"):
            build()
