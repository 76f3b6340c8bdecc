"""The discretised wave equation, its factors, its Newton methods and its network."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from benchmarks.waves import WaveFamily
from neuralsolver.data.wave_media import FAMILIES, random_medium
from neuralsolver.errors import InvalidInput
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.solvers.sparse_lu import SingularMatrix, SparseLU, nested_dissection
from neuralsolver.solvers.wave_newton import anderson, damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import WaveOperator, inner, norm, real_solve
from neuralsolver.solvers.wave_solver import features, solve_waves

SMALL = WaveFamily(points=32, strength=(0.1, 0.1))


def manufactured(points: int, order: int) -> float:
    """Error of the solution for a source made for a known wave in a smooth medium."""
    x, y = np.meshgrid(*[np.linspace(0, 1, points)] * 2, indexing="ij")
    k, strength = 9.0, 0.3
    shape = np.sin(math.pi * x) * np.sin(2 * math.pi * y)
    u = shape * np.exp(2j * x)
    laplacian = (-5 * math.pi**2 - 4) * u
    laplacian = laplacian + 4j * math.pi * np.cos(math.pi * x) * np.sin(2 * math.pi * y) * np.exp(
        2j * x
    )
    slowness = 1 + 0.2 * np.cos(math.pi * x) * y
    source = -laplacian - k**2 * slowness**2 * (1 + strength * np.abs(u) ** 2) * u
    problem = WaveOperator(slowness, source, k, strength, order, layer=0.0)
    answer = damped_newton(problem, inner(u))
    assert answer.converged
    return float(np.abs(answer.u - inner(u)).max())


@pytest.mark.parametrize(("order", "expected"), [(2, 1.95), (4, 3.9)])
def test_order_of_the_stencils(order: int, expected: float) -> None:
    coarse, fine = manufactured(33, order), manufactured(65, order)
    assert math.log2(coarse / fine) > expected


def test_residual_against_loops_over_points() -> None:
    problem, _, linear = SMALL.draw(np.random.default_rng(0))
    problem = replace(problem, order=2)
    u, h2 = problem.embed(linear), problem.spacing**2
    medium = problem.slowness**2 * (
        1 - 2j * problem.depth**2 + problem.strength * (problem.depth == 0) * np.abs(u) ** 2
    )
    for i, j in ((5, 9), (16, 16), (30, 1)):
        second = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j]
        expected = h2 * (problem.source[i, j] + problem.wavenumber**2 * medium[i, j] * u[i, j])
        found = problem.embed(problem.residual(linear))[i, j]
        assert found == pytest.approx(expected + second, rel=1e-9, abs=1e-12)


def test_tangent_and_its_factors() -> None:
    problem, _, u = SMALL.draw(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    v = rng.standard_normal(u.size) + 1j * rng.standard_normal(u.size)
    difference = (problem.residual(u + 1e-6 * v) - problem.residual(u - 1e-6 * v)) / 2e-6
    assert norm(difference - problem.tangent(u, v)) < 1e-7 * norm(difference)
    assert norm(real_solve(problem.real_factor(u), problem.tangent(u, v)) - v) < 1e-9 * norm(v)


@pytest.mark.parametrize(("shape", "fields"), [((40,), 1), ((13, 21), 2), ((7, 8, 9), 1)])
def test_nested_dissection_is_a_permutation(shape: tuple[int, ...], fields: int) -> None:
    order = nested_dissection(shape, fields)
    assert sorted(order) == list(range(math.prod(shape) * fields))


def test_nested_dissection_fills_less_than_rows() -> None:
    problem = WaveFamily().draw(np.random.default_rng(0))[0]
    dissected = problem.complex_factor(np.zeros(62 * 62))
    factor = dissected._factor
    assert factor.L.nnz + factor.U.nnz < 0.5 * 2 * 62**3


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_solves_of_the_factor(dtype: type) -> None:
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((72, 72), density=0.1, rng=rng) + 8 * sparse.eye_array(72)
    matrix = (matrix + (1j if dtype is np.complex128 else 0) * sparse.eye_array(72)).tocsc()
    factor = SparseLU(matrix, (6, 6), fields=2)
    right = rng.standard_normal((72, 3)) + 1j * rng.standard_normal((72, 3))
    assert np.allclose(matrix @ factor.solve(right), right)
    assert np.allclose(matrix @ factor.solve(right[:, 0]), right[:, 0])
    single = SparseLU(matrix, (6, 6), fields=2, single_precision=True).solve(right[:, 0])
    assert np.allclose(matrix @ single, right[:, 0], atol=1e-4)


def test_bad_matrices_are_refused() -> None:
    with pytest.raises(InvalidInput):
        SparseLU(sparse.eye_array(9), (10,))
    with pytest.raises(SingularMatrix):
        SparseLU(sparse.csc_array((4, 4)), (4,))


def test_newton_methods_agree() -> None:
    problem, factor, linear = SMALL.draw(np.random.default_rng(3))
    answers = [
        damped_newton(problem, linear),
        newton_krylov(problem, linear),
        newton_krylov(problem, linear, preconditioner="real"),
        newton_krylov(problem, linear, preconditioner="frozen", factor=factor),
        anderson(problem, factor, linear),
    ]
    for answer in answers:
        assert answer.converged
        assert problem.relative_residual(answer.u) <= 1e-9
        assert norm(answer.u - answers[0].u) < 1e-6 * norm(answer.u)
    assert norm(answers[0].u - linear) > 0.01 * norm(linear)


def test_waves_leave_through_the_layer() -> None:
    """A point source in a uniform medium: amplitudes are those of a larger box."""
    amplitudes = []
    for points in (65, 129):
        source = np.zeros((points, points), complex)
        source[points // 2, points // 2] = 1.0
        problem = WaveOperator(np.ones((points, points)), source, math.pi / 4, 0.0, spacing=1.0)
        middle = slice(points // 2 - 15, points // 2 + 16)
        amplitudes.append(solve_waves(problem).field[middle, middle])
    assert np.abs(amplitudes[0] - amplitudes[1]).max() < 0.05 * np.abs(amplitudes[1]).max()


def test_units_do_not_matter() -> None:
    problem, _, _ = SMALL.draw(np.random.default_rng(4))
    loud = replace(problem, source=100 * problem.source, strength=problem.strength / 1e4)
    assert np.allclose(solve_waves(loud).field, 100 * solve_waves(problem).field, atol=1e-5)


def test_answer_says_whose_it_is() -> None:
    problem, _, _ = SMALL.draw(np.random.default_rng(5))
    assert solve_waves(replace(problem, strength=0.0)).method == "sparse LU"
    assert solve_waves(replace(problem, strength=0.01)).method.startswith("Anderson")
    torch.manual_seed(0)
    harmful = WaveCorrector(width=8, multipliers=(1, 2))
    for parameter in harmful.parameters():
        torch.nn.init.normal_(parameter)
    hard, _, _ = WaveFamily(strength=(0.35, 0.35)).draw(np.random.default_rng(0))
    answer = solve_waves(hard, harmful)
    assert answer.converged
    assert answer.residual <= 1e-9
    assert answer.method.startswith("classical")


def test_too_few_points_are_remarked_on() -> None:
    problem, _, _ = SMALL.draw(np.random.default_rng(6))
    assert not solve_waves(replace(problem, strength=0.0)).remarks
    coarse = replace(problem, strength=0.0, wavenumber=2 * problem.wavenumber)
    assert "points per shortest wavelength" in solve_waves(coarse).remarks[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_media_keep_their_contrast(family: str) -> None:
    medium = random_medium(np.random.default_rng(0), 48, family, 0.4)
    assert 0.6 - 1e-12 <= medium.min() < medium.max() <= 1.0


def test_solution_turns_with_the_square_and_the_phase() -> None:
    problem, _, _ = SMALL.draw(np.random.default_rng(8))
    turned = replace(
        problem, slowness=np.rot90(problem.slowness), source=1j * np.rot90(problem.source)
    )
    expected = 1j * np.rot90(solve_waves(problem).field)
    assert np.allclose(solve_waves(turned).field, expected, atol=1e-6)


def test_features_and_odd_sizes() -> None:
    problem, factor, linear = replace(SMALL, points=37).draw(np.random.default_rng(9))
    inputs, size = features(problem, factor, linear, linear)
    assert inputs.shape == (9, 37, 37)
    assert size > 0
    network = WaveCorrector(width=8, multipliers=(1, 2))
    assert torch.equal(network(inputs[None]), torch.zeros(1, 2, 37, 37))
    with pytest.raises(InvalidInput):
        network(inputs[None, :8])
