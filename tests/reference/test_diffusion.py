"""Darcy solves: against the assembled matrix, exact solutions, high contrast, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import spsolve

from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.reference import cosine_field, solve_darcy, solve_shifted_laplacian, two_phase
from neuralsolver.reference.diffusion import FluxForm


def flux_matrix(permeability: np.ndarray) -> sparse.csc_matrix:
    """−∇·(a∇·) with arithmetic face means on the interior, compressed by columns."""
    n = len(permeability)
    numbers = np.full((n, n), -1)
    numbers[1:-1, 1:-1] = np.arange((n - 2) ** 2).reshape(n - 2, n - 2)
    rows, columns, values = [], [], []
    for axis in (0, 1):
        a, index = np.moveaxis(permeability, axis, 0), np.moveaxis(numbers, axis, 0)
        face = (0.5 * (n - 1) ** 2 * (a[1:] + a[:-1])).ravel()
        here, there = index[1:].ravel(), index[:-1].ravel()
        for p, q, weight in ((here, here, face), (there, there, face), (here, there, -face)):
            inside = (p >= 0) & (q >= 0)
            rows.append(p[inside])
            columns.append(q[inside])
            values.append(weight[inside])
            if weight is not face:
                rows.append(q[inside])
                columns.append(p[inside])
                values.append(weight[inside])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.coo_matrix(entries, shape=((n - 2) ** 2,) * 2).tocsc()


def media(n: int, count: int, low: float = 3.0, high: float = 12.0, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return two_phase(np.stack([cosine_field(generator, n) for _ in range(count)]), low, high)


def relative_residual(a: np.ndarray, u: np.ndarray, f: np.ndarray) -> float:
    """Independent of the solver: fluxes written out with slices of the full grid."""
    h = 1.0 / (len(a) - 1)
    east = 0.5 * (a[1:, 1:-1] + a[:-1, 1:-1]) * np.diff(u[:, 1:-1], axis=0) / h
    north = 0.5 * (a[1:-1, 1:] + a[1:-1, :-1]) * np.diff(u[1:-1], axis=1) / h
    residual = np.diff(east, axis=0) / h + np.diff(north, axis=1) / h + f[1:-1, 1:-1]
    return float(np.linalg.norm(residual) / np.linalg.norm(f[1:-1, 1:-1]))


@pytest.mark.parametrize("n", [4, 5, 33, 64, 128])
def test_equals_the_sparse_direct_solve(n: int) -> None:
    a = media(n, 1)
    answer = solve_darcy(a, 100.0, tolerance=1e-13 if n < 100 else 1e-12)
    expected = spsolve(flux_matrix(a[0]), np.full((n - 2) ** 2, 100.0))
    difference = np.linalg.norm(answer.u[0, 1:-1, 1:-1].ravel() - expected)
    assert difference <= 1e-11 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("n", "low", "high", "most"), [(128, 3, 12, 27), (256, 3, 12, 28), (64, 0.01, 1, 90)]
)
def test_residual_and_iterations(n: int, low: float, high: float, most: int) -> None:
    a = media(n, 1, low, high)
    answer = solve_darcy(a, 100.0)
    reached = relative_residual(a[0], answer.u[0], np.full((n, n), 100.0))
    assert reached <= 1e-10
    assert answer.relative_residual[0] == pytest.approx(reached, rel=0.05)
    assert 10 < answer.iterations[0] <= most


def test_contrast_100_at_512() -> None:
    a = media(512, 1, 0.01, 1.0)
    answer = solve_darcy(a, 1.0)
    assert relative_residual(a[0], answer.u[0], np.ones((512, 512))) <= 1e-10


def test_second_order_on_a_manufactured_solution() -> None:
    errors = []
    for n in (17, 33, 65, 129):
        x = np.linspace(0, 1, n)[:, None]
        y = x.T
        a = 2 + np.sin(2 * x) * y
        sx, sy = np.sin(np.pi * x), np.sin(2 * np.pi * y)
        u = sx * sy
        u_x, u_y = np.pi * np.cos(np.pi * x) * sy, 2 * np.pi * sx * np.cos(2 * np.pi * y)
        f = 5 * np.pi**2 * a * u - 2 * np.cos(2 * x) * y * u_x - np.sin(2 * x) * u_y
        errors.append(np.abs(solve_darcy(a[None], f[None]).u[0] - u).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 2.0) < 0.05).all()


def test_constant_permeability_is_poisson() -> None:
    f = cosine_field(np.random.default_rng(0), 40)[None]
    found = solve_darcy(np.full((1, 40, 40), 7.0), f, tolerance=1e-13)
    np.testing.assert_allclose(found.u, solve_shifted_laplacian(-f / 7.0, 0.0), atol=1e-13)
    assert found.iterations[0] <= 4


@pytest.mark.parametrize("n", [33, 128])
def test_a_sample_has_the_same_bits_alone_and_in_a_batch(n: int) -> None:
    a = media(n, 16 if n < 100 else 4)
    batch = solve_darcy(a, 100.0)
    for i in range(len(a)):
        alone = solve_darcy(a[i : i + 1], np.full((1, n, n), 100.0))
        assert batch.u[i].tobytes() == alone.u[0].tobytes()
        assert batch.iterations[i] == alone.iterations[0]


@given(st.integers(3, 20), st.integers(0, 1000), st.floats(-8, 8), st.floats(-8, 8))
@settings(max_examples=30, deadline=None)
def test_units_of_permeability_and_source_do_not_matter(
    n: int, seed: int, log_a: float, log_f: float
) -> None:
    """u scales like f/a over sixteen orders of magnitude: the float32 inside never shows."""
    generator = np.random.default_rng(seed)
    a, f = np.exp(generator.standard_normal((1, n, n))), generator.standard_normal((1, n, n))
    plain = solve_darcy(a, f, tolerance=1e-12).u
    scaled = solve_darcy(10.0**log_a * a, 10.0**log_f * f, tolerance=1e-12).u
    size = np.abs(plain).max()
    np.testing.assert_allclose(scaled * 10.0 ** (log_a - log_f), plain, atol=1e-9 * size)


@given(st.integers(3, 16), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_flux_form_is_the_assembled_matrix_and_symmetric(n: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a = np.exp(generator.standard_normal((n, n)))
    u = generator.standard_normal((n - 2, n - 2))
    expected = flux_matrix(a) @ u.ravel()
    np.testing.assert_allclose(FluxForm(a)(u).ravel(), expected, rtol=1e-10, atol=1e-8)


def test_zero_source_and_positivity() -> None:
    a = media(33, 1)
    assert not solve_darcy(a, 0.0).u.any()
    assert (solve_darcy(a, 100.0).u[0, 1:-1, 1:-1] > 0).all()


def test_failures_are_said() -> None:
    a = media(33, 1)
    with pytest.raises(ReferenceFailure, match=r"relative residual .* not the requested"):
        solve_darcy(a, 100.0, tolerance=1e-18)
    negative = a.copy()
    negative[0, 4, 4] = 0.0
    for medium, source, tolerance, field in [
        (negative, 1.0, 1e-10, "permeability"),
        (a[0], 1.0, 1e-10, "permeability"),
        (a, np.ones((1, 8, 8)), 1e-10, "source"),
        (a, np.inf, 1e-10, "source"),
        (a, 1.0, 0.0, "tolerance"),
    ]:
        with pytest.raises(InvalidInput, match=f"^{field}: expected"):
            solve_darcy(medium, np.asarray(source), tolerance=tolerance)
