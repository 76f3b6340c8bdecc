"""Krylov and Anderson wrappers, the multilevel solver and the classical finish."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, Darcy, Equation, Grid, Helmholtz, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import jacobian_diagonal
from neuralsolver.solvers import (
    Anderson,
    FixedSteps,
    Krylov,
    ResidualBelow,
    State,
    Status,
    TrainedSolver,
    VCycle,
    iterate,
    polish,
)
from neuralsolver.solvers.loop import drained
from neuralsolver.solvers.smoothing import chebyshev_weights, smooth
from paper.step_size import search_step_size, with_step_size
from tests.networks import sine_solver


def trained(equation: Equation, resolution: int, defect: float = 0.3) -> TrainedSolver:
    return TrainedSolver(sine_solver(defect), equation, resolution, {})


@pytest.mark.parametrize("wavenumber", [4.2, 4.4, 4.5, 6.0, 10.0])
def test_krylov_converges_near_resonance_and_beyond(wavenumber):
    """The preconditioner is the inverse Laplacian: the plain iteration cannot converge."""
    problem = Problem.random(Helmholtz(wavenumber=wavenumber), 32, count=2, seed=4)
    solver = sine_solver(defect=0.2)
    plain = iterate(solver.stepper(), problem, problem.zeros(), ResidualBelow(1e-8, 60))
    assert not plain.good
    with torch.no_grad():
        fast = iterate(Krylov(solver.stepper()), problem, problem.zeros(), ResidualBelow(1e-8, 60))
    assert fast.good
    norms = fast.residual_norms.nan_to_num(0.0)
    assert (norms[1:] <= norms[:-1] * (1 + 1e-9)).all()


@pytest.mark.parametrize("equation", [Poisson(), Helmholtz(4.2), Darcy(low=1.0, high=100.0)])
def test_conjugate_directions_minimise_the_energy_of_the_error(equation):
    problem = Problem.random(equation, 32, count=2, seed=4)
    assert equation.definite_on(problem.grid)
    exact = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    stop, energies = ResidualBelow(1e-8, 120), {}
    for conjugate in (False, True):
        seen = []

        def watch(now, seen=seen):
            e = (now.u - exact[now.samples])[:1]
            one = problem.select([0])
            seen.append(abs(float((e * (one.residual(e) - one.residual(0 * e))).sum())))

        with torch.no_grad():
            step = Krylov(sine_solver(defect=0.2).stepper(), conjugate=conjugate)
            solution = iterate(step, problem.select([0]), problem.zeros()[:1], stop, watch)
        assert solution.good
        energies[conjugate] = seen
    conjugate, krylov = energies[True], energies[False]
    assert all(b <= a * (1 + 1e-6) + 1e-12 for a, b in itertools.pairwise(conjugate))
    # of the same first direction both take the best multiple, each in its own norm
    assert conjugate[1] < krylov[1]


def test_conjugate_directions_are_for_definite_operators_only():
    grid = Helmholtz().grid(64)
    assert [Helmholtz(k).definite_on(grid) for k in (1.0, 4.4, 4.5, 6.0)] == [
        True,
        True,
        False,
        False,
    ]
    assert not EQUATIONS["nonlinear-helmholtz"].definite_on(grid)
    assert not Darcy(stencil="wide").definite_on(grid)


def test_krylov_forgets_and_still_converges():
    problem = Problem.random(Helmholtz(wavenumber=6.0), 24, count=1)
    with torch.no_grad():
        step = Krylov(sine_solver(0.2).stepper(), memory=6)
        solution = iterate(step, problem, problem.zeros(), ResidualBelow(1e-7, 300))
    assert solution.good


def test_krylov_refuses_a_nonlinear_equation():
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 16)
    with pytest.raises(InvalidInput, match="linear"):
        Krylov(sine_solver().stepper())(State.of(problem, problem.zeros()))


def test_krylov_solves_each_sample_as_if_alone():
    problem = Problem.random(Darcy(), 24, count=3, seed=2)
    solver = sine_solver(defect=0.9)  # −Δ⁻¹ is off by the permeability, Krylov does not mind
    negative = dataclasses.replace(problem.equation)
    assert negative.linear
    with torch.no_grad():
        together = iterate(Krylov(solver.stepper()), problem, problem.zeros(), ResidualBelow(1e-9))
        alone = iterate(
            Krylov(solver.stepper()), problem.select([1]), problem.zeros()[1:2], ResidualBelow(1e-9)
        )
    assert together.good
    assert torch.allclose(together.tensor[1], alone.tensor[0], atol=1e-8)


def test_anderson_needs_fewer_steps_on_a_nonlinear_equation():
    equation = Helmholtz(wavenumber=3.0, nonlinearity=4.0, source_amplitude=20.0)
    problem = Problem.random(equation, 24, count=3, seed=1)
    solver = sine_solver(defect=0.5)
    with torch.no_grad():
        plain = iterate(solver.stepper(), problem, problem.zeros(), ResidualBelow(1e-9, 400))
        mixed = iterate(
            Anderson(solver.stepper()), problem, problem.zeros(), ResidualBelow(1e-9, 400)
        )
    assert plain.good
    assert mixed.good
    assert int(mixed.steps.max()) * 2 < int(plain.steps.max())
    assert torch.allclose(plain.tensor, mixed.tensor, atol=1e-7)


def test_restriction_is_the_weighted_adjoint_of_interpolation():
    generator = torch.Generator().manual_seed(0)
    for fine, coarse in ((33, 17), (30, 17), (64, 32)):
        u = torch.randn(1, 1, coarse, coarse, generator=generator, dtype=torch.float64)
        r = torch.randn(1, 1, fine, fine, generator=generator, dtype=torch.float64)
        big, small = Grid.between_walls(fine, fine), Grid.between_walls(coarse, coarse)
        u = small.zero_walls(u)
        weight = ((coarse - 1) / (fine - 1)) ** 2
        left = weight * float((small.prolong(u, big) * r).sum())
        assert left == pytest.approx(float((u * big.restrict(r, small)).sum()), rel=1e-10)
        ones = torch.ones(1, 1, fine, fine, dtype=torch.float64)
        assert torch.allclose(big.coarsen(ones, small), torch.ones(1, 1, coarse, coarse).double())


def test_ladder_halves_down_to_the_trained_grid():
    def ladder(finest, coarsest):
        grids = Grid.between_walls(finest, finest).ladder(Grid.between_walls(coarsest, coarsest))
        return [grid.shape[0] for grid in grids]

    assert ladder(512, 64) == [512, 256, 128, 64]
    assert ladder(100, 64) == [100, 64]
    assert ladder(64, 64) == [64]


@pytest.mark.parametrize("equation", [Poisson(), Helmholtz(wavenumber=3.0), Darcy()])
def test_cycles_hardly_grow_with_the_resolution(equation):
    """With a nearly exact coarse solver the cycle is textbook multigrid."""
    shift = equation.wavenumber**2 if isinstance(equation, Helmholtz) else 0.0
    network = sine_solver(0.05, shift)
    if isinstance(equation, Darcy):
        # two-phase medium: the inverse Laplacian is only a preconditioner, so Krylov is needed
        counts = [
            int(
                TrainedSolver(network, equation, 16, {})
                .solve(Problem.random(equation, n, seed=3), tolerance=1e-8)
                .steps.max()
            )
            for n in (24, 48, 96)
        ]
        assert max(counts) <= 2 * min(counts) + 2
        return
    counts = []
    for n in (24, 32, 64, 128):
        problem = Problem.random(equation, n, count=1, seed=3)
        solver = TrainedSolver(network, equation, 16, {})
        solution = solver.solve(problem, tolerance=1e-8, accelerate=False)
        assert solution.good, n
        counts.append(int(solution.steps.max()))
    assert max(counts) <= 40
    assert max(counts) <= min(counts) + 6


def test_nested_iteration_starts_close():
    problem = Problem.random(Poisson(), 64, count=1)
    network = sine_solver(0.05)
    exact = TrainedSolver(network, Poisson(), 16, {}).solve(problem, tolerance=1e-10).tensor
    with torch.no_grad():
        start = drained(VCycle(network, problem, 16).start())
    error = (start - exact).norm() / exact.norm()
    assert float(error) < 0.05


def test_trained_solver_chooses_what_is_asked_for():
    problem = Problem.random(Poisson(), 32, count=2)
    solver = trained(Poisson(), 32)
    assert solver.solve(problem, steps=3).steps.tolist() == [3, 3]
    exact = solver.solve(problem, tolerance=1e-11)
    assert exact.good
    assert float(exact.relative_residual.max()) <= 1e-11
    single = problem.in_precision(torch.float32)
    refined = solver.solve(single, tolerance=1e-10)
    assert refined.good
    assert refined.tensor.dtype is torch.float64


def test_trained_solver_takes_numpy_and_gives_numpy():
    f = np.random.default_rng(0).standard_normal((32, 32))
    solution = trained(Poisson(), 16).solve(Problem(Poisson(), f), tolerance=1e-8)
    assert isinstance(solution.u, np.ndarray)
    assert solution.u.shape == (32, 32)
    assert "TOLERANCE" in solution.summary()


def test_trained_solver_refuses_what_it_cannot_do():
    solver = trained(Poisson(), 32)
    small = solver.solve(Problem.random(Poisson(), 16))
    assert small.good
    assert "needs 32 points" in small.notes["remarks"][0]
    with pytest.raises(InvalidInput, match=r"problem.*source"):
        solver.solve(Problem.random(Darcy(), 32))
    with pytest.raises(InvalidInput, match="steps"):
        solver.solve(Problem.random(Poisson(), 32), steps=3, tolerance=1e-3)


@pytest.mark.parametrize("name", ["helmholtz", "darcy", "nonlinear-helmholtz"])
def test_polish_finishes_and_counts_what_the_start_saved(name):
    problem = Problem.random(EQUATIONS[name], 24, count=2, seed=1)
    sign = -7.0 if name == "darcy" else 1.0
    step = sine_solver(defect=0.4).stepper()
    with torch.no_grad():
        rough = iterate(
            lambda now: now.u + (step(now) - now.u) / sign,
            problem,
            problem.zeros(),
            ResidualBelow(1e-10, max_steps=15),
        )
    solution = polish(rough, 1e-10)
    assert solution.status == (Status.TOLERANCE, Status.TOLERANCE)
    assert float(solution.relative_residual.max()) <= 1e-10
    from_zero = polish(dataclasses.replace(rough, tensor=problem.zeros()), 1e-10)
    used, needed = (s.notes["classical_iterations"] for s in (solution, from_zero))
    assert used.keys() == needed.keys() == {0, 1}
    assert all(used[i] < needed[i] for i in used)


def test_polish_says_when_it_cannot():
    """Past the fold there is no solution: an honest failure, not a wrong answer."""
    equation = Helmholtz(wavenumber=3.0, nonlinearity=4.0, source_amplitude=1000.0)
    problem = Problem.random(equation, 24, count=1, seed=1)
    start = iterate(sine_solver().stepper(), problem, problem.zeros(), ResidualBelow(1e-10, 0))
    solution = polish(start, 1e-10)
    assert solution.status == (Status.STEP_LIMIT,)
    assert torch.isfinite(solution.tensor).all()


def test_step_size_search_finds_the_stable_one():
    """A corrector that overshoots threefold converges with a third of the step."""
    solver = sine_solver(defect=-2.0)
    problem = Problem.random(Poisson(), 16, count=2)
    best = search_step_size(solver, problem, steps=10, candidates=(1.0, 1 / 3, 0.1))
    assert best == pytest.approx(1 / 3)
    assert solver.step_size == 1.0
    assert with_step_size(solver, best).solve(problem, stop=FixedSteps(10)).good


def test_smoothing_damps_what_oscillates_and_keeps_the_solution():
    problem = Problem.random(Darcy(), 33, count=1, seed=2)
    exact = TrainedSolver(sine_solver(0.3), Darcy(), 33, {}).solve(problem, tolerance=1e-12).tensor
    diagonal = jacobian_diagonal(problem, exact)
    unchanged, _ = smooth(problem, exact, problem.residual(exact), diagonal, chebyshev_weights(3))
    assert torch.allclose(unchanged, exact, atol=1e-10)
    i, j = torch.meshgrid(torch.arange(33), torch.arange(33), indexing="ij")
    noise = problem.impose(((-1.0) ** (i + j)).double()[None, None])
    u, residual = smooth(
        problem, exact + noise, problem.residual(exact + noise), diagonal, chebyshev_weights(3)
    )
    assert float((u - exact).norm() / noise.norm()) < 0.2
    assert torch.allclose(residual, problem.residual(u))
