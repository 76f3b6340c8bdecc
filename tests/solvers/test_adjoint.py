"""Gradients by the implicit function theorem, with the corrector as the adjoint solver."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import bicg, cg

import neuralsolver as ns
from neuralsolver.equations import (
    Darcy,
    FixedValues,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
)
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers import flexible_gmres

SOLVERS = {
    "poisson": Poisson(),
    "helmholtz": Helmholtz(),
    "nonlinear-helmholtz": Helmholtz(wavenumber=2.0, nonlinearity=1.0),
    "darcy": Darcy(source=10.0),
}
CHECK = {"eps": 1e-3, "atol": 1e-5, "rtol": 1e-3, "fast_mode": True}
"""Differences over 1e-3 of answers that are right to 1e-10."""
SIDES = [("walls", "walls"), ("walls", "flux"), ("periodic", ("walls", "flux"))]


def field(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random(shape)) + 0.5


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_inputs_and_values_on_the_walls_on_a_small_grid(name, sides):
    solver = ns.load(name)

    def answer(inputs, values):
        # far from the fold of the nonlinear equation
        problem = Problem(SOLVERS[name], inputs, walls=0.1 * values, sides=sides)
        return solver.solve(problem, tolerance=1e-10).tensor

    arguments = (field(8, 8).requires_grad_(), field(8, 8, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(answer, arguments, **CHECK)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("points", [64, 80])
def test_the_corrector_solves_the_adjoint(name, points):
    """A few numbers that everything depends on, on the trained grid and on a finer one."""
    solver = ns.load(name)
    bumps = torch.stack([field(points, points, seed=s) for s in range(2)])
    rim = torch.linspace(0, 1, points, dtype=torch.float64).expand(points, points)

    def answer(shares, height):
        inputs = 2.0 + (shares[:, None, None] * bumps).sum(0)
        problem = Problem(SOLVERS[name], inputs, walls=height * rim)
        return solver.solve(problem, tolerance=1e-10).tensor[..., 20::17, 30::13]

    arguments = (field(2).requires_grad_(), torch.tensor(0.7).double().requires_grad_())
    assert torch.autograd.gradcheck(answer, arguments, **CHECK)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("poisson", lambda c: Poisson(scale=c)),
        ("helmholtz", lambda c: Helmholtz(wavenumber=c)),
        ("nonlinear-helmholtz", lambda c: Helmholtz(wavenumber=2.0, nonlinearity=c)),
        ("darcy", lambda c: Darcy(source=c)),
    ],
)
def test_constants(name, make):
    solver, inputs = ns.load(name), field(12, 12)

    def answer(constant):
        return solver.solve(Problem(make(constant), inputs), tolerance=1e-10).tensor

    constant = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(answer, (constant,), **CHECK)


def test_a_source_that_is_a_field_and_points_held_inside():
    solver = ns.load("darcy")
    mask = torch.zeros(9, 9, dtype=torch.bool)
    mask[4:6, 3] = True

    def answer(inputs, values):
        problem = Problem(Darcy(source="field"), inputs, fixed=FixedValues(mask, values))
        return solver.solve(problem, tolerance=1e-10).tensor

    arguments = (field(2, 9, 9).requires_grad_(), field(9, 9, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(answer, arguments, **CHECK)


def test_a_gradient_has_the_layout_of_what_was_given_and_is_lost_only_when_asked():
    solver, f = ns.load("poisson"), field(16, 16).float().requires_grad_()
    solution = solver.solve(Problem(Poisson(), f))
    u = solution.u
    assert u.shape == (16, 16)
    assert "TOLERANCE" in solution.summary()  # and no warning that a graph hangs on its numbers
    u.sum().backward()
    assert f.grad.shape == f.shape
    assert f.grad.dtype is torch.float32
    with torch.no_grad():
        assert not solver.solve(Problem(Poisson(), f)).tensor.requires_grad
    assert not solver.solve(Problem(Poisson(), f.detach())).tensor.requires_grad


def test_a_flow_has_no_gradient_and_says_so():
    solver = ns.load("navier-stokes")
    start = torch.zeros(64, 64, requires_grad=True)
    with pytest.raises(InvalidInput, match=r"gradient.*frames"):
        solver.solve(Problem(NavierStokes(), start), steps=0)


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "darcy"])
@pytest.mark.parametrize("points", [64, 96])
def test_the_preconditioner_serves_flexible_gmres_on_the_matrix(name, points):
    solver = ns.load(name)
    problem = Problem.random(solver.equation, points, seed=2)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    right = -problem.grid.flatten(problem.residual(problem.zeros()))[0].numpy()
    with pytest.warns(UserWarning, match="no linear operator"):
        preconditioner = solver.preconditioner(problem)
    norms = []
    u, failed = flexible_gmres(
        matrix, right, preconditioner=preconditioner, rtol=1e-10, callback=norms.append
    )
    assert failed == 0
    assert len(norms) <= 30
    assert np.linalg.norm(matrix @ u - right) <= 1.1e-10 * np.linalg.norm(right)
    truth = solver.solve(problem, tolerance=1e-10).tensor
    assert np.allclose(problem.grid.flatten(truth)[0], u, atol=1e-7)


def test_the_linear_preconditioner_serves_scipy():
    solver = ns.load("darcy")
    problem = Problem.random(solver.equation, 70, seed=2)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    right = np.ones(problem.grid.size)
    count = []
    operator = solver.preconditioner(problem, linear=True)
    u, info = cg(matrix, right, rtol=1e-10, M=operator, callback=count.append)
    assert info == 0
    assert len(count) <= 15
    assert np.linalg.norm(matrix @ u - right) < 1e-9 * np.linalg.norm(right)


@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_the_linear_preconditioner_has_its_transpose(sides):
    """⟨w, Mv⟩ = ⟨Mᵀw, v⟩ to the float32 of a cycle, and BiCG, which asks for both, converges."""
    solver = ns.load("darcy")
    inputs = Problem.random(solver.equation, 20, seed=2).inputs
    problem = Problem(solver.equation, inputs, sides=sides)
    operator = solver.preconditioner(problem, linear=True)
    v, w = np.random.default_rng(0).standard_normal((2, problem.grid.size))
    assert w @ (operator @ v) == pytest.approx(v @ operator.rmatvec(w), rel=1e-4)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    u, info = bicg(matrix, v, rtol=1e-9, M=operator)
    assert info == 0
    assert np.linalg.norm(matrix @ u - v) < 1e-8 * np.linalg.norm(v)


def test_a_box_and_a_rectangle_and_the_constant_of_a_source_field():
    poisson, darcy = ns.load("poisson"), ns.load("darcy")

    def in_a_box(f, values):
        problem = Problem(Poisson(), f, lengths=(1, 1, 1), walls=values)
        return poisson.solve(problem, tolerance=1e-10).tensor

    both = (field(8, 8, 9).requires_grad_(), field(8, 8, 9, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(in_a_box, both, **CHECK)

    def in_a_rectangle(a, constant):
        inputs = torch.stack([a, constant * field(10, 14, seed=3)])
        problem = Problem(Darcy(source="field"), inputs, lengths=(1, 1.4))
        return darcy.solve(problem, tolerance=1e-10).tensor

    constant = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        in_a_rectangle, (field(10, 14).requires_grad_(), constant), **CHECK
    )


def test_flexible_gmres_says_what_it_cannot_do():
    eye = np.eye(4)
    with pytest.raises(InvalidInput, match="preconditioner"):
        flexible_gmres(eye, np.ones(4), preconditioner=np.eye(3))
    with pytest.raises(InvalidInput, match="finite"):
        flexible_gmres(eye, np.full(4, np.nan), preconditioner=eye)
    assert flexible_gmres(eye, np.ones(4), preconditioner=0 * eye)[1] == 1
    with pytest.raises(InvalidInput, match="one sample"):
        ns.load("poisson").preconditioner(Problem.random(Poisson(), 16, count=2))
