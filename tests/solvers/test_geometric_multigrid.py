"""Multigrid: cycles that do not depend on the grid, for matrices of every kind of box."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import cg, spsolve

from neuralsolver.solvers.geometric_multigrid import Axis, Multigrid


def second_difference(n, ring=False):
    h = 1 / (n if ring else n - 1)
    inner = n if ring else n - 2
    off = np.ones(inner - 1)
    matrix = sparse.diags_array([-off, 2 * np.ones(inner), -off], offsets=[-1, 0, 1]).tolil()
    if ring:
        matrix[0, -1] = matrix[-1, 0] = -1
    axis = Axis(h * np.arange(n), 1.0 if ring else 0.0, (not ring, not ring))
    return matrix.tocsr() / h**2, axis


def laplacian(*lines):
    matrix, *rest = (line[0] for line in lines)
    for other in rest:
        size, own = matrix.shape[0], other.shape[0]
        matrix = sparse.kron(matrix, sparse.eye_array(own)) + sparse.kron(
            sparse.eye_array(size), other
        )
    return sparse.csr_array(matrix), [line[1] for line in lines]


def iterations(matrix, axes, free):
    """Conjugate gradients to ten digits with a cycle, and whether the answer is right."""
    cycle = Multigrid(matrix, axes, free)
    right = np.where(free, np.random.default_rng(0).standard_normal(len(free)), 0.0)
    count = []
    operator = sparse.linalg.LinearOperator(matrix.shape, lambda r: cycle.solve(r.ravel()))
    kept = np.flatnonzero(free)
    held = sparse.diags_array(np.where(free, 1.0, 0.0))
    struck = sparse.csr_array(held @ matrix @ held + sparse.diags_array(1.0 - free))
    found, info = cg(struck, right, rtol=1e-10, M=operator, callback=count.append)
    assert info == 0
    exact = spsolve(matrix[kept][:, kept].tocsc(), right[kept])
    assert np.linalg.norm(found[kept] - exact) < 1e-7 * np.linalg.norm(exact)
    return len(count)


@pytest.mark.parametrize("points", [33, 64, 130])
@pytest.mark.parametrize("ring", [False, True])
def test_as_few_cycles_on_every_grid(points, ring):
    matrix, axes = laplacian(second_difference(points), second_difference(points - 5, ring))
    assert iterations(matrix, axes, np.ones(matrix.shape[0], bool)) <= 9


def test_three_dimensions():
    matrix, axes = laplacian(*(second_difference(n) for n in (18, 17, 21)))
    assert iterations(matrix, axes, np.ones(matrix.shape[0], bool)) <= 9


@pytest.mark.parametrize("kind", ["slit", "disk", "dust", "comb"])
def test_shapes(kind):
    n = 96
    matrix, axes = laplacian(second_difference(n), second_difference(n))
    i, j = np.meshgrid(np.arange(n - 2), np.arange(n - 2), indexing="ij")
    known = {
        "slit": (i == 40) & (j < 70),
        "disk": (i - 47) ** 2 + (j - 47) ** 2 > 1200,
        "dust": np.random.default_rng(1).random(i.shape) < 0.02,
        "comb": (i % 3 == 1) & (j > 10) & (j < 80),  # gaps of two points
    }[kind]
    assert iterations(matrix, axes, ~known.ravel()) <= 14


def test_a_stretched_grid_is_made_square_first():
    across, axis = second_difference(64)
    along, _ = second_difference(65)
    long = (along / 100, Axis(10 * np.linspace(0, 1, 65)))
    matrix, axes = laplacian(long, (across, axis))
    assert iterations(matrix, axes, np.ones(matrix.shape[0], bool)) <= 10


def test_a_cycle_is_symmetric_and_serves_many_columns():
    matrix, axes = laplacian(second_difference(40), second_difference(40))
    cycle = Multigrid(matrix, axes, np.ones(matrix.shape[0], bool))
    x, y = np.random.default_rng(0).standard_normal((2, matrix.shape[0]))
    assert x @ cycle.solve(y) == pytest.approx(y @ cycle.solve(x), rel=1e-4)
    both = cycle.solve(np.stack([x, 1e-30 * y], 1))
    np.testing.assert_allclose(both[:, 0], cycle.solve(x), rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(both[:, 1], 1e-30 * cycle.solve(y), rtol=1e-3, atol=1e-37)
