"""Implicit time steps: their order, conservation, the static solution as their limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.equations.advection_diffusion import AdvectionDiffusion
from neuralsolver.equations.contract import check_equation
from neuralsolver.fields.grid import Grid
from neuralsolver.fields.stencils import central_difference

N = 17
X, Y = np.meshgrid(np.linspace(0, 1, N), np.linspace(0, 1, N), indexing="ij")


def sine_rate(h: float) -> float:
    """The rate at which sin πx sin πy of the grid decays."""
    return 2 * 4 / h**2 * np.sin(np.pi * h / 2) ** 2


def test_the_equation_keeps_its_contract():
    check_equation(AdvectionDiffusion(velocity=(1.0, -0.5), reaction=2.0))


def test_the_order_in_time_is_two():
    """Against the exact decay of a mode of the grid: nothing but the time steps is wrong."""
    mode = np.sin(np.pi * X) * np.sin(np.pi * Y)
    exact = mode * np.exp(-sine_rate(1 / (N - 1)) * 0.1)
    errors = [
        np.abs(ns.evolve(mode, 0.1, frames=2, steps=steps).u[-1] - exact).max()
        for steps in (4, 8, 16, 32)
    ]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(np.abs(orders - 2) < 0.1), orders


def test_the_order_in_space_and_time_with_a_wave_carried_along():
    """exp(−νk²t) sin k(x − vt) on a periodic strip, all steps refined together."""
    errors = []
    for n in (16, 32, 64):
        x = np.arange(n) / n
        k, nu, v, t = 2 * np.pi, 0.02, 1.0, 0.5
        start = np.repeat(np.sin(k * x)[:, None], 9, 1)
        run = ns.evolve(
            start, t, frames=1, steps=n, diffusivity=nu, velocity=(v, 0.0),
            sides=("periodic", "neumann"),
        )  # fmt: skip
        exact = np.exp(-nu * k**2 * t) * np.sin(k * (x - v * t))
        errors.append(np.abs(run.u[-1] - exact[:, None]).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(np.abs(orders - 2) < 0.25), orders


def test_the_estimate_is_near_the_error():
    mode = np.sin(np.pi * X) * np.sin(np.pi * Y)
    found = ns.evolve(mode, 0.2, frames=4, tolerance=1e-4)
    assert found.reached
    decay = np.exp(-sine_rate(1 / (N - 1)) * found.times)
    error = np.linalg.norm(found.u - decay[:, None, None] * mode, axis=(1, 2)).max()
    error /= np.linalg.norm(mode)
    assert found.time_error <= 1e-4
    assert 1 / 3 < found.time_error / error < 3
    assert "about" in str(found)


def test_zero_flux_keeps_the_heat_and_a_hot_shape_stays_hot():
    rng = np.random.default_rng(0)
    grid = Grid.with_sides((N, N), None, ("neumann", "neumann"))
    start, a = rng.random((N, N)), np.exp(rng.standard_normal((N, N)))
    found = ns.evolve(start, 1.0, frames=3, diffusivity=a, sides=("neumann", "neumann"))
    heat = (found.u * grid.weights.numpy()).sum((1, 2))
    assert np.allclose(heat, heat[0], rtol=1e-10)
    assert np.ptp(found.u[-1]) < 0.05 * np.ptp(found.u[0])
    mask = (X - 0.5) ** 2 + (Y - 0.5) ** 2 < 0.04
    hot = ns.evolve(np.zeros((N, N)), 0.5, frames=2, fixed=ns.FixedValues(mask, np.ones((N, N))))
    assert (hot.u[:, mask] == 1).all()
    assert 0 <= hot.u.min() <= hot.u.max() <= 1 + 1e-12


@pytest.mark.parametrize("shape", [(N, 12), (10, 9, 8)])
def test_it_ends_at_the_steady_state(shape):
    """After a long time nothing moves: the static equation, boundary values and all."""
    velocity, lengths = (1.0, -2.0, 0.5)[: len(shape)], (1.5, 1.0, 0.7)[: len(shape)]
    f = np.random.default_rng(2).standard_normal(shape)
    options = {"lengths": lengths, "walls": 0.3}
    last = ns.evolve(
        np.zeros(shape), 20.0, frames=2, velocity=velocity, source=f, steps=40, **options
    ).u[-1]
    inputs = np.stack([np.ones(shape), f])
    still = ns.solve(ns.Problem(AdvectionDiffusion(velocity), inputs, **options), 1e-12).u
    assert np.allclose(last, still[0] if still.ndim > len(shape) else still, atol=1e-9)


def test_central_differences_are_exact_on_parabolas():
    grid = Grid.between_walls(N, N)
    u = torch.from_numpy(X**2 - 3 * X * Y)
    inside = (slice(1, -1), slice(1, -1))
    assert np.allclose(central_difference(u, 0, grid)[inside], (2 * X - 3 * Y)[inside])
    assert np.allclose(central_difference(u, 1, grid)[inside], (-3 * X)[inside])


def test_a_large_cell_peclet_number_is_said():
    found = ns.evolve(X, 0.1, frames=1, steps=1, diffusivity=1e-3, velocity=(1.0, 0.0))
    assert "Péclet" in str(found)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"time": -1.0}, "positive time"),
        ({"time": np.nan}, "positive time"),
        ({"frames": 0}, "one frame"),
        ({"diffusivity": -1.0}, "positive values"),
        ({"velocity": (1.0,)}, "2 numbers"),
        ({"velocity": (np.inf, 0.0)}, "finite"),
        ({"source": np.ones(3)}, "shape"),
        ({"initial": np.full((N, N), np.nan)}, "initial"),
    ],
)
def test_what_cannot_be_is_refused(changes, word):
    with pytest.raises(ns.InvalidInput, match=word):
        ns.evolve(**{"initial": X, "time": 0.1, "frames": 1, **changes})
