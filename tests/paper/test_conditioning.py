"""Singular values against dense ones, Proposition 1 as a construction, amplified rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Darcy, Equation, Helmholtz, NavierStokes, Poisson, Problem
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.fields.jacobian import linearisation, sparse_jacobian
from neuralsolver.fields.stencils import laplacian_eigenvalues
from paper import conditioning
from paper.conditioning import (
    gap_field,
    rounding_experiment,
    singular_values,
)

NONLINEAR = [Helmholtz(2.0, 1.0), Helmholtz(3.0, 4.0)]
LINEAR = [
    Poisson(),
    *(Helmholtz(wavenumber) for wavenumber in (1.0, 4.4, 4.5, 6.0)),
    Darcy(),
    Darcy(low=1.0, high=100.0),
]


def solved(equation: Equation, n: int, count: int = 1) -> tuple[Problem, torch.Tensor]:
    problem = Problem.random(equation, n, count)
    answer = solve_reference(equation, problem.inputs.numpy())
    assert answer.solved.all()
    return problem, torch.from_numpy(answer.solution)


@pytest.mark.parametrize("equation", [*LINEAR, *NONLINEAR])
def test_agrees_with_the_dense_decomposition(equation):
    problem, u = solved(equation, 16, 2)
    extremes = singular_values(problem, u)
    jacobian = linearisation(problem, u)
    assert extremes.weakest.flatten(1).norm(dim=1).numpy() == pytest.approx(1, abs=1e-12)
    difference = jacobian(extremes.weakest) - extremes.smallest.view(2, 1, 1, 1) * extremes.response
    assert (difference.flatten(1).norm(dim=1) <= 1e-6 * extremes.smallest).all()
    for i, matrix in enumerate(sparse_jacobian(problem, u)):
        values = np.linalg.svd(matrix.toarray(), compute_uv=False)
        assert float(extremes.smallest[i]) == pytest.approx(values[-1], rel=1e-9)
        assert float(extremes.largest[i]) == pytest.approx(values[0], rel=1e-6)
        assert float(extremes.condition[i]) == pytest.approx(values[0] / values[-1], rel=1e-6)


@pytest.mark.parametrize("wavenumber", [1.0, 4.4, 6.0])
def test_agrees_with_the_known_eigenvalues(wavenumber):
    problem = Problem.random(Helmholtz(wavenumber), 64)
    extremes = singular_values(problem, problem.zeros())
    distances = (laplacian_eigenvalues(64) - wavenumber**2).abs()
    assert float(extremes.smallest) == pytest.approx(float(distances.min()), rel=1e-9)
    assert float(extremes.largest) == pytest.approx(float(distances.max()), rel=1e-6)


def test_close_to_resonance():
    """χ ≈ 10⁸: still the singular value of the matrix, to the digits that are there."""
    n = 16
    first = float(laplacian_eigenvalues(n).min())
    problem = Problem.random(Helmholtz(math.sqrt(first) - 1e-6), n)
    extremes = singular_values(problem, problem.zeros())
    exact = first - problem.equation.wavenumber**2
    assert float(extremes.smallest) == pytest.approx(exact, rel=1e-6)
    r = torch.linspace(0, 1, n, dtype=torch.float64)
    wave = torch.outer(torch.sin(math.pi * r), torch.sin(math.pi * r))
    assert abs(float((extremes.weakest[0, 0] * wave / wave.norm()).sum())) > 1 - 1e-9


def test_a_jacobian_that_is_not_symmetric_is_refused():
    problem, u = solved(Darcy(stencil="wide"), 16)
    with pytest.raises(InvalidInput, match="symmetric"):
        singular_values(problem, u)


@pytest.mark.parametrize(("viscosity", "constant"), [(1e-4, False), (3e-2, True)])
def test_flows(viscosity, constant):
    """Against the dense matrix; with a large viscosity the weakest field is constant in space."""
    flow = NavierStokes(viscosity=viscosity, frames=2, start_time=0.1)
    problem, u = solved(flow, 8)
    problem = Problem(flow, u[:, :, 0])
    extremes = singular_values(problem, u, settled=1e-12)
    values = dense_values(problem, u)
    assert float(extremes.smallest) == pytest.approx(values[-1], rel=1e-7)
    assert float(extremes.largest) == pytest.approx(values[0], rel=1e-3)
    assert extremes.weakest[:, :, 0].abs().max() == 0
    share = float(64 * extremes.weakest.mean((-2, -1)).square().sum())
    assert share == pytest.approx(float(constant), abs=1e-5)


def dense_values(problem, u):
    """Singular values over the free directions, from one product a column."""
    jacobian, nothing = linearisation(problem, u), problem.impose(torch.zeros_like(u))
    units = torch.eye(u.numel(), dtype=torch.float64).view(-1, *u.shape)
    columns = [jacobian(problem.impose(d) - nothing).reshape(-1).numpy() for d in units]
    values = np.linalg.svd(np.stack(columns, 1), compute_uv=False)
    return values[values > 1e-9 * values[0]]


def test_imposed_modes_are_not_free():
    """By the 2/3 rule the modes beyond n/3 are known: no direction has any of them."""
    flow = NavierStokes(frames=5, start_time=0.1, time_order=4, dealiasing="2/3")
    problem, u = solved(flow, 12)
    problem = Problem(flow, u[:, :, 0])
    extremes = singular_values(problem, u, settled=1e-10)
    values = dense_values(problem, u)
    assert len(values) == 5 * 7**2
    assert float(extremes.smallest) == pytest.approx(values[-1], rel=1e-6)
    spectrum = torch.fft.rfft2(extremes.weakest[0, 0])
    assert spectrum[..., 4:9, :].abs().max() < 1e-12
    assert spectrum[..., 4:].abs().max() < 1e-12


def test_the_gap_of_a_flow():
    """ε is added to the residual of the truth, and the error is ε/2σ, as the proof has it."""
    flow = NavierStokes(frames=4, start_time=0.5, time_order=4, dealiasing="2/3")
    problem, u = solved(flow, 12)
    problem = Problem(flow, u[:, :, 0])
    extremes = singular_values(problem, u)
    gap = gap_field(problem, u, 1e-2, extremes)
    assert float(gap.error) == pytest.approx(1e-2 / (2 * float(extremes.smallest)), rel=1e-9)
    assert 0.4e-2 < float(gap.residual) < 1e-2
    with pytest.raises(InvalidInput, match="epsilon"):
        gap_field(problem, u, 2 * float(gap.admissible), extremes)


def test_failure_is_said(monkeypatch):
    monkeypatch.setattr(conditioning, "MISMATCH_LIMIT", -1.0)
    problem = Problem.random(Helmholtz(4.4), 16)
    with pytest.raises(ReferenceFailure, match=r"mismatch|Lanczos"):
        singular_values(problem, problem.zeros())


@pytest.mark.parametrize("equation", LINEAR)
def test_gap_of_linear_equations(equation):
    """Any ε: the residual is ε and the error ε/σ_min."""
    problem, u = solved(equation, 12)
    extremes = singular_values(problem, u)
    rounding = 1e-9 * float(problem.residual(problem.zeros()).norm())
    for epsilon in (1e-3, 1.0, 1e3):
        gap = gap_field(problem, u, epsilon, extremes)
        assert float(gap.residual) == pytest.approx(epsilon, rel=1e-7, abs=rounding)
        assert float(gap.error) == pytest.approx(epsilon / float(extremes.smallest), rel=1e-9)
        assert torch.equal(problem.impose(gap.field), gap.field)


@pytest.mark.parametrize("equation", [*NONLINEAR, Helmholtz(3.0, -4.0)])
def test_gap_of_nonlinear_equations(equation):
    problem, u = solved(equation, 12, 2)
    extremes = singular_values(problem, u)
    largest = float(gap_field(problem, u, 1e-6, extremes).admissible.min())
    for epsilon in (1e-3 * largest, 0.5 * largest, 0.999 * largest):
        gap = gap_field(problem, u, epsilon, extremes)
        assert (gap.residual <= epsilon).all()
        assert (gap.error >= (1 - 1e-9) * epsilon / (2 * extremes.smallest)).all()
        curvature = 6 * abs(equation.nonlinearity) * (u.flatten(1).abs().amax(1) + gap.error)
        assert (epsilon < 4 * extremes.smallest**2 / curvature).all()
    with pytest.raises(InvalidInput, match="epsilon"):
        gap_field(problem, u, 1.001 * largest, extremes)


def test_gap_needs_a_known_curvature():
    class Cubed(Poisson):
        linear = False

    problem = Problem.random(Cubed(), 8)
    with pytest.raises(InvalidInput, match="D²F"):
        gap_field(problem, problem.zeros(), 1e-3, None)


@pytest.mark.parametrize("equation", [Poisson(), Helmholtz(4.4), NONLINEAR[1], Darcy(low=1.0)])
def test_rounding_squares_the_condition_of_normal_equations(equation):
    """Single precision stays below its own bounds, and Newton's is the better one."""
    problem, u = solved(equation, 16)
    extremes = singular_values(problem, u)
    result = rounding_experiment(problem, u, extremes)
    unknowns, unit, condition = 14**2, 2.0**-24, float(extremes.condition)
    assert result["newton_single"] < unknowns * unit * condition
    assert result["newton_single"] < result["gauss_newton_single"]
    if unknowns * unit * condition**2 < 1:
        assert result["gauss_newton_single"] < unknowns * unit * condition**2
