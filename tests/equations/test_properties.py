"""Property-based tests of the residuals: shapes, batches, linearity, symmetry."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsolver.equations import EQUATIONS, Darcy, Helmholtz, NavierStokes, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import jacobian_diagonal, linearisation, sparse_jacobian

STATIC = ("poisson", "helmholtz", "nonlinear-helmholtz", "darcy")
resolutions = st.integers(8, 24)
seeds = st.integers(0, 2**32 - 1)


def field(shape, seed):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(STATIC), resolutions, st.integers(1, 4), seeds, st.booleans())
def test_shape_and_precision_are_kept(name, n, batch, seed, single):
    dtype = torch.float32 if single else torch.float64
    problem = Problem.random(EQUATIONS[name], n, batch, seed % 1000).in_precision(dtype)
    u = field((batch, 1, n, n), seed).to(dtype)
    r = problem.residual(u)
    assert (r.shape, r.dtype) == (u.shape, dtype)
    assert torch.isfinite(r).all()


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(list(EQUATIONS)), seeds)
def test_samples_do_not_see_each_other(name, seed):
    equation = EQUATIONS[name]
    problem = Problem.random(equation, 10, 3, seed % 1000)
    u = field((3, *equation.solution_shape(10)), seed)
    together = problem.residual(u)
    order = [2, 0, 1]
    permuted = problem.select(order).residual(u[order])
    assert torch.allclose(permuted, together[order], rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([Poisson(), Helmholtz(wavenumber=6.0), Darcy(), Darcy(stencil="wide")]),
    seeds,
    st.floats(-3, 3),
)
def test_linear_residuals_are_affine(equation, seed, factor):
    problem = Problem.random(equation, 12, 2, seed % 1000)
    u, v = field((2, 1, 12, 12), seed), field((2, 1, 12, 12), seed + 1)
    zero = problem.residual(torch.zeros_like(u))

    def linear(w):
        return problem.residual(w) - zero

    scale = float(linear(u).abs().max() + linear(v).abs().max())
    assert torch.allclose(
        linear(u + factor * v), linear(u) + factor * linear(v), atol=1e-12 * scale
    )


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(0, 15), st.integers(0, 15))
def test_unforced_flow_is_translation_equivariant(seed, shift_1, shift_2):
    equation = NavierStokes(forcing_amplitude=0.0, viscosity=1e-3, frames=3)
    w = field((1, 1, 4, 16, 16), seed)
    moved = torch.roll(w, (shift_1, shift_2), (-2, -1))
    r = Problem(equation, w[:, :, 0]).residual(w)
    expected = torch.roll(r, (shift_1, shift_2), (-2, -1))
    assert torch.allclose(Problem(equation, moved[:, :, 0]).residual(moved), expected, atol=1e-9)


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(0, 15))
def test_forced_flow_moves_along_its_forcing(seed, shift):
    """The diagonal wave is constant along r₁ − r₂, the Kolmogorov wave along r₁."""
    for name, shifts in (("navier-stokes", (shift, -shift)), ("kolmogorov", (shift, 0))):
        equation = dataclasses.replace(EQUATIONS[name], frames=3)
        w = field((1, 1, 4, 16, 16), seed)
        r = Problem(equation, w[:, :, 0]).residual(w)
        moved = Problem(equation, w[:, :, 0]).residual(torch.roll(w, shifts, (-2, -1)))
        assert torch.allclose(moved, torch.roll(r, shifts, (-2, -1)), atol=1e-9)


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(["poisson", "helmholtz", "nonlinear-helmholtz"]), seeds)
def test_square_symmetry(name, seed):
    """Reflecting and transposing input and solution reflects and transposes the residual."""
    problem = Problem.random(EQUATIONS[name], 11, 1, seed % 1000)
    u = field((1, 1, 11, 11), seed)
    r = problem.residual(u)
    for change in (lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.transpose(-1, -2)):
        changed = Problem(problem.equation, change(problem.inputs)).residual(change(u))
        assert torch.allclose(changed, change(r), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("stencil", ["flux", "wide"])
@pytest.mark.parametrize("name", STATIC)
def test_sparse_jacobian_is_the_derivative(name, stencil):
    equation = EQUATIONS[name]
    if name == "darcy":
        equation = Darcy(stencil=stencil)
    problem = Problem.random(equation, 13, 2, seed=5)
    u = problem.impose(field((2, 1, 13, 13), 1))
    direction = problem.impose(field((2, 1, 13, 13), 2))
    expected = linearisation(problem, u)(direction)[:, 0, 1:-1, 1:-1].flatten(1)
    for i, matrix in enumerate(sparse_jacobian(problem, u)):
        product = matrix @ direction[i, 0, 1:-1, 1:-1].flatten().numpy()
        assert np.allclose(product, expected[i].numpy(), rtol=1e-10, atol=1e-9)
        diagonal = jacobian_diagonal(problem, u)[i, 0, 1:-1, 1:-1].flatten().numpy()
        stored = matrix.diagonal()
        assert np.allclose(diagonal[stored != 0], stored[stored != 0], rtol=1e-10)


def test_newton_with_the_sparse_jacobian_solves_the_nonlinear_equation():
    problem = Problem.random(EQUATIONS["nonlinear-helmholtz"], 17, 1, seed=2)
    u = problem.zeros()
    for _ in range(8):
        r = problem.residual(u)
        (matrix,) = sparse_jacobian(problem, u)
        step = scipy.sparse.linalg.spsolve(matrix.tocsc(), -r[0, 0, 1:-1, 1:-1].flatten().numpy())
        u[0, 0, 1:-1, 1:-1] += torch.from_numpy(step).view(15, 15)
    assert float(problem.residual(u).abs().max()) < 1e-9


@pytest.mark.parametrize(
    ("build", "field_name"),
    [
        (lambda: Problem(Helmholtz(), np.full((16, 16), np.nan)), "source"),
        (lambda: Problem(NavierStokes(), np.zeros((16, 18))), "vorticity"),
        (lambda: Problem(Helmholtz(), np.zeros((16, 16), dtype=complex)), "source"),
        (lambda: Problem(Helmholtz(), np.zeros((4, 4))), "resolution"),
        (lambda: Problem(Helmholtz(), np.zeros(16)), "source"),
        (lambda: Problem(Helmholtz(), torch.zeros(16, 16, dtype=torch.complex64)), "source"),
        (lambda: Problem(Darcy(), -np.ones((16, 16))), "permeability"),
        (lambda: Problem(NavierStokes(), np.zeros((17, 17))), "resolution"),
        (lambda: Helmholtz(wavenumber=float("nan")), "wavenumber"),
        (lambda: Darcy(stencil="narrow"), "stencil"),
        (lambda: NavierStokes(viscosity=0.0), "viscosity"),
        (lambda: NavierStokes(frames=1), "frames"),
        (lambda: NavierStokes(forcing="radial"), "forcing"),
    ],
)
def test_bad_input_names_the_field(build, field_name):
    with pytest.raises(InvalidInput, match=f"{field_name}.*expected .*got"):
        build()


def test_numpy_comes_back_as_numpy_in_the_same_layout():
    source = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    for given_field, shape in ((source, (16, 16)), (source[None], (1, 16, 16))):
        problem = Problem(Poisson(), given_field, batch=given_field.ndim == 3)
        restored = problem.restore(problem.zeros())
        assert isinstance(restored, np.ndarray)
        assert restored.shape == shape
        assert restored.dtype == np.float32
    assert isinstance(
        Problem(Poisson(), torch.zeros(16, 16)).restore(torch.zeros(1, 1, 16, 16)), torch.Tensor
    )


def test_media_of_darcy_have_the_contrasts_they_say():
    mean, deviation = np.log(6.0), 1.5
    medium = {"low": np.exp(mean - deviation), "high": np.exp(mean + deviation)}
    log_normal = Problem.random(Darcy(**medium, medium="log-normal"), 32, 8, seed=1).inputs.log()
    assert torch.allclose(log_normal.mean((1, 2, 3)), torch.full((8,), mean).double())
    assert torch.allclose(log_normal.std((1, 2, 3), correction=0), torch.full((8,), 1.5).double())
    varied = Problem.random(Darcy(medium="varied"), 32, 64, seed=1).inputs.flatten(1)
    low, high = varied.amin(1), varied.amax(1)
    # all in natural units, half of them the paper's, some of much larger contrast, some smooth
    assert torch.allclose((low * high).sqrt(), torch.full((64,), 6.0).double())
    papers = torch.isclose(high / low, torch.tensor(4.0).double())
    assert 20 < int(papers.sum()) < 44
    assert float((high / low).max()) > 100
    assert max(len(field.unique()) for field in varied) > 100
    with pytest.raises(InvalidInput, match="medium"):
        Darcy(medium="sand")
