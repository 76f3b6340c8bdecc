"""The error bound is never violated: whatever the field, near resonance included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsolver.data.truth import truth
from neuralsolver.equations import EQUATIONS, Darcy, Helmholtz, Poisson, Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.solvers import FixedSteps, iterate

COUNT = 40
equations = st.one_of(
    st.builds(Poisson, scale=st.floats(0.5, 4)),
    st.builds(Helmholtz, wavenumber=st.floats(0, 12)),
    # distances from the first resonance between 1e-9 and 1
    st.builds(
        lambda x, sign: Helmholtz(wavenumber=4.44 + sign * 10**x),
        st.floats(-9, 0),
        st.sampled_from([-1, 1]),
    ),
    st.builds(Darcy, source=st.floats(1, 500), low=st.floats(0.1, 3), high=st.floats(3, 100)),
)


@settings(deadline=None, max_examples=60)
@given(equations, st.integers(0, 10_000), st.floats(-14, 1), st.booleans())
def test_the_bound_holds(equation, seed, magnitude, smooth):
    """60 draws of 40 fields each: 2,400 perturbed solutions, from round-off to nonsense."""
    problem = Problem.random(equation, 12, COUNT, seed)
    exact = torch.from_numpy(truth(equation, problem.inputs.numpy()).solution)
    rng = np.random.default_rng(seed)
    r = np.linspace(0, 1, 12)
    if smooth:  # along the least observable direction, where the bound is sharp
        shape = np.outer(np.sin(math.pi * r), np.sin(math.pi * r))
        error = rng.standard_normal((COUNT, 1, 1, 1)) * shape
    else:
        error = rng.standard_normal(exact.shape)
    u = exact + problem.impose(torch.from_numpy(10.0**magnitude * error) * exact.abs().max())
    solution = iterate(lambda p, v, w: v, problem, u, FixedSteps(0))
    actual = (solution.tensor - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
    bound = solution.error_bound
    assert bound is not None
    # the reference solution itself is right to its own round-off only
    allowance = 1e-11 / float(equation.smallest_singular_value(problem.inputs).min())
    assert (actual <= bound * (1 + 1e-9) + allowance).all()


@pytest.mark.parametrize(
    "equation", [Poisson(), Helmholtz(wavenumber=4.4), Helmholtz(wavenumber=10.0)]
)
def test_the_bound_is_sharp_for_constant_coefficients(equation):
    """The singular value is that of the matrix, so some error attains the bound."""
    problem = Problem.random(equation, 12, 1)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    values = np.linalg.svd(matrix.toarray(), compute_uv=False)
    stated = equation.smallest_singular_value(problem.inputs)
    assert float(stated[0]) == pytest.approx(values[-1], rel=1e-9)


def test_darcy_states_a_lower_bound():
    problem = Problem.random(Darcy(low=1.0, high=100.0), 12, 3, seed=1)
    stated = problem.equation.smallest_singular_value(problem.inputs)
    for i, matrix in enumerate(sparse_jacobian(problem, problem.zeros())):
        smallest = np.linalg.svd(matrix.toarray(), compute_uv=False)[-1]
        assert 0.01 * smallest < float(stated[i]) <= smallest * (1 + 1e-12)


def test_equations_without_a_proof_promise_nothing():
    for equation in (EQUATIONS["nonlinear-helmholtz"], Darcy(stencil="wide")):
        problem = Problem.random(equation, 12, 1)
        solution = iterate(lambda p, v, w: v, problem, problem.zeros(), FixedSteps(0))
        assert solution.error_bound is None
        assert "at most" not in solution.summary()


def test_the_zero_guess_is_bounded_by_nothing():
    problem = Problem.random(Poisson(), 12, 1)
    solution = iterate(lambda p, v, w: v, problem, problem.zeros(), FixedSteps(0))
    assert float(solution.error_bound[0]) == math.inf
    assert "relative error at most inf" in solution.summary()
