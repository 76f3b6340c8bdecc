"""Other boxes than the unit square between zero walls: rectangles, mirrors, rings, values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from neuralsolver.equations import (
    Darcy,
    FixedValues,
    Grid,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
)
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.fields.stencils import laplacian_eigenvalues, mirror_factor
from neuralsolver.solvers.direct import newton_correction

PI = math.pi
SIDES = [
    ("walls", "walls"),
    ("walls", "flux"),
    (("flux", "walls"), "periodic"),
    (("walls", "flux"), ("flux", "walls")),
    ("periodic", "walls"),
]


def line(x, side, length):
    """A function with the ends that a side asks for, and its second derivative."""
    k, phase = {
        "walls": (2 * PI, 0.0),
        "flux": (2 * PI, PI / 2),
        "periodic": (2 * PI, 0.7),
        ("walls", "flux"): (PI / 2, 0.0),
        ("flux", "walls"): (PI / 2, PI / 2),
    }[side]
    k = k / length
    return torch.sin(k * x + phase), k * torch.cos(k * x + phase), k**2


def manufactured(n, sides, lengths, equation):
    """u = p(x) q(y) with the ends asked for, and the problem that it solves in the limit."""
    m = n + n // 3
    grid = Grid.with_sides((n, m), lengths, sides)
    x, y = grid.points()
    p, dp, kp = line(x, sides[0], lengths[0])
    q, dq, kq = line(y, sides[1], lengths[1])
    u = p * q
    if isinstance(equation, Darcy):
        # a smooth permeability whose slope vanishes at mirrors and that closes around rings
        a = 2 + torch.cos(2 * PI * x / lengths[0]) * torch.cos(2 * PI * y / lengths[1])
        ax = -2 * PI / lengths[0] * torch.sin(2 * PI * x / lengths[0])
        ax = ax * torch.cos(2 * PI * y / lengths[1])
        ay = -2 * PI / lengths[1] * torch.sin(2 * PI * y / lengths[1])
        ay = ay * torch.cos(2 * PI * x / lengths[0])
        f = -(ax * dp * q + ay * p * dq - a * (kp + kq) * u)
        return u, Problem(equation, torch.stack([a, f])[None], grid=grid)
    f = -(kp + kq) * u
    if isinstance(equation, Helmholtz):
        f = f + equation.wavenumber**2 * u + equation.nonlinearity * u**3
    else:
        f = f / equation.scale
    return u, Problem(equation, f, grid=grid)


@pytest.mark.parametrize("sides", SIDES, ids=str)
@pytest.mark.parametrize(
    "equation", [Poisson(scale=2.0), Helmholtz(wavenumber=0.7), Darcy(source="field")], ids=str
)
def test_answers_are_of_second_order_on_every_kind_of_side(sides, equation):
    errors = []
    for n in (16, 32):
        u, problem = manufactured(n, sides, (1.3, 0.8), equation)
        found = newton_correction(problem, problem.zeros())[0, 0]
        errors.append(float((found - u).abs().max()))
    assert 3.2 < errors[0] / errors[1] < 5.0
    assert errors[1] < 0.02


@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_the_eigenvalues_are_those_of_the_matrix(sides):
    problem = Problem(Poisson(), np.zeros((8, 9)), sides=sides, lengths=(1.0, 2.0))
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    values = np.sort(np.linalg.eigvals(-matrix.toarray()).real)
    stated = np.sort(laplacian_eigenvalues(problem.grid).flatten().numpy())
    np.testing.assert_allclose(values, stated, atol=1e-9)
    least = np.linalg.svd(matrix.toarray(), compute_uv=False).min()
    bound = float(problem.smallest_singular_value()[0])
    assert bound <= least * (1 + 1e-12)
    assert bound >= 0.4 * least
    assert mirror_factor(problem.grid) >= 1.0


@pytest.mark.parametrize("sides", SIDES, ids=str)
@pytest.mark.parametrize("equation", [Poisson(), Helmholtz(), Darcy()], ids=str)
def test_shares_make_the_jacobian_symmetric(sides, equation):
    rng = np.random.default_rng(0)
    problem = Problem(equation, 1 + rng.random((9, 8)), sides=sides)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    shares = problem.grid.flatten(problem.grid.weights[None, None])[0].numpy()
    weighted = shares[:, None] * matrix.toarray()
    np.testing.assert_allclose(weighted, weighted.T, atol=1e-10)
    # and it is the derivative of the residual
    u, v = (problem.impose(torch.from_numpy(rng.random((1, 1, 9, 8)))) for _ in range(2))
    change = problem.grid.flatten(problem.residual(u) - problem.residual(v))[0].numpy()
    np.testing.assert_allclose(matrix @ problem.grid.flatten(u - v)[0].numpy(), change, atol=1e-9)


def test_a_mirror_is_half_of_a_symmetric_box():
    rng = np.random.default_rng(1)
    half = rng.random((11, 9))
    whole = np.concatenate([half, half[-2::-1]])
    mirrored = Problem(Poisson(), half, sides=(("walls", "flux"), "walls"))
    doubled = Problem(Poisson(), whole, lengths=(2.0, 1.0))
    a = newton_correction(mirrored, mirrored.zeros())
    b = newton_correction(doubled, doubled.zeros())
    assert torch.allclose(a, b[:, :, :11], atol=1e-12)


def test_a_ring_may_be_turned():
    f = np.random.default_rng(2).random((8, 10))
    answers = []
    for field in (f, np.roll(f, 3, axis=1)):
        problem = Problem(Poisson(), field, sides=("walls", "periodic"))
        answers.append(newton_correction(problem, problem.zeros()))
    assert torch.allclose(answers[0].roll(3, -1), answers[1], atol=1e-12)


def test_walls_are_told_by_a_number_an_array_or_a_function():
    grid = Grid.between_walls(9, 12, lengths=(1.0, 2.0))
    x, y = grid.points()
    array = (x - 2 * y).numpy()
    array[1:-1, 1:-1] = np.nan  # what is inside is not read
    f = np.zeros((9, 12))
    by_array = Problem(Poisson(), f, walls=array, lengths=(1, 2))
    by_function = Problem(Poisson(), f, walls=lambda x, y: x - 2 * y, lengths=(1, 2))
    assert torch.equal(by_array.zeros(), by_function.zeros())
    # a linear field is harmonic, and what one begins with
    assert torch.allclose(by_array.first_guess()[0, 0], x - 2 * y, atol=1e-14)
    three = Problem(Poisson(), f, walls=3.0)
    assert torch.equal(three.zeros()[0, 0] == 3.0, three.grid.on_wall)
    both = np.stack([np.zeros((9, 9))] * 2)
    batch = Problem(Poisson(), both, walls=both + 1, batch=True)
    assert batch.zeros().shape == (2, 1, 9, 9)
    held = FixedValues(np.arange(81).reshape(9, 9) == 40, np.full((9, 9), 7.0))
    both = Problem(Poisson(), np.zeros((9, 9)), walls=1.0, fixed=held).zeros()[0, 0]
    assert float(both[4, 4]) == 7.0
    assert float(both.sum()) == 7.0 + 32


ZERO = np.zeros((9, 9))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Problem(Poisson(), ZERO, walls=np.zeros((9, 8))), "walls.*shape"),
        (lambda: Problem(Poisson(), ZERO, walls=np.full((9, 9), np.nan)), "walls.*finite"),
        (lambda: Problem(Poisson(), ZERO, sides=("walls", "open")), "sides.*periodic"),
        (lambda: Problem(Poisson(), ZERO, sides=("walls", ("flux", "periodic"))), "sides"),
        (lambda: Problem(Poisson(), ZERO, sides=("flux", "periodic")), "sides.*mean zero"),
        (lambda: Problem(Darcy(), ZERO + 1, sides=("flux", "flux")), "sides.*mean zero"),
        (lambda: Problem(Poisson(), ZERO, lengths=(1.0, -2.0)), "lengths"),
        (lambda: Problem(Poisson(), ZERO, lengths=(1.0, 1.0, 1.0)), "source"),
        (lambda: Problem(Poisson(), ZERO, grid=Grid.between_walls(9, 10)), "grid"),
        (lambda: Problem(Poisson(), np.zeros((7, 20))), "resolution"),
        (lambda: Problem(NavierStokes(), np.zeros((16, 16)), lengths=(2, 1)), "grid"),
        (lambda: Problem(Poisson(), ZERO, fixed=FixedValues(ZERO == 0, ZERO)), "fixed.*not known"),
        (
            lambda: Problem(Darcy(stencil="wide"), ZERO + 1, lengths=(2, 1)).residual(
                torch.zeros(1, 1, 9, 9)
            ),
            "stencil",
        ),
    ],
)
def test_boxes_that_are_none_are_refused_by_name(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_one_known_point_makes_a_closed_box_solvable():
    held = FixedValues(np.arange(81).reshape(9, 9) == 40, np.full((9, 9), 2.0))
    problem = Problem(Poisson(), ZERO, sides=("flux", "flux"), fixed=held)
    start = problem.zeros()
    assert torch.allclose(start + newton_correction(problem, start), torch.tensor(2.0).double())
    # with a reaction nothing is missing
    Problem(Helmholtz(wavenumber=1.0), ZERO, sides=("flux", "flux"))


def test_absorbing_sides_are_sent_to_the_waves():
    with pytest.raises(InvalidInput, match=r"ns\.Waves"):
        Problem(Poisson(), np.ones((16, 16)), sides="absorbing")
