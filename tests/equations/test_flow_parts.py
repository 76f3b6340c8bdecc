"""Parts of a flow that are known in closed form: its linear part, and the modes beyond n/3."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, NavierStokes, Problem, equation_named
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers import State
from neuralsolver.solvers.error_signals import integrated_residual
from tests.exact import steady_shear, torus_grid

FLOW = NavierStokes(viscosity=1e-3, frames=6, frame_spacing=0.1, time_order=4, dealiasing="2/3")


def noise(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def beginning_at_zero(n, seed=0):
    change = noise(2, 1, 7, n, n, seed=seed)
    change[:, :, 0] = 0.0
    return change


def linear_part(equation, change):
    """∂ₜe − νΔe, taken from the residual itself: what is odd in e, for the product is even."""
    there, back = (Problem(equation, u[:, :, 0]).residual(u) for u in (change, -change))
    return (there - back) / 2


def beyond_a_third(w):
    """The part of w (..., n, n) in modes with |k₁| or |k₂| > n/3, by full transforms."""
    n = w.shape[-1]
    k = np.abs(np.fft.fftfreq(n, 1 / n))
    free = np.maximum(k[:, None], k[None, :]) > n / 3
    return torch.from_numpy(np.fft.ifft2(np.fft.fft2(w.numpy()) * free).real)


@pytest.mark.parametrize("dealiasing", ["none", "3/2", "2/3"])
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("n", [8, 10])
def test_the_linear_part_of_the_residual_is_inverted_in_every_mode(n, order, dealiasing):
    equation = replace(FLOW, viscosity=0.02, time_order=order, dealiasing=dealiasing)
    change = beginning_at_zero(n)
    found = equation.invert_linear_part(linear_part(equation, change))
    assert torch.allclose(found, change, atol=1e-10)


@pytest.mark.parametrize("order", [2, 4])
def test_whatever_the_residual_its_inverse_begins_at_zero_and_fits_best(order):
    """Least squares: what is left of the residual is orthogonal to all that a change can reach."""
    equation = replace(FLOW, time_order=order)
    residual = noise(2, 1, 7, 8, 8, seed=1)
    found = equation.invert_linear_part(residual)
    assert torch.equal(found[:, :, 0], torch.zeros(2, 1, 8, 8).double())
    left = linear_part(equation, found) - residual
    assert float(left.norm()) > 0.1  # one equation too many: no change explains all of it
    for seed in range(3):
        reached = linear_part(equation, beginning_at_zero(8, seed))
        assert abs(float((left * reached).sum())) < 1e-10 * float(left.norm() * reached.norm())


def test_the_inverse_depends_on_the_constants_it_is_asked_for():
    residual = noise(1, 1, 7, 8, 8)
    found = FLOW.invert_linear_part(residual)
    for changes in ({"viscosity": 0.1}, {"frame_spacing": 0.2}, {"time_order": 2}):
        assert not torch.allclose(replace(FLOW, **changes).invert_linear_part(residual), found)
    assert torch.equal(FLOW.invert_linear_part(residual), found)


def test_a_residual_is_inverted_in_its_own_precision():
    residual = noise(2, 1, 7, 8, 8)
    single = FLOW.invert_linear_part(residual.float())
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), FLOW.invert_linear_part(residual), atol=1e-5)


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "nonlinear-helmholtz", "darcy"])
def test_equations_between_walls_have_no_such_part_and_their_error_signal_says_so(name):
    problem = Problem.random(EQUATIONS[name], 12)
    assert problem.equation.invert_linear_part(problem.zeros()) is None
    with pytest.raises(InvalidInput, match=f"equation: expected .*linear part.*{name}"):
        integrated_residual(State.of(problem, problem.zeros()))


@pytest.mark.parametrize("n", [16, 20])
@pytest.mark.parametrize("name", ["navier-stokes", "kolmogorov"])
def test_true_trajectories_of_the_same_grid_are_left_as_they_are(name, n):
    changes = {"frames": 4, "start_time": 0.1, "time_order": 4, "dealiasing": "2/3"}
    equation = equation_named(name, changes)
    true = solve_reference(equation, Problem.random(equation, n, 2, seed=n).inputs.numpy())
    w, inputs = torch.from_numpy(true.solution), torch.from_numpy(true.inputs)
    assert torch.allclose(equation.impose(w, inputs), w, rtol=0, atol=1e-14 * float(w.abs().max()))


@pytest.mark.parametrize("n", [8, 10, 16])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        # the mode (3, 3) is beyond a third of 8 points, (7, 7) and (0, 6) of 16
        {"forcing_wavenumber": 3, "forcing_amplitude": 5.0},
        {"forcing_wavenumber": 7, "forcing_amplitude": 5.0},
        {"forcing": "kolmogorov", "forcing_wavenumber": 6, "forcing_amplitude": 5.0},
    ],
)
def test_modes_beyond_a_third_of_the_grid_solve_their_equation(n, changes):
    equation = replace(FLOW, **changes)
    inputs, u = noise(2, 1, n, n), noise(2, 1, 7, n, n, seed=1)
    space = equation.space(equation.grid(n))
    before, after = (
        beyond_a_third(equation.residual(space, w, inputs)) for w in (u, equation.impose(u, inputs))
    )
    assert float(after.norm()) < 1e-3 * float(before.norm())


@pytest.mark.parametrize("k", [(6, 0), (3, 7), (8, 0), (0, 8), (8, 8), (8, 3)])
def test_an_unforced_mode_beyond_a_third_decays_as_it_must(k):
    """e^(−4π²ν|k|²t), the Nyquist modes 8 of 16 points among them."""
    equation = replace(FLOW, forcing_amplitude=0.0)
    x, y = torus_grid(16)
    wave = torch.cos(2 * math.pi * (k[0] * x + k[1] * y))
    t = 0.1 * torch.arange(7).double()
    decay = torch.exp(-4 * math.pi**2 * 1e-3 * (k[0] ** 2 + k[1] ** 2) * t)
    found = equation.impose(torch.zeros(1, 1, 7, 16, 16).double(), wave[None, None])
    assert torch.allclose(found[0, 0], decay[:, None, None] * wave, atol=1e-13)


def test_a_forced_mode_beyond_a_third_that_is_balanced_stands_still():
    equation = replace(FLOW, forcing="kolmogorov", forcing_wavenumber=6, forcing_amplitude=2.0)
    balanced = steady_shear(16, equation)
    found = equation.impose(torch.zeros(1, 1, 7, 16, 16).double(), balanced[None, None])
    assert torch.allclose(found[0, 0], balanced.expand(7, 16, 16), atol=1e-12)
    shorter = equation.impose(found, 0.5 * balanced[None, None])[0, 0].norm(dim=(1, 2))
    assert (shorter.diff() > 0).all()  # half of it grows towards the balance
    assert float(shorter[-1]) < float(balanced.norm())


@pytest.mark.parametrize("dealiasing", ["none", "3/2", "2/3"])
def test_what_is_imposed_twice_is_imposed_once(dealiasing):
    equation = replace(FLOW, dealiasing=dealiasing, forcing_wavenumber=7)
    inputs = noise(2, 1, 16, 16)
    once = equation.impose(noise(2, 1, 7, 16, 16, seed=1), inputs)
    assert torch.equal(once[:, :, 0], inputs)
    assert torch.allclose(equation.impose(once, inputs), once, rtol=0, atol=1e-13)


def test_the_modes_up_to_a_third_stay_as_they_are():
    inputs, u = noise(2, 1, 16, 16), noise(2, 1, 7, 16, 16, seed=1)
    change = (FLOW.impose(u, inputs) - u)[:, :, 1:]
    assert float(change.abs().max()) > 0.1
    assert torch.allclose(change, beyond_a_third(change), atol=1e-13)


@pytest.mark.parametrize("dealiasing", ["none", "3/2"])
def test_where_every_mode_is_advected_only_the_initial_frame_is_imposed(dealiasing):
    equation = replace(FLOW, dealiasing=dealiasing)
    inputs, u = noise(2, 1, 16, 16), noise(2, 1, 7, 16, 16, seed=1)
    imposed = equation.impose(u, inputs)
    assert torch.equal(imposed[:, :, 0], inputs)
    assert torch.equal(imposed[:, :, 1:], u[:, :, 1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_first_guess_is_the_initial_frame_at_all_times(dtype):
    inputs = noise(3, 1, 8, 8).to(dtype)
    guess = FLOW.first_guess(inputs)
    assert guess.dtype == dtype
    assert guess.shape == (3, *FLOW.solution_shape(8)) == (3, 1, 7, 8, 8)
    assert all(torch.equal(guess[:, :, frame], inputs) for frame in range(7))
    guess[:, :, 1] = 0.0  # its frames are no views of one another
    assert torch.equal(guess[:, :, 2], inputs)
