"""What a user may ask of a square model: any grid, any sides, values on the walls, against LU."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import cg, gmres, spsolve

import neuralsolver as ns
from neuralsolver.equations import Darcy, Helmholtz, Poisson, Problem
from neuralsolver.fields.jacobian import sparse_jacobian

EQUATIONS = {
    "poisson": (Poisson(), "poisson"),
    "helmholtz": (Helmholtz(wavenumber=1.3), "helmholtz"),
    "darcy": (Darcy(), "darcy"),
    "forced": (Darcy(source="field"), "darcy"),
}
SIDES = [None, ("walls", "flux"), (("walls", "flux"), "periodic"), ("flux", ("flux", "walls"))]
SMALL = [(8, 8), (9, 8), (13, 17), (11, 64), (70, 9)]
LARGE = [(65, 65), (66, 99), (64, 127)]


def fields(name, shape, rng):
    medium = np.where(rng.standard_normal(shape) > 0, 12.0, 3.0)
    source = 100 * rng.standard_normal(shape)
    kinds = {"darcy": medium, "forced": np.stack([medium, source])}
    return kinds.get(name, source)


def check(name, shape, sides):
    rng = np.random.default_rng(len(name) * shape[0] + shape[1])
    equation, model = EQUATIONS[name]
    inputs = fields(name, shape, rng)
    problem = Problem(equation, inputs, sides=sides, walls=rng.standard_normal(shape))
    solution = ns.load(model).solve(problem, tolerance=1e-9)
    assert solution.good
    start = problem.zeros()
    (matrix,) = sparse_jacobian(problem, start)
    change = spsolve(matrix.tocsc(), problem.grid.flatten(problem.residual(start))[0].numpy())
    exact = problem.grid.flatten(start)[0].numpy() - change
    found = problem.grid.flatten(solution.tensor)[0].numpy()
    assert np.abs(found - exact).max() < 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("sides", SIDES, ids=str)
@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("name", EQUATIONS)
def test_small_odd_and_long_grids(name, shape, sides):
    check(name, shape, sides)


@pytest.mark.slow
@pytest.mark.parametrize("sides", SIDES[:2], ids=str)
@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("name", EQUATIONS)
def test_grids_on_which_the_corrector_serves(name, shape, sides):
    check(name, shape, sides)


@pytest.mark.parametrize("sides", SIDES[:2], ids=str)
def test_methods_of_scipy_and_pyamg_take_the_linear_operator(sides):
    solver = ns.load("poisson")
    inputs = Problem.random(solver.equation, 30, seed=2).inputs
    problem = Problem(solver.equation, inputs, sides=sides)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    inverse, right = solver.preconditioner(problem, linear=True), np.ones(problem.grid.size)
    answers = [
        cg(matrix, right, rtol=1e-9, M=inverse),
        gmres(matrix, right, rtol=1e-9, M=inverse),
    ]
    pyamg = pytest.importorskip("pyamg")
    answers += [
        pyamg.krylov.cg(-matrix, -right, M=-inverse, tol=1e-9),
        pyamg.krylov.fgmres(matrix, right, M=inverse, tol=1e-9, maxiter=20),
    ]
    for u, info in answers:
        assert info == 0
        assert np.linalg.norm(matrix @ u - right) < 1e-7 * np.linalg.norm(right)
