"""The V-cycle in its fast form: J written out, float32 inside, one hierarchy per problem."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from neuralsolver.equations import EQUATIONS, Darcy, Grid, Helmholtz, Poisson, Problem
from neuralsolver.fields.jacobian import jacobian_blocks, linearisation
from neuralsolver.solvers import FixedSteps, State, VCycle, iterate, multilevel
from neuralsolver.solvers.smoothing import chebyshev_weights, smooth, stencil
from neuralsolver.training import load
from tests.networks import sine_solver

WALLS = [
    Poisson(),
    Helmholtz(wavenumber=3.0),
    EQUATIONS["nonlinear-helmholtz"],
    Darcy(),
    Darcy(stencil="wide"),
]


def field(problem, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = problem.zeros().shape
    return problem.impose(torch.randn(shape, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("equation", WALLS, ids=lambda equation: repr(equation)[:30])
@pytest.mark.parametrize("resolution", [21, 24])
def test_a_stencil_is_the_jacobian(equation, resolution):
    problem = Problem.random(equation, resolution, count=2, seed=1)
    u, direction = field(problem), field(problem, 1)
    expected = linearisation(problem, u)(direction)
    found = stencil(problem, u).apply(direction)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12 * float(expected.abs().max()))


@pytest.mark.parametrize("equation", [Poisson(), Darcy()])
def test_sweeps_on_the_stencil_are_the_sweeps_on_the_residual(equation):
    """For a linear F, smoothing u from zero and smoothing the correction of zero are the same."""
    problem = Problem.random(equation, 24, count=2, seed=1)
    zero, weights = problem.zeros(), chebyshev_weights(3)
    blocks = jacobian_blocks(problem, zero)
    expected, left = smooth(problem, zero, problem.residual(zero), blocks, weights)
    jacobian, r = stencil(problem, zero), problem.residual(zero)
    found = jacobian.sweep(r, weights)
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.allclose(jacobian.sweep(r, weights, zero), expected, atol=1e-12)
    assert torch.allclose(r + jacobian.apply(found), left, atol=1e-9)


def test_restriction_is_what_automatic_differentiation_says():
    for fine, coarse in ((64, 32), (100, 64), (33, 17)):
        r = torch.randn(2, 1, fine, fine, dtype=torch.float64)
        below = torch.zeros(2, 1, coarse, coarse, dtype=torch.float64, requires_grad=True)
        big, small = Grid.between_walls(fine, fine), Grid.between_walls(coarse, coarse)
        (adjoint,) = torch.autograd.grad(small.prolong(below, big), below, r)
        expected = small.zero_walls(adjoint * ((coarse - 1) / (fine - 1)) ** 2)
        assert torch.allclose(big.restrict(r, small), expected, atol=1e-12)


def test_a_cycle_in_float32_is_the_cycle_in_float64(monkeypatch):
    problem = Problem.random(Darcy(), 64, count=2, seed=1)
    solver, u = load("darcy-contractive").network, problem.zeros()
    with torch.no_grad():
        single = VCycle(solver, problem, 32)(State.of(problem, u))
        monkeypatch.setattr(multilevel, "SINGLE_PRECISION_LIMIT", 0)
        double = VCycle(solver, problem, 32)(State.of(problem, u))
    assert single.dtype == double.dtype == torch.float64
    assert float((single - double).norm() / double.norm()) < 1e-5


def test_units_do_not_matter_to_a_cycle():
    """Sources beyond float32, and sources beside which J is small, give the same, scaled."""
    solver = sine_solver(0.1)
    problem = Problem.random(Poisson(), 32, seed=1)
    with torch.no_grad():
        expected = VCycle(solver, problem, 16)(State.of(problem, problem.zeros()))
        for factor in (1e-60, 1e-6, 1e11, 1e30):
            scaled = Problem(problem.equation, factor * problem.inputs)
            u = VCycle(solver, scaled, 16)(State.of(scaled, scaled.zeros()))
            assert torch.allclose(u / factor, expected, rtol=0, atol=1e-5 * float(expected.max()))


def test_a_residual_of_zero_stays():
    problem = Problem(Poisson(), torch.zeros(1, 1, 32, 32, dtype=torch.float64))
    with torch.no_grad():
        u = VCycle(sine_solver(), problem, 16)(State.of(problem, problem.zeros()))
    assert not u.any()


def test_refinement_reaches_round_off():
    problem = Problem.random(Poisson(), 64, seed=2)
    with torch.no_grad():
        cycles = VCycle(sine_solver(0.05), problem, 16)
        solution = iterate(cycles, problem, problem.zeros(), FixedSteps(25))
    norms = solution.residual_norms[:, 0] / solution.residual_scale[0]
    assert float(norms[-1]) < 1e-11
    assert all(after < 0.5 * before for before, after in pairwise(norms[:8].tolist()))


def test_a_hierarchy_belongs_to_one_solve():
    problem = Problem.random(Poisson(), 64, count=3)
    cycles = VCycle(sine_solver(), problem, 16)
    assert [level.problem.resolution for level in cycles.levels] == [64, 32, 16]
    with torch.no_grad():
        together = cycles(State.of(problem, problem.zeros()))
        cycles.keep(torch.tensor([True, False, True]))
        rest = problem.select([0, 2])
        left = cycles(State.of(rest, rest.zeros()))
    assert [level.problem.batch for level in cycles.levels] == [2, 2, 2]
    assert torch.allclose(left, together[[0, 2]], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "resolution", "most"),
    [
        ("poisson", 128, 10),
        ("poisson", 256, 10),
        ("helmholtz", 128, 9),
        ("helmholtz", 256, 9),
        ("darcy", 128, 16),
        ("darcy", 256, 15),
    ],
)
def test_no_more_cycles_than_the_slow_form_needed(name, resolution, most):
    """Counts of the first release, on one instance."""
    problem = Problem.random(EQUATIONS[name], resolution, 1, seed=20_261, key=7)
    solution = load(name).solve(problem, tolerance=1e-9)
    assert solution.good
    assert int(solution.steps.max()) <= most
