"""The corrector that reads shapes, on shapes of families that it was not trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import gmres

import neuralsolver as ns
from benchmarks.domains import FAMILIES, fresh_problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers.direct import newton_correction
from neuralsolver.solvers.multigrid import MultigridStep, hierarchies
from neuralsolver.solvers.network_free import without_network
from neuralsolver.solvers.shapes import five_point_diagonal

SEED = 99


@pytest.fixture(scope="module")
def solver():
    torch.set_num_threads(1)
    return ns.load("shapes")


def error(solution):
    problem = solution.problem
    u = problem.first_guess()
    truth = problem.impose(u + newton_correction(problem, u))
    return float((solution.tensor - truth).norm() / truth.norm())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_every_family_is_solved_on_the_trained_grid(solver, equation, family):
    number = FAMILIES.index(family)
    drawn, problem = fresh_problem(equation, 64, number, SEED)
    assert drawn == family
    solution = solver.solve(problem, tolerance=1e-8)
    assert solution.good
    assert int(solution.steps[0]) <= 40
    assert "remarks" not in solution.notes
    assert error(solution) < 1e-6
    bare = without_network(solver).solve(problem, tolerance=1e-8)
    assert int(solution.steps[0]) <= int(bare.steps[0])


def test_without_its_network_most_shapes_take_much_longer(solver):
    problem = fresh_problem("poisson", 64, 3, SEED)[1]
    taken = [
        int(s.solve(problem, tolerance=1e-8).steps[0]) for s in (solver, without_network(solver))
    ]
    assert taken[1] > 3 * taken[0]


def test_cycles_do_not_grow_with_the_grid(solver):
    steps = {
        n: max(
            int(solver.solve(fresh_problem("poisson", n, i, SEED)[1], tolerance=1e-8).steps[0])
            for i in (0, 1, 5)
        )
        for n in (128, 256)
    }
    assert steps[256] <= 1.5 * steps[128]
    assert steps[128] <= 30


def test_a_batch_is_what_its_samples_are(solver):
    problems = [fresh_problem("darcy", 64, i, SEED)[1] for i in range(3)]
    known = ns.FixedValues(
        torch.cat([p.fixed.mask for p in problems]), torch.cat([p.fixed.values for p in problems])
    )
    together = ns.Problem(ns.Darcy(), torch.cat([p.inputs for p in problems]), fixed=known)
    solution = solver.solve(together, tolerance=1e-9)
    assert solution.good
    for index, problem in enumerate(problems):
        alone = solver.solve(problem, tolerance=1e-9)
        assert int(alone.steps[0]) == int(solution.steps[index])
        assert torch.allclose(alone.tensor[0], solution.tensor[index], rtol=1e-6, atol=1e-9)


def test_its_preconditioner_is_linear_and_scipy_takes_it(solver):
    _, problem = fresh_problem("darcy", 100, 0, SEED)
    operator = solver.preconditioner(problem)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, operator.shape[0]))
    together, apart = operator @ (2 * a - b), 2 * (operator @ a) - operator @ b
    assert np.linalg.norm(together - apart) < 1e-4 * np.linalg.norm(apart)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    right = matrix @ a
    # cycles are rounded to float32: a restart is the refinement that removes it
    u, failed = gmres(matrix, right, M=operator, rtol=1e-8, restart=8, maxiter=4)
    assert not failed
    assert np.linalg.norm(matrix @ u - right) < 1e-6 * np.linalg.norm(right)


def test_a_gradient_through_a_shape(solver):
    _, problem = fresh_problem("darcy", 64, 0, SEED)
    a = problem.inputs.clone().requires_grad_(True)
    u = solver.solve(ns.Problem(ns.Darcy(), a, fixed=problem.fixed), tolerance=1e-10).tensor
    (gradient,) = torch.autograd.grad(u.sum(), a)
    direction = torch.rand_like(problem.inputs)
    ends = [
        ns.load("darcy")
        .solve(
            ns.Problem(ns.Darcy(), problem.inputs + t * direction, fixed=problem.fixed),
            tolerance=1e-12,
        )
        .tensor.sum()
        for t in (-1e-4, 1e-4)
    ]
    measured = float(ends[1] - ends[0]) / 2e-4
    assert float((gradient * direction).sum()) == pytest.approx(measured, rel=1e-4)


def test_what_it_cannot_read_is_named(solver):
    nonlinear = ns.Problem.random(ns.Helmholtz(nonlinearity=1.0), 64)
    with pytest.raises(InvalidInput, match="a linear equation between walls"):
        solver.solve(nonlinear)
    small = solver.solve(ns.Problem.random(ns.Poisson(), 32))
    assert small.good
    assert "needs 64 points" in small.summary()


def test_the_diagonal_of_five_points_is_itself_and_of_nine_what_acts_alike():
    problem = ns.Problem.random(ns.Darcy(), 32, seed=1)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    places = np.arange(32 * 32).reshape(32, 32)[1:-1, 1:-1].ravel()
    assert np.allclose(five_point_diagonal(matrix, (32, 32), places), matrix.diagonal())
    seen = []

    class Look:
        points = 33

        def __call__(self, matrix, shape, places):
            seen.append((five_point_diagonal(matrix, shape, places), shape))
            return lambda r: 0 * r

    poisson = ns.Problem.random(ns.Poisson(), 65)
    (cycle,) = hierarchies(poisson, Look())
    (diagonal, shape) = seen[0]
    assert shape == (33, 33)
    assert len(cycle.levels) == 1
    middle = diagonal.reshape(31, 31)[3:-3, 3:-3]
    # the Laplacian of twice the spacing, summed over four times the points
    assert np.allclose(middle, -4.0 * 64**2, rtol=1e-6)


def test_a_cycle_with_nothing_below_still_smooths():
    class Nothing:
        points = 33

        def __call__(self, matrix, shape, places):
            return lambda r: 0 * r

    problem = ns.Problem.random(ns.Poisson(), 65)
    r = problem.residual(problem.zeros())
    e = MultigridStep(problem, Nothing()).inverse(problem.grid, r)
    assert float(problem.residual(problem.zeros() - e).norm()) < float(r.norm())
