"""Values that are known beforehand: other walls, points held inside."""

from __future__ import annotations

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
from neuralsolver.solvers.newton import Newton

POINTS = 24


def walls():
    mask = torch.ones(POINTS, POINTS, dtype=torch.bool)
    mask[1:-1, 1:-1] = False
    return mask


UNIT = Poisson(scale=1.0)


def problem_with(known, equation=UNIT):
    return Problem(equation, torch.ones(2, 1, POINTS, POINTS, dtype=torch.float64), fixed=known)


def test_walls_with_values_give_the_solution_that_has_them():
    """x² − y² + x²/2 has the Laplacian 1, and five points see it exactly."""
    x, y = Grid.between_walls(POINTS, POINTS).points()
    exact = 1.5 * x**2 - y**2
    solution = Newton(tolerance=1e-10).solve(problem_with(FixedValues(walls(), exact)))
    assert solution.good
    assert torch.allclose(solution.tensor, exact.expand(2, 1, -1, -1), atol=1e-9)


@pytest.mark.parametrize("equation", [Poisson(scale=1.0), Helmholtz(), Darcy(source=1.0)])
def test_points_held_inside_keep_their_values_and_have_no_residual(equation):
    mask = torch.zeros(POINTS, POINTS, dtype=torch.bool)
    mask[8:12, 9:15] = True
    problem = problem_with(
        FixedValues(mask, torch.full((POINTS, POINTS), 0.3, dtype=torch.float64)), equation
    )
    solution = Newton(tolerance=1e-9).solve(problem)
    assert solution.good
    held = solution.tensor[:, :, 8:12, 9:15]
    assert torch.equal(held, torch.full_like(held, 0.3))
    assert not problem.residual(torch.randn_like(solution.tensor))[..., mask].any()
    free = Newton(tolerance=1e-9).solve(problem_with(None, equation))
    assert not torch.allclose(free.tensor, solution.tensor, atol=1e-4)
    # struck rows and columns leave a definite operator as definite as it was
    assert float(solution.error_bound.max()) < 1e-8
    assert solution.error_estimate is None


def test_what_is_known_of_some_samples_stays_with_them():
    mask = torch.zeros(2, 1, POINTS, POINTS, dtype=torch.bool)
    mask[1, 0, 5, 5] = True
    problem = problem_with(FixedValues(mask, torch.ones(2, 1, POINTS, POINTS)))
    assert float(problem.zeros()[1, 0, 5, 5]) == 1.0
    assert not problem.zeros()[0].any()
    assert float(problem.select([1]).zeros()[0, 0, 5, 5]) == 1.0
    assert problem.in_precision(torch.float32).zeros().dtype is torch.float32


def test_a_frame_can_be_known():
    equation = NavierStokes(frames=3)
    shape = (1, 1, 4, 16, 16)
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[:, :, 2] = True
    values = torch.full(shape, 0.5)
    problem = Problem(equation, torch.zeros(16, 16), fixed=FixedValues(mask, values))
    assert torch.equal(problem.first_guess()[:, :, 2], values[:, :, 2].to(problem.inputs))


@pytest.mark.parametrize(
    ("mask", "values", "words"),
    [
        (np.ones((4, 4)), np.ones((4, 4)), "true or false"),
        (np.ones((5, 4), bool), np.ones((5, 4)), "a mask and values of shape"),
        (np.ones((24, 24), bool), np.full((24, 24), np.nan), "finite values"),
        (torch.ones(POINTS, POINTS, dtype=torch.bool), torch.zeros(5, 5), "of one shape, got"),
    ],
)
def test_what_cannot_be_known_is_refused(mask, values, words):
    with pytest.raises(InvalidInput, match=words):
        problem_with(FixedValues(mask, values))
