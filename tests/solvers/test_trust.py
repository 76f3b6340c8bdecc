"""No false word: units, bounds, endings. Each of these was once wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, Darcy, Helmholtz, NavierStokes, Poisson, Problem
from neuralsolver.solvers import FixedSteps, Solution, Status, TrainedSolver, iterate
from neuralsolver.solvers.newton import Newton
from neuralsolver.training import load
from tests.networks import Constant, sine_solver

LINEAR = {"poisson": Poisson(), "helmholtz": Helmholtz(wavenumber=2.0)}


def rescaled(problem, factor):
    """The same problem in other units, and the factor of its solution."""
    if isinstance(problem.equation, Darcy):
        return Problem(problem.equation, factor * problem.inputs), 1 / factor
    return Problem(problem.equation, factor * problem.inputs), factor


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["poisson", "helmholtz", "darcy"]), st.floats(-295, 295))
def test_results_scale_over_six_hundred_orders_of_magnitude(name, power):
    if name == "darcy":
        solver, problem = load("darcy"), Problem.random(Darcy(), 64, seed=1)
    else:
        equation = LINEAR[name]
        solver = TrainedSolver(sine_solver(0.3), equation, 24, {})
        problem = Problem.random(equation, 24, seed=1)
    here = solver.solve(problem, tolerance=1e-9)
    other, factor = rescaled(problem, 10.0**power)
    there = solver.solve(other, tolerance=1e-9)
    assert there.status == here.status == (Status.TOLERANCE,)
    assert there.steps.tolist() == here.steps.tolist()
    assert torch.allclose(there.tensor / factor, here.tensor, rtol=1e-6, atol=1e-9)
    assert float(there.relative_residual) <= 1e-9
    assert float(there.error_bound) == pytest.approx(float(here.error_bound), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("amplitude", [1e-30, 1e11, 1e18])
def test_a_source_of_any_size_in_either_precision(dtype, amplitude):
    problem = Problem.random(Poisson(), 64, seed=2)
    inputs = (amplitude * problem.inputs).to(dtype)
    solution = load("poisson").solve(Problem(Poisson(), inputs), tolerance=1e-9)
    assert solution.good
    exact = solve_reference(Poisson(), inputs.double().numpy()).solution
    error = float((solution.tensor - torch.from_numpy(exact)).norm()) / np.linalg.norm(exact)
    assert error <= float(solution.error_bound) <= 1e-7


@pytest.mark.parametrize("constants", [{"scale": 1e-140}, {"scale": -1e140}])
def test_a_constant_of_any_size(constants):
    equation = Poisson(**constants)
    solver = TrainedSolver(sine_solver(0.3), equation, 24, {})
    solution = solver.solve(Problem.random(equation, 24, seed=1), tolerance=1e-9)
    assert solution.good
    assert float(solution.relative_residual) <= 1e-9


def test_a_darcy_source_of_any_size():
    for source in (1e-200, 1e200):
        equation = Darcy(source=source)
        solution = load("darcy").solve(Problem.random(equation, 64, seed=1), tolerance=1e-9)
        assert solution.good
        assert float(solution.error_bound) < 1e-7


def test_units_of_a_nonlinear_equation_are_those_of_its_largest_field():
    equation = EQUATIONS["nonlinear-helmholtz"]
    problem = Problem.random(equation, 64, count=2, seed=1)
    small = Problem(equation, 1e-160 * problem.inputs)
    solution = load("nonlinear-helmholtz").solve(small, tolerance=1e-9)
    assert solution.good
    # so small a solution is that of the linear equation
    linear = solve_reference(Helmholtz(wavenumber=2.0), problem.inputs.numpy()).solution
    assert np.allclose(solution.tensor.numpy() / 1e-160, linear, rtol=1e-6, atol=1e-8)


def test_observers_see_the_units_of_the_user():
    problem = Problem.random(Poisson(), 24, seed=1)
    solver = TrainedSolver(sine_solver(0.3), Poisson(), 24, {})
    seen = []
    large = Problem(Poisson(), 1e20 * problem.inputs)
    solver.solve(large, observe=seen.append, steps=3)
    for at in seen:
        assert torch.allclose(at.residual, large.residual(at.u), atol=1e-9 * 1e22)
        norm = large.residual(at.u).square().mean().sqrt()
        assert float(at.norms) == pytest.approx(float(norm), rel=1e-6)


def exact_solutions(source, wavenumber):
    """u with Δu + κ²u = f in eleven more binary places, by the sine transform."""
    n = source.shape[-1]
    k = np.arange(1, n - 1, dtype=np.longdouble)
    pi = np.arctan(np.longdouble(1)) * 4
    sine = np.sin(pi * np.outer(k, k) / (n - 1)) * np.sqrt(np.longdouble(2) / (n - 1))
    line = -4 * np.longdouble(n - 1) ** 2 * np.sin(pi * k / (2 * (n - 1))) ** 2
    symbol = line[:, None] + line[None, :] + np.longdouble(wavenumber) ** 2
    inner = source[..., 1:-1, 1:-1].astype(np.longdouble)
    u = np.zeros(source.shape, np.longdouble)
    u[..., 1:-1, 1:-1] = sine @ ((sine @ inner @ sine) / symbol) @ sine
    return u


def violations(n, wavenumber, count, seed):
    """How many bounds are below the true error.

    The adversary knows floating point: f is the computed Δu + κ²u, so that the computed residual of
    u is zero and all that is wrong is what rounding did. The waves are those J hardly sees.
    """
    rng = np.random.default_rng(seed)
    r = np.arange(n) / (n - 1)
    p = rng.integers(1, n - 1, count)
    q = np.where(rng.random(count) < 0.7, n - 1 - p, rng.integers(1, n - 1, count))
    waves = np.sin(math.pi * p[:, None, None] * r[:, None]) * np.sin(
        math.pi * q[:, None, None] * r[None, :]
    )
    rough = rng.standard_normal((count, n, n))
    amplitude = 10.0 ** rng.uniform(-8, 8, (count, 1, 1))
    share = np.where(rng.random((count, 1, 1)) < 0.7, 0.0, 10.0 ** rng.uniform(-17, 0))
    equation = Helmholtz(wavenumber=wavenumber)
    u = torch.from_numpy(amplitude * (waves + share * rough))[:, None]
    problem = Problem(equation, torch.zeros_like(u))
    u = problem.impose(u)
    source = problem.residual(u)
    moved = u + problem.impose(u * torch.from_numpy(share * 1e-3)[:, None])
    exact = exact_solutions(source[:, 0].numpy(), wavenumber)
    bound = Solution.of(Problem(equation, source), moved).error_bound
    assert not bool(bound.isnan().any())
    difference = (moved[:, 0].numpy() - exact).reshape(count, -1).astype(float)
    size = exact.reshape(count, -1).astype(float)
    actual = np.linalg.norm(difference, axis=1) / np.linalg.norm(size, axis=1)
    return int((actual > bound.numpy() * (1 + 1e-6)).sum())


def cancelling(n):
    """A wavenumber whose square cancels the diagonal of the Laplacian, nearly."""
    return 2 * (n - 1) + 3e-4


@pytest.mark.parametrize("n", [12, 33, 64])
def test_the_bound_holds_where_the_diagonal_cancels(n):
    assert violations(n, cancelling(n), 100, seed=n) == 0


@pytest.mark.slow
def test_no_bound_is_violated_in_a_hundred_thousand_adversarial_problems():
    rng = np.random.default_rng(0)
    for trial in range(100):
        n = int(rng.integers(8, 25))
        largest = 8 * (n - 1) ** 2
        near = [cancelling(n), math.sqrt(2) * math.pi + rng.normal() * 1e-3, 0.0]
        wavenumber = near[trial % 4] if trial % 4 < 3 else math.sqrt(rng.uniform(0, 2 * largest))
        assert violations(n, wavenumber, 1000, seed=trial) == 0, (n, wavenumber)


def test_an_exact_zero_has_no_error_and_nothing_is_ever_nan():
    problem = Problem(Poisson(), torch.zeros(2, 1, 16, 16, dtype=torch.float64))
    solution = TrainedSolver(sine_solver(), Poisson(), 16, {}).solve(problem)
    assert solution.good
    assert solution.error_bound.tolist() == [0.0, 0.0]
    assert "at most 0.0e+00" in solution.summary()
    lost = Solution.of(Problem.random(Poisson(), 16), torch.zeros(1, 1, 16, 16).double())
    assert "no bound" in lost.summary()
    assert "inf" not in lost.summary()


def test_a_start_that_leads_astray_is_dropped():
    solver = sine_solver(0.3)
    solver.predictor, solver.predictor_reads = Constant(1e6), ("inputs",)
    trained = TrainedSolver(solver, Poisson(), 24, {})
    problem = Problem.random(Poisson(), 24, seed=1)
    seen = []
    assert trained.solve(problem, observe=seen.append, tolerance=1e-8).good
    assert torch.equal(seen[0].u, problem.first_guess())
    # a prediction that was asked for is what it is
    assert float(trained.solve(problem, steps=0).tensor.max()) > 1e3


def test_what_does_not_improve_is_finished_classically_and_early():
    useless = TrainedSolver(sine_solver(defect=1.0), Darcy(), 24, {})
    problem = Problem.random(Darcy(), 24, count=2, seed=1)
    solution = useless.solve(problem, tolerance=1e-6)
    assert solution.status == (Status.TOLERANCE,) * 2
    assert int(solution.steps.max()) < 60
    assert solution.notes["answer_by"] == ["classical"] * 2
    # far past resonance V-cycles do not help either, and a direct solver is asked at once
    useless = TrainedSolver(sine_solver(defect=1.0), Helmholtz(wavenumber=40.0), 24, {})
    problem = Problem.random(Helmholtz(wavenumber=40.0), 24, count=2, seed=1)
    direct = useless.solve(problem, tolerance=1e-6, polish=False)
    assert direct.status == (Status.TOLERANCE,) * 2
    assert int(direct.steps.max()) == 1


@pytest.mark.parametrize(("wavenumber", "n"), [(30.0, 96), (50.0, 65)])
def test_high_wavenumbers_end_in_a_solution_or_say_so(wavenumber, n):
    problem = Problem.random(Helmholtz(wavenumber=wavenumber), n, seed=1)
    solution = load("helmholtz").solve(problem, tolerance=1e-12, polish=True)
    reached = float(solution.relative_residual)
    assert solution.good == (reached <= 1e-12)
    assert solution.status[0] in (Status.TOLERANCE, Status.STALLED, Status.STEP_LIMIT)
    assert math.isfinite(reached)


def test_a_start_that_is_not_finite_gives_the_best_finite_field():
    problem = Problem.random(Poisson(), 16, count=2, seed=1)
    start = problem.zeros()
    start[0, 0, 3, 3] = math.nan
    solution = iterate(sine_solver().stepper(), problem, start, FixedSteps(3))
    assert solution.status == (Status.DIVERGED, Status.FINISHED)
    assert torch.isfinite(solution.tensor).all()
    assert torch.equal(solution.tensor[0], problem.first_guess()[0])


def test_another_branch_of_solutions_is_named():
    """Near −Δu = λu³ there is a solution near zero, and one that Newton finds from a bump."""
    equation = Helmholtz(wavenumber=1.0, nonlinearity=1.0, source_amplitude=1.0)
    problem = Problem.random(equation, 24, seed=1)
    r = torch.linspace(0, math.pi, 24, dtype=torch.float64)
    bump = 7 * torch.outer(r.sin(), r.sin())[None, None]
    other = Newton(tolerance=1e-9).solve(problem, bump)
    assert other.good
    assert float(other.tensor.abs().max()) > 1
    assert other.on_main_branch == [False]
    assert "1 of 1 on another branch" in other.summary()
    usual = Newton(tolerance=1e-9).solve(problem)
    assert usual.on_main_branch == [True]
    assert "branch" not in usual.summary()


@pytest.mark.parametrize(
    "constants",
    [{"forcing_amplitude": 10.0}, {"frame_spacing": 1.0}],
    ids=["forcing", "spacing"],
)
def test_a_flow_that_never_left_its_start_is_no_solution(constants):
    solver = load("navier-stokes")
    equation = replace(solver.equation, **constants)
    problem = Problem.random(equation, 64, seed=1)
    solution = solver.solve(problem)
    relative = float(solution.relative_residual)
    assert solution.good == (solution.status[0] is Status.PLATEAU)
    assert solution.good == (relative <= 0.3)


def test_a_flow_on_fewer_points_answers_for_its_own_grid():
    solver = load("navier-stokes")
    assert isinstance(solver.equation, NavierStokes)
    problem = Problem.random(solver.equation, 32, seed=1)
    for tolerance in (0.3, 1e-2):
        solution = solver.solve(problem, tolerance=tolerance)
        met = float(solution.relative_residual) <= tolerance
        assert (solution.status[0] is Status.TOLERANCE) == met
