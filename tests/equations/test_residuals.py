"""The residuals vanish where they must, at the order they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import (
    EQUATIONS,
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Problem,
    contract,
    equation_named,
)
from neuralsolver.equations.navier_stokes import time_derivative
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import linearisation
from neuralsolver.fields.stencils import laplacian
from tests.exact import STATIC, decaying_vortex, steady_shear, torus_grid, wall_grid


@pytest.mark.parametrize("name", STATIC)
def test_static_residuals_are_second_order(name):
    errors = []
    for n in (17, 33, 65, 129):
        equation, u, inputs = STATIC[name](n)
        errors.append(float(Problem(equation, inputs).residual(u).square().mean().sqrt()))
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (orders > 1.85).all(), orders
    assert orders[-1] == pytest.approx(2.0, abs=0.08)


def test_five_point_stencil_is_exact_on_quadratics():
    x, y = wall_grid(20)
    u = (3 * x**2 - y**2 + x * y - 0.3)[None, None]
    inside = laplacian(u)[..., 1:-1, 1:-1]
    assert torch.allclose(inside, torch.full_like(inside, 4.0), atol=1e-11)


def test_flux_and_wide_stencils_agree_on_smooth_fields():
    x, y = wall_grid(257)
    u = (torch.sin(math.pi * x) * torch.sin(math.pi * y))[None, None]
    a = (2 + torch.cos(x * y))[None, None]
    flux = Problem(Darcy(source=0.0), a).residual(u)[..., 2:-2, 2:-2]
    wide = Problem(Darcy(source=0.0, stencil="wide"), a).residual(u)[..., 2:-2, 2:-2]
    assert torch.allclose(flux, wide, atol=2e-3 * float(flux.abs().max()))


def test_wide_stencil_is_blind_to_the_checkerboard():
    i, j = torch.meshgrid(torch.arange(20), torch.arange(20), indexing="ij")
    checkerboard = ((-1.0) ** (i + j)).double()[None, None]
    a = torch.full_like(checkerboard, 3.0)
    assert (
        float(Problem(Darcy(source=0.0, stencil="wide"), a).residual(checkerboard).abs().max())
        < 1e-9
    )
    assert float(Problem(Darcy(source=0.0), a).residual(checkerboard).abs().max()) > 1e3


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "nonlinear-helmholtz", "darcy"])
def test_residual_is_zero_on_the_ring(name):
    problem = Problem.random(EQUATIONS[name], 16, count=2, seed=3)
    r = problem.residual(torch.randn(2, 1, 16, 16, dtype=torch.float64))
    ring = torch.ones(16, 16, dtype=torch.bool)
    ring[1:-1, 1:-1] = False
    assert float(r[..., ring].abs().max()) == 0.0
    assert float(r[..., 1:-1, 1:-1].abs().min()) > 0.0


def test_laminar_kolmogorov_state_has_no_residual():
    equation = EQUATIONS["kolmogorov"]
    assert isinstance(equation, NavierStokes)
    w = steady_shear(32, equation).expand(1, 1, 6, 32, 32)
    scale = float(w.abs().max())
    assert float(Problem(equation, w[:, :, 0]).residual(w).abs().max()) < 1e-11 * scale


def test_spatial_part_is_spectrally_accurate():
    """Only the time difference is left on Taylor-Green: it falls as the square of the spacing."""
    viscosity, errors = 1e-2, []
    for spacing in (0.1, 0.05, 0.025):
        times = spacing * torch.arange(7, dtype=torch.float64)
        w = decaying_vortex(16, viscosity, times)[None, None]
        equation = NavierStokes(
            viscosity=viscosity, forcing_amplitude=0.0, frame_spacing=spacing, frames=6
        )
        r = Problem(equation, w[:, :, 0]).residual(w)
        exact_rate = -8 * math.pi**2 * viscosity * w
        time_error = time_derivative(w, spacing) - exact_rate
        # in space nothing is lost, on any grid that carries the vortex
        assert float((r - time_error).abs().max()) < 1e-12
        errors.append(float(r[:, :, 1:-1].abs().max()))
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)


def test_spatial_derivatives_converge_spectrally():
    """∂ of exp(sin 2πx) exp(cos 2πy): the error falls faster than any power of the spacing."""
    errors = []
    for n in (8, 16, 32):
        x, y = torus_grid(n)
        w = (torch.exp(torch.sin(2 * math.pi * x)) * torch.exp(torch.cos(2 * math.pi * y))).expand(
            1, 1, 3, n, n
        )
        fine = 64
        xf, yf = torus_grid(fine)
        wf = torch.exp(torch.sin(2 * math.pi * xf)) * torch.exp(torch.cos(2 * math.pi * yf))
        equation = NavierStokes(forcing_amplitude=0.0, viscosity=0.1)
        coarse = Problem(equation, w[:, :, 0]).residual(w)[0, 0, 1]
        reference = Problem(equation, wf[None, None]).residual(wf.expand(1, 1, 3, fine, fine))[
            0, 0, 1
        ]
        errors.append(float((coarse - reference[:: fine // n, :: fine // n]).abs().max()))
    assert errors[1] < 1e-3 * errors[0]
    assert errors[2] < 1e-8 * errors[0]


def test_time_derivative_is_central_with_one_sided_ends():
    t = torch.arange(5, dtype=torch.float64)
    w = (t**2)[None, None, :, None, None].expand(1, 1, 5, 2, 2)
    assert time_derivative(w, 1.0)[0, 0, :, 0, 0].tolist() == [1.0, 2.0, 4.0, 6.0, 7.0]


def test_known_values_are_imposed():
    static = Problem.random(Helmholtz(), 12, count=2)
    assert float(static.impose(torch.ones(2, 1, 12, 12, dtype=torch.float64))[..., 0, :].max()) == 0
    flow = Problem.random(NavierStokes(frames=3), 16, count=2)
    u = flow.impose(torch.ones(2, 1, 4, 16, 16, dtype=torch.float64))
    assert torch.equal(u[:, :, 0], flow.inputs)
    assert float(u[:, :, 1:].min()) == 1.0


def check_equation(equation: Equation) -> None:
    """The contract of every equation, ours and a user's."""
    n = 16
    problem = Problem.random(equation, n, count=3, seed=1)
    generator = torch.Generator().manual_seed(0)
    shape = (3, *equation.solution_shape(n))
    u = problem.impose(torch.randn(shape, generator=generator, dtype=torch.float64))
    before, given = u.clone(), problem.inputs.clone()
    r = problem.residual(u)
    assert r.shape == u.shape
    assert torch.isfinite(r).all()
    assert torch.equal(u, before)
    assert torch.equal(problem.inputs, given)
    # one sample alone is the same as in the batch
    alone = problem.select([1])
    assert torch.allclose(alone.residual(u[1:2]), r[1:2], rtol=1e-12, atol=1e-12)
    # float32 follows float64
    single = problem.in_precision(torch.float32)
    scale = float(r.abs().max())
    assert torch.allclose(single.residual(u.float()).double(), r, atol=2e-6 * scale)
    # the gradient is that of finite differences
    direction = torch.randn(shape, generator=generator, dtype=torch.float64)
    step = 1e-6
    difference = (
        problem.residual(u + step * direction) - problem.residual(u - step * direction)
    ) / (2 * step)
    derivative = linearisation(problem, u)(direction)
    assert torch.allclose(derivative, difference, atol=1e-6 * float(difference.abs().max()))
    # affine equations say so
    if equation.linear:
        both = problem.residual(u + direction) - problem.residual(direction)
        assert torch.allclose(both, r - problem.residual(torch.zeros_like(u)), atol=1e-9 * scale)
    # the same (seed, index) is the same input
    again = Problem.random(equation, n, count=1, seed=1)
    assert torch.equal(again.inputs[0], problem.inputs[0])
    assert not torch.equal(problem.inputs[0], problem.inputs[1])


@pytest.mark.parametrize("name", EQUATIONS)
def test_every_equation_keeps_the_contract(name):
    check_equation(EQUATIONS[name])


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("source", [50.0, "field"])
def test_one_darcy_has_a_number_or_a_field_as_its_source_in_two_or_three_dimensions(
    source, dimension
):
    equation = Darcy(source=source, dimension=dimension)
    contract.check_equation(equation, resolution=8)
    problem = Problem.random(equation, 9, 2)
    assert problem.on_native_grid
    assert problem.inputs.shape == (2, 2 if source == "field" else 1, *dimension * (9,))
    answer = solve_reference(equation, problem.inputs.numpy()).solution
    residual = problem.residual(torch.from_numpy(answer))
    assert float(residual.abs().max()) < 1e-8 * float(problem.residual(problem.zeros()).abs().max())
    # files name it, and find it again
    assert equation_named(equation.name, equation.constants()) == equation


def test_cards_that_were_written_for_other_classes_of_darcy_load():
    constants = {"source": 1.0, "low": 3.0, "high": 12.0, "stencil": "flux"}
    assert equation_named("darcy-box", constants) == Darcy(source="field", dimension=3)
    with pytest.raises(InvalidInput, match="one number for all points"):
        _ = Darcy(source="field").constant_source
