"""Nonlinear Helmholtz: the branch from zero, all of it and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

from neuralsolver.errors import InvalidInput
from neuralsolver.reference import (
    cosine_field,
    solve_semilinear_helmholtz,
    solve_shifted_laplacian,
)
from neuralsolver.reference.elliptic import smallest_singular_value
from neuralsolver.reference.semilinear import Branch, minres
from tests.reference.test_elliptic import laplacian, matrix


def fields(n: int, count: int, amplitude: float, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return amplitude * np.stack([cosine_field(generator, n) for _ in range(count)])


def residual(u: np.ndarray, f: np.ndarray, wavenumber: float, nonlinearity: float) -> np.ndarray:
    v = u[1:-1, 1:-1]
    value: np.ndarray = laplacian(v) + wavenumber**2 * v + nonlinearity * v**3 - f[1:-1, 1:-1]
    return value


@pytest.mark.parametrize(
    ("n", "wavenumber", "nonlinearity", "amplitude"),
    [(32, 2, 1, 100), (33, 3, 4, 50), (64, 3, 4, 50), (32, 2, -4, 100), (32, 5, 1, 50)],
)
def test_equals_newton_with_sparse_solves(
    n: int, wavenumber: float, nonlinearity: float, amplitude: float
) -> None:
    f = fields(n, 2, amplitude)
    answer = solve_semilinear_helmholtz(f, wavenumber, nonlinearity)
    assert answer.converged.all()
    assert answer.reasons == ("", "")
    linear = matrix(n, wavenumber**2)
    for i in range(2):
        u = np.zeros((n - 2) ** 2)
        right = f[i, 1:-1, 1:-1].ravel()
        for _ in range(15):
            step = linear @ u + nonlinearity * u**3 - right
            u -= spsolve(linear + sparse.diags(3 * nonlinearity * u**2, format="csc"), step)
        found = answer.u[i, 1:-1, 1:-1].ravel()
        assert np.linalg.norm(found - u) <= 1e-11 * np.linalg.norm(u)
        assert 1 <= answer.iterations[i] <= 8
        assert answer.relative_residual[i] <= 1e-13


@pytest.mark.parametrize("n", [128, 257])
def test_residual_is_round_off(n: int) -> None:
    f = fields(n, 1, 50)
    answer = solve_semilinear_helmholtz(f, 3.0, 4.0)
    round_off = np.finfo(float).eps * 8 * (n - 1) ** 2 * np.abs(answer.u).max()
    assert np.abs(residual(answer.u[0], f[0], 3.0, 4.0)).max() < 10 * round_off


def test_second_order_on_a_manufactured_solution() -> None:
    errors = []
    for n in (17, 33, 65, 129):
        x = np.linspace(0, 1, n)
        u = 0.8 * np.sin(np.pi * x)[:, None] * np.sin(2 * np.pi * x)
        f = (4.0 - 5 * np.pi**2) * u + 2.0 * u**3
        errors.append(np.abs(solve_semilinear_helmholtz(f[None], 2.0, 2.0).u[0] - u).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 2.0) < 0.05).all()


def test_without_nonlinearity_it_is_the_linear_solve() -> None:
    f = fields(40, 2, 100)
    answer = solve_semilinear_helmholtz(f, 3.0, 0.0)
    np.testing.assert_allclose(answer.u, solve_shifted_laplacian(f, 9.0), atol=1e-14)
    assert not answer.iterations.any()


@pytest.mark.parametrize(
    ("amplitude", "fewest", "most"), [(30, 0, 0), (50, 0, 3), (70, 3, 13), (100, 10, 21)]
)
def test_rejections_grow_with_the_amplitude(amplitude: float, fewest: int, most: int) -> None:
    """Facts 12: of 30 fields at κ = 3, λ = 4 none, 1, 6 and 15 have no solution."""
    answer = solve_semilinear_helmholtz(fields(32, 30, amplitude), 3.0, 4.0)
    rejected = ~answer.converged
    assert fewest <= rejected.sum() <= most
    assert not answer.u[rejected].any()
    assert all(
        ("fold" in reason) == bad for reason, bad in zip(answer.reasons, rejected, strict=True)
    )


def test_the_unshifted_regime_never_fails() -> None:
    assert solve_semilinear_helmholtz(fields(32, 30, 100), 2.0, 1.0).converged.all()


def brute_force(f: np.ndarray, wavenumber: float, nonlinearity: float) -> np.ndarray | None:
    """400 load steps of dense Newton; None once the inertia of J changes or Newton fails."""
    n = len(f)
    dense = matrix(n, wavenumber**2).toarray()
    right, u = f[1:-1, 1:-1].ravel(), np.zeros((n - 2) ** 2)
    positive = (np.linalg.eigvalsh(dense) > 0).sum()
    for load in np.linspace(0, 1, 401)[1:]:
        for _ in range(6):
            value = dense @ u + nonlinearity * u**3 - load * right
            u = u - np.linalg.solve(dense + np.diag(3 * nonlinearity * u**2), value)
        value = dense @ u + nonlinearity * u**3 - load * right
        spectrum = np.linalg.eigvalsh(dense + np.diag(3 * nonlinearity * u**2))
        small = np.linalg.norm(value) < 1e-8 * np.linalg.norm(right)
        if not (small and (spectrum > 0).sum() == positive):
            return None
    return u


@pytest.mark.parametrize(
    ("wavenumber", "amplitude", "seed"), [(3.0, 100, 2), (6.0, 50, 0), (5.0, 80, 1)]
)
def test_answers_exactly_the_fields_whose_branch_does_not_fold(
    wavenumber: float, amplitude: float, seed: int
) -> None:
    """Below the first resonance, where there is a proof, and above it, where there is none."""
    f = fields(9, 12, amplitude, seed)
    expected = [brute_force(sample, wavenumber, 4.0) for sample in f]
    answer = solve_semilinear_helmholtz(f, wavenumber, 4.0)
    assert answer.converged.tolist() == [u is not None for u in expected]
    assert 0 < answer.converged.sum() < len(f)
    for found, u in zip(answer.u, expected, strict=True):
        if u is not None:
            np.testing.assert_allclose(found[1:-1, 1:-1].ravel(), u, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("wavenumber", "nonlinearity"), [(0.0, 1.0), (3.0, 4.0), (4.4, 1.0)])
def test_the_certificate_is_the_sign_of_the_eigenvalue(
    wavenumber: float, nonlinearity: float, seed: int
) -> None:
    """Fields u scaled to either side of the boundary of D, found by dense eigenvalues."""
    generator = np.random.default_rng(seed)
    u = cosine_field(generator, 14)
    branch = Branch(u, wavenumber, nonlinearity)
    dense = matrix(14, wavenumber**2).toarray()
    potential = np.diag(3 * nonlinearity * u[1:-1, 1:-1].ravel() ** 2)
    # −L − s²P is singular for the largest s⁻² among the eigenvalues of (−L)⁻¹P.
    critical = np.max(np.linalg.eigvals(np.linalg.solve(-dense, potential)).real) ** -0.5
    for scale, inside in [(0.5, True), (0.99, True), (1.01, False), (1.5, False), (4.0, False)]:
        values = scale * critical * u[1:-1, 1:-1]
        y = branch.energy(values) / branch.weight**2
        np.testing.assert_allclose(branch.points(y), values, atol=1e-9 * np.abs(values).max())
        assert branch.on_branch(y) is inside


def test_newton_converges_to_another_solution_and_is_not_believed() -> None:
    f = fields(16, 1, 70, seed=109)
    linear = matrix(16, 9.0)
    right = f[0, 1:-1, 1:-1].ravel()
    u = spsolve(linear, right)
    for _ in range(30):
        step = linear @ u + 4.0 * u**3 - right
        u -= spsolve(linear + sparse.diags(12.0 * u**2, format="csc"), step)
    assert np.linalg.norm(linear @ u + 4.0 * u**3 - right) < 1e-9 * np.linalg.norm(right)
    assert np.linalg.eigvalsh(linear.toarray() + np.diag(12.0 * u**2))[-1] > 0
    answer = solve_semilinear_helmholtz(f, 3.0, 4.0)
    assert not answer.converged[0]
    assert not answer.u.any()


def test_a_second_solution_is_not_mistaken_for_the_branch() -> None:
    """Accepted solutions have a negative definite Jacobian, even just below the fold."""
    f = fields(12, 1, 100, seed=2)[0]
    low, high = 0.0, 3.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        exists = solve_semilinear_helmholtz(middle * f[None], 3.0, 4.0).converged[0]
        low, high = (middle, high) if exists else (low, middle)
    assert 0.01 < low < 2.9
    u = solve_semilinear_helmholtz(low * f[None], 3.0, 4.0).u[0, 1:-1, 1:-1].ravel()
    top = np.linalg.eigvalsh(matrix(12, 9.0).toarray() + np.diag(12 * u**2))[-1]
    # An eigenvalue that vanishes at the fold and was −10.7 at u = 0.
    assert -2.5 < top < 0


def test_beyond_the_first_resonance_the_branch_is_continuous_in_the_load() -> None:
    f = fields(32, 1, 60, seed=4)
    loads = np.linspace(0.05, 1.0, 20)
    answer = solve_semilinear_helmholtz(loads[:, None, None] * f, 5.0, 1.0)
    assert answer.converged.all()
    jumps = np.linalg.norm(np.diff(answer.u, axis=0), axis=(1, 2))
    assert jumps.max() < 3.0 * jumps.min()
    for u, load in zip(answer.u, loads, strict=True):
        assert np.abs(residual(u, load * f[0], 5.0, 1.0)).max() < 1e-10


@pytest.mark.parametrize("n", [32, 65])
def test_a_sample_has_the_same_bits_alone_and_in_a_batch(n: int) -> None:
    f = fields(n, 16 if n == 32 else 4, 70)
    batch = solve_semilinear_helmholtz(f, 3.0, 4.0)
    for i in range(len(f)):
        alone = solve_semilinear_helmholtz(f[i : i + 1], 3.0, 4.0)
        assert batch.u[i].tobytes() == alone.u[0].tobytes()
        assert batch.iterations[i] == alone.iterations[0]


def test_odd_symmetry_and_zero() -> None:
    f = fields(32, 1, 50)
    plus, minus = (solve_semilinear_helmholtz(s * f, 3.0, 4.0).u for s in (1, -1))
    np.testing.assert_array_equal(plus, -minus)
    nothing = solve_semilinear_helmholtz(0 * f, 3.0, 4.0)
    assert nothing.converged.all()
    assert not nothing.u.any()


@pytest.mark.parametrize("amplitude", [1e9, 1e100, 1e200])
def test_absurd_sources_are_rejected_without_nan(amplitude: float) -> None:
    answer = solve_semilinear_helmholtz(fields(16, 1, amplitude), 3.0, 4.0)
    assert not answer.converged.any()
    assert not answer.u.any()


def test_bad_input_is_named() -> None:
    f = fields(16, 1, 1)
    for source, wavenumber, nonlinearity, field in [
        (f[0], 1.0, 1.0, "source"),
        (f * np.nan, 1.0, 1.0, "source"),
        (f, np.inf, 1.0, "wavenumber"),
        (f, 1.0, np.nan, "nonlinearity"),
        (f, np.sqrt(smallest_singular_value(16, 0.0)), 1.0, "shift"),
    ]:
        with pytest.raises(InvalidInput, match=f"^{field}: expected"):
            solve_semilinear_helmholtz(source, wavenumber, nonlinearity)


def test_minres_on_an_indefinite_matrix() -> None:
    generator = np.random.default_rng(0)
    square = generator.standard_normal((60, 60))
    symmetric = square + square.T
    right = generator.standard_normal(60)
    x = minres(lambda v: symmetric @ v, right, 1e-10, 200)
    assert x is not None
    assert np.linalg.norm(symmetric @ x - right) <= 2e-10 * np.linalg.norm(right)
    assert minres(lambda v: symmetric @ v, right, 1e-10, 5) is None
