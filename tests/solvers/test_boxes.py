"""Three dimensions: stencils, V-cycles with and without a network, the shipped corrector."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.equations import Darcy, Helmholtz, Poisson, Problem
from neuralsolver.fields.jacobian import jacobian_diagonal, sparse_jacobian
from neuralsolver.fields.stencils import from_interior
from neuralsolver.reference import solve_darcy
from neuralsolver.solvers import Krylov, ResidualBelow, flexible_gmres, iterate, smoothing
from neuralsolver.solvers.multigrid import MultigridStep

BOX = Darcy(source="field", dimension=3)
SEMILINEAR = Helmholtz(wavenumber=2.0, nonlinearity=1.0)


class NinePoints(Poisson):
    """A stencil with corners, which is no star."""

    def residual(self, space, u, inputs):
        r = super().residual(space, u, inputs)
        return r + from_interior(u[..., 2:, 2:]) * (u.shape[-1] - 1) ** 2 / 10


def box(points, seed=0, count=1):
    """Drawn fields as a user would give them."""
    drawn = Problem.random(BOX, points, count=count, seed=seed)
    return Problem(Darcy(source="field"), drawn.inputs, lengths=(1, 1, 1))


@pytest.mark.parametrize(
    "equation", [BOX, Darcy(dimension=3), Darcy(), Poisson(), SEMILINEAR, NinePoints()]
)
def test_a_stencil_written_out_is_the_jacobian(equation):
    n = 9 if equation.dimension == 3 else 14
    problem = Problem.random(equation, n, count=2, seed=3)
    u = problem.impose(torch.rand_like(problem.zeros()))
    written = smoothing.stencil(problem, u)
    e = problem.impose(torch.rand_like(u))
    for i, matrix in enumerate(sparse_jacobian(problem, u)):
        product = problem.grid.flatten(written.apply(e))[i].numpy()
        exact = matrix @ problem.grid.flatten(e)[i].numpy()
        assert np.abs(product - exact).max() < 1e-9 * np.abs(exact).max()
        on_points = problem.grid.flatten(jacobian_diagonal(problem, u))[i].numpy()
        assert np.allclose(on_points, matrix.diagonal(), rtol=1e-12)
    shared = not equation.jacobian_depends_on
    assert len(written.diagonal) == (1 if shared else 2)


@pytest.mark.parametrize("dimension", [2, 3])
def test_weights_damp_what_oscillates_along_one_axis(dimension):
    """After s sweeps [1/d, 2] is damped by 1/T_s; just below it, hardly."""
    low, sweeps = 1 / dimension, 3
    weights = smoothing.chebyshev_weights(sweeps, dimension)
    x = np.linspace(low, 2, 500)
    left = np.abs(np.prod([1 - w * x for w in weights], axis=0)).max()
    bound = 1 / math.cosh(sweeps * math.acosh((2 + low) / (2 - low)))
    assert left == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("equation", ["darcy", "poisson"])
def test_cycles_without_a_network_solve_a_batch_in_a_box(equation):
    problem = box(24, seed=2, count=2)
    if equation == "poisson":
        problem = Problem(Poisson(scale=1.0), problem.inputs[:, 1:], lengths=(1, 1, 1))
    step = Krylov(MultigridStep(problem))
    assert iterate(step, problem, problem.zeros(), ResidualBelow(1e-9, 16)).good


def test_a_square_model_solves_a_box_without_its_network_and_says_so():
    solution = ns.load("darcy").solve(box(12))
    assert solution.good
    assert solution.notes["remarks"] == [
        "solved by multigrid without a network: its corrector knows two dimensions"
    ]


@pytest.mark.parametrize("points", [32, 33, 48])
def test_the_shipped_corrector_solves_boxes_and_bounds_its_error(points):
    solver, problem = ns.load("darcy-box"), box(points, seed=9)
    solution = solver.solve(problem, tolerance=1e-8)
    assert solution.good
    assert "remarks" not in solution.notes
    assert int(solution.steps.max()) <= 30
    a, f = problem.inputs[0].numpy()
    exact = torch.from_numpy(solve_darcy(a[None], f[None], tolerance=1e-11).u)
    error = float((solution.tensor[0] - exact).norm() / exact.norm())
    assert error < 1e-6
    assert error <= float(solution.error_bound[0])


def test_the_corrector_of_the_cube_knows_no_square_and_serves_a_matrix():
    solver = ns.load("darcy-box")
    solution = solver.solve(Problem.random(Darcy(), 40))
    assert solution.good
    assert "three dimensions" in solution.notes["remarks"][0]
    problem = box(34, seed=1)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    right = problem.grid.flatten(problem.inputs[:, 1:])[0].numpy()
    with pytest.warns(UserWarning, match="no linear operator"):
        inverse = solver.preconditioner(problem)
    u, failed = flexible_gmres(matrix, right, preconditioner=inverse)
    assert failed == 0
    assert np.linalg.norm(matrix @ u - right) <= 1.1e-8 * np.linalg.norm(right)


def test_values_on_the_walls_and_a_gradient_in_a_box_with_the_corrector():
    """u = x + 2y − z solves Darcy in a uniform box; its mean over the box grows with the height."""
    solver, n = ns.load("darcy-box"), 34
    height = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    x, y, z = torch.meshgrid(*3 * [torch.linspace(0, 1, n, dtype=torch.float64)], indexing="ij")
    plane = x + 2 * y - z
    problem = Problem(
        Darcy(source=0.0), torch.full((n,) * 3, 4.0), lengths=(1, 1, 1), walls=height * plane
    )
    solution = solver.solve(problem, tolerance=1e-9)
    assert solution.good
    assert "remarks" not in solution.notes
    assert float((solution.tensor.detach()[0, 0] - plane).abs().max()) < 1e-6
    solution.tensor.mean().backward()
    assert float(height.grad) == pytest.approx(float(plane.mean()), rel=1e-6)
