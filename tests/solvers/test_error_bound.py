"""The error bound is never violated: whatever the field, near resonance included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, Darcy, Helmholtz, NavierStokes, Poisson, Problem
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.fields.stencils import laplacian_eigenvalues
from neuralsolver.solvers import Solution

COUNT = 40
POINTS = 12
RESONANCE = math.sqrt(float(laplacian_eigenvalues(POINTS).min()))
"""Where the discrete operator is singular; √2 π is only its limit on fine grids."""
equations = st.one_of(
    st.builds(Poisson, scale=st.floats(0.5, 4)),
    st.builds(Helmholtz, wavenumber=st.floats(0, 12)),
    # distances from the first resonance between 1e-8 and 1
    st.builds(
        lambda x, sign: Helmholtz(wavenumber=RESONANCE + sign * 10**x),
        st.floats(-8, 0),
        st.sampled_from([-1, 1]),
    ),
    st.builds(Darcy, source=st.floats(1, 500), low=st.floats(0.1, 3), high=st.floats(3, 100)),
)


@settings(deadline=None, max_examples=60)
@given(equations, st.integers(0, 10_000), st.floats(-14, 1), st.booleans())
def test_the_bound_holds(equation, seed, magnitude, smooth):
    """60 draws of 40 fields each: 2,400 perturbed solutions, from round-off to nonsense."""
    problem = Problem.random(equation, POINTS, COUNT, seed)
    exact = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)
    rng = np.random.default_rng(seed)
    r = np.linspace(0, 1, POINTS)
    if smooth:  # along the least observable direction, where the bound is sharp
        shape = np.outer(np.sin(math.pi * r), np.sin(math.pi * r))
        error = rng.standard_normal((COUNT, 1, 1, 1)) * shape
    else:
        error = rng.standard_normal(exact.shape)
    u = exact + problem.impose(torch.from_numpy(10.0**magnitude * error) * exact.abs().max())
    solution = Solution.of(problem, u)
    actual = (solution.tensor - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
    bound = solution.error_bound
    assert bound is not None
    # the reference solution itself is right to its own round-off only
    allowance = 1e-11 / float(problem.smallest_singular_value().min())
    assert (actual <= bound * (1 + 1e-9) + allowance).all()


@settings(deadline=None, max_examples=60)
@given(
    st.floats(-6, -1),
    st.sampled_from([-1, 1]),
    st.integers(0, 10_000),
    st.floats(-14, 1),
    st.booleans(),
)
def test_the_bound_holds_at_resonance_without_allowance(distance, sign, seed, magnitude, smooth):
    """60 draws of 40 fields whose solutions are exact: small integers and a κ of 20 binary places
    leave nothing to round in f = Δu + κ²u."""
    rng = np.random.default_rng(seed)
    wavenumber = round((RESONANCE + sign * 10**distance) * 2**20) / 2**20
    exact = np.zeros((COUNT, 1, POINTS, POINTS))
    exact[..., 1:-1, 1:-1] = rng.integers(-8, 9, (COUNT, 1, POINTS - 2, POINTS - 2))
    equation = Helmholtz(wavenumber=wavenumber)
    u_exact = torch.from_numpy(exact)
    source = Problem(equation, torch.zeros_like(u_exact)).residual(u_exact)
    problem = Problem(equation, source)
    assert not bool(problem.residual(u_exact).any())
    r = np.linspace(0, 1, POINTS)
    wave = np.outer(np.sin(math.pi * r), np.sin(math.pi * r))
    shape = wave if smooth else rng.standard_normal(exact.shape)
    error = 10.0**magnitude * rng.standard_normal((COUNT, 1, 1, 1)) * shape
    u = u_exact + problem.impose(torch.from_numpy(np.broadcast_to(error, exact.shape).copy()))
    solution = Solution.of(problem, u)
    actual = (u - u_exact).flatten(1).norm(dim=1) / u_exact.flatten(1).norm(dim=1)
    assert (actual <= solution.error_bound).all()


@pytest.mark.parametrize(
    "equation", [Poisson(), Helmholtz(wavenumber=4.4), Helmholtz(wavenumber=10.0)]
)
def test_the_bound_is_sharp_for_constant_coefficients(equation):
    """The singular value is that of the matrix, so some error attains the bound."""
    problem = Problem.random(equation, 12, 1)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    values = np.linalg.svd(matrix.toarray(), compute_uv=False)
    stated = problem.smallest_singular_value()
    assert float(stated[0]) == pytest.approx(values[-1], rel=1e-9)


def test_darcy_states_a_lower_bound():
    problem = Problem.random(Darcy(low=1.0, high=100.0), 12, 3, seed=1)
    stated = problem.smallest_singular_value()
    for i, matrix in enumerate(sparse_jacobian(problem, problem.zeros())):
        smallest = np.linalg.svd(matrix.toarray(), compute_uv=False)[-1]
        assert 0.01 * smallest < float(stated[i]) <= smallest * (1 + 1e-12)


def test_equations_without_a_proof_promise_nothing():
    for equation in (EQUATIONS["nonlinear-helmholtz"], Darcy(stencil="wide")):
        problem = Problem.random(equation, 12, 1)
        solution = Solution.of(problem, problem.zeros())
        assert solution.error_bound is None
        assert "at most" not in solution.summary()


def test_the_zero_guess_is_bounded_by_nothing():
    problem = Problem.random(Poisson(), 12, 1)
    solution = Solution.of(problem, problem.zeros())
    assert float(solution.error_bound[0]) == math.inf
    assert "no bound on the error" in solution.summary()


@pytest.mark.parametrize(("wavenumber", "nonlinearity"), [(2.0, 1.0), (3.0, 4.0), (3.0, -4.0)])
@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("smooth", [True, False])
def test_the_estimate_is_near_small_errors(wavenumber, nonlinearity, size, smooth):
    problem = Problem.random(Helmholtz(wavenumber, nonlinearity), 24, 6, seed=3)
    answer = solve_reference(problem.equation, problem.inputs.numpy())
    exact = torch.from_numpy(answer.solution)
    r = torch.linspace(0, math.pi, 24, dtype=torch.float64)
    rough = torch.from_numpy(np.random.default_rng(0).standard_normal(exact.shape))
    error = torch.outer(r.sin(), r.sin()).expand_as(exact) if smooth else rough
    u = exact + size * problem.impose(error.clone()) * exact.abs().amax((1, 2, 3), keepdim=True)
    solution = Solution.of(problem, u)
    actual = (u - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
    estimate = solution.error_estimate
    assert solution.error_bound is None
    assert answer.solved.any()
    ratio = (estimate / actual)[torch.from_numpy(answer.solved)]
    assert ((ratio > 0.5) & (ratio < 2)).all()


def test_the_estimate_is_labelled_lazy_and_only_where_nothing_is_proven(monkeypatch):
    def still(equation, count=1, n=12):
        problem = Problem.random(equation, n, count)
        u = problem.zeros()
        return Solution.of(problem, u)

    nonlinear = still(EQUATIONS["nonlinear-helmholtz"])
    # from zero, Newton's first correction is the linear solution: all of the answer is missing
    assert float(nonlinear.error_estimate[0]) == pytest.approx(1.0)
    assert "relative error about 1.0e+00 (estimate: one Newton correction)" in nonlinear.summary()
    assert still(Poisson()).error_estimate is None
    assert "estimate" not in still(Poisson()).summary()
    assert float(still(NavierStokes(frames=2)).error_estimate[0]) > 0
    assert float(still(Darcy(stencil="wide")).error_estimate[0]) == math.inf
    monkeypatch.setattr("neuralsolver.solvers.solution.ESTIMATED_POINTS", 100)
    assert "estimate" not in nonlinear.summary()
