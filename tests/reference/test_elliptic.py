"""Sine-transform solves: against sparse direct solves, exact solutions and their own residual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import spsolve

from neuralsolver.errors import InvalidInput
from neuralsolver.reference import (
    cosine_field,
    smallest_singular_value,
    solve_shifted_laplacian,
)
from neuralsolver.reference.transforms import FAST_TRANSFORM_FROM, sine_transform


def matrix(n: int, shift: float):  # type: ignore[no-untyped-def]
    m = n - 2
    second = sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(m, m)) * (n - 1) ** 2
    eye = sparse.eye(m)
    return (sparse.kron(second, eye) + sparse.kron(eye, second) + shift * sparse.eye(m * m)).tocsc()


def laplacian(values: np.ndarray) -> np.ndarray:
    """The 5-point Laplacian of interior point values (m, m), by differences."""
    padded = np.pad(values, 1)
    second: np.ndarray = np.diff(padded, 2, axis=0)[:, 1:-1] + np.diff(padded, 2, axis=1)[1:-1]
    return second * (len(values) + 1) ** 2


def fields(n: int, count: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return 100.0 * np.stack([cosine_field(generator, n) for _ in range(count)])


@pytest.mark.parametrize("n", [3, 4, 5, 32, 33, 64, 128])
@pytest.mark.parametrize("shift", [0.0, 1.0, 9.0, 30.0, -50.0])
def test_equals_the_sparse_direct_solve(n: int, shift: float) -> None:
    source = fields(n, 1)
    u = solve_shifted_laplacian(source, shift)[0]
    expected = spsolve(matrix(n, shift), source[0, 1:-1, 1:-1].ravel())
    found = u[1:-1, 1:-1].ravel()
    assert np.linalg.norm(found - expected) <= 1e-11 * np.linalg.norm(expected)


@pytest.mark.parametrize("n", [128, FAST_TRANSFORM_FROM - 1, FAST_TRANSFORM_FROM, 257])
def test_residual_is_round_off_on_both_transforms(n: int) -> None:
    source = fields(n, 1)
    u = solve_shifted_laplacian(source, 9.0)[0, 1:-1, 1:-1]
    residual = laplacian(u) + 9.0 * u - source[0, 1:-1, 1:-1]
    round_off = np.finfo(float).eps * 8 * (n - 1) ** 2 * np.abs(u).max()
    assert np.abs(residual).max() < 10 * round_off


@pytest.mark.parametrize("shift", [0.0, 9.0, -20.0])
def test_second_order_on_a_manufactured_solution(shift: float) -> None:
    errors = []
    for n in (17, 33, 65, 129):
        x = np.linspace(0, 1, n)
        one, bump = x * (1 - x) * np.exp(x), np.sin(2 * np.pi * x)
        one_xx = -np.exp(x) * x * (x + 3)
        u = one[:, None] * bump
        source = one_xx[:, None] * bump - 4 * np.pi**2 * u + shift * u
        errors.append(np.abs(solve_shifted_laplacian(source[None], shift)[0] - u).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 2.0) < 0.05).all()


def test_the_transform_is_its_own_inverse_and_orthonormal() -> None:
    for shape in [(n - 2, n - 2) for n in (4, 5, 64, 65, 257)] + [(11, 11, 11)]:
        x = np.random.default_rng(0).standard_normal(shape)
        y = sine_transform(x)
        np.testing.assert_allclose(sine_transform(y), x, atol=1e-13)
        assert np.linalg.norm(y) == pytest.approx(np.linalg.norm(x), rel=1e-13)


def test_known_conditioning_numbers() -> None:
    expected = {0.0: 19.74, 1.0: 18.74, 3.0: 10.74, 4.0: 3.74, 4.4: 0.378, 5.0: 5.26}
    for wavenumber, value in expected.items():
        found = smallest_singular_value(128, wavenumber**2)
        assert found == pytest.approx(value, abs=5e-3)
    dense = np.linalg.svd(matrix(10, 25.0).toarray(), compute_uv=False)
    assert smallest_singular_value(10, 25.0) == pytest.approx(dense.min(), rel=1e-10)


@pytest.mark.parametrize("n", [17, 64, 128, 257])
def test_a_sample_has_the_same_bits_alone_and_in_a_batch(n: int) -> None:
    source = fields(n, 16 if n < 200 else 3)
    batch = solve_shifted_laplacian(source, 4.0)
    for i in range(len(source)):
        assert batch[i].tobytes() == solve_shifted_laplacian(source[i : i + 1], 4.0)[0].tobytes()


@given(st.integers(3, 24), st.floats(-100, 15), st.integers(0, 1000), st.floats(-3, 3))
@settings(max_examples=40, deadline=None)
def test_linear_exact_and_deaf_to_the_ring(n: int, shift: float, seed: int, c: float) -> None:
    f, g = np.random.default_rng(seed).standard_normal((2, 1, n, n))
    u, v = solve_shifted_laplacian(f, shift), solve_shifted_laplacian(g, shift)
    both = solve_shifted_laplacian(f + c * g, shift)
    np.testing.assert_allclose(both, u + c * v, atol=1e-12)
    interior = u[0, 1:-1, 1:-1]
    residual = laplacian(interior) + shift * interior - f[0, 1:-1, 1:-1]
    assert np.abs(residual).max() < 1e-10
    ring = np.ones((n, n), dtype=bool)
    ring[1:-1, 1:-1] = False
    assert not u[0][ring].any()
    f[0][ring] = 1e6
    assert solve_shifted_laplacian(f, shift).tobytes() == u.tobytes()


@given(st.integers(4, 20), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_symmetries_of_the_square(n: int, seed: int) -> None:
    f = np.random.default_rng(seed).standard_normal((1, n, n))
    u = solve_shifted_laplacian(f, 3.0)[0]
    for symmetry in (np.transpose, np.flipud, np.rot90):
        moved = solve_shifted_laplacian(symmetry(f[0])[None], 3.0)[0]
        np.testing.assert_allclose(moved, symmetry(u), atol=1e-13)


def test_bad_input_is_named() -> None:
    resonant = smallest_singular_value(32, 0.0)
    good = np.zeros((1, 32, 32))
    bad = good.copy()
    bad[0, 3, 3] = np.nan
    for source, shift, field in [
        (good, resonant, "shift"),
        (good, resonant * (1 + 4e-16), "shift"),
        (good, np.nan, "shift"),
        (bad, 0.0, "source"),
        (good[0], 0.0, "source"),
        (np.zeros((1, 8, 9)), 0.0, "source"),
        (np.zeros((1, 2, 2)), 0.0, "resolution"),
    ]:
        with pytest.raises(InvalidInput, match=f"^{field}: expected .*, got "):
            solve_shifted_laplacian(source, shift)
