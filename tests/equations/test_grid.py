"""The grid: where its points are, what they weigh, and how fields go from one to another."""

from __future__ import annotations

import math

import pytest
import torch

from neuralsolver.equations import Grid
from neuralsolver.errors import InvalidInput

GRIDS = [
    Grid.between_walls(9),
    Grid.between_walls(9, 13, lengths=(1.0, 2.0)),
    Grid.between_walls(5, 6, 7),
    Grid.torus(8, 12),
    Grid((9, 8), (1.0, 3.0), (False, True)),
]


def noise(grid, count=2):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 1, *grid.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_weights_add_up_to_the_box_and_integrate_what_is_linear_or_periodic(grid):
    assert float(grid.weights.sum()) == pytest.approx(math.prod(grid.lengths))
    for axis, (points, ring) in enumerate(zip(grid.points(), grid.periodic, strict=True)):
        length = grid.lengths[axis]
        field = torch.cos(2 * math.pi * points / length) if ring else points
        mean = 0.0 if ring else length / 2
        integral = float((grid.weights * field).sum())
        assert integral == pytest.approx(mean * math.prod(grid.lengths), abs=1e-12)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_points_end_at_the_walls_or_one_step_before_the_beginning(grid):
    for axis, points in enumerate(grid.points()):
        last = float(points.max())
        short = grid.spacing[axis] if grid.periodic[axis] else 0.0
        assert last == pytest.approx(grid.lengths[axis] - short)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_vector_of_unknowns_is_the_field_without_its_walls(grid):
    u = noise(grid)
    vector = grid.flatten(u)
    assert vector.shape == (2, grid.size)
    assert torch.equal(grid.unflatten(vector, u), grid.zero_walls(u))
    assert torch.equal(grid.flatten(grid.unflatten(vector, u)), vector)
    walls = u - grid.zero_walls(u)
    assert int((walls[0, 0] != 0).sum()) == math.prod(grid.shape) - grid.size


@pytest.mark.parametrize(
    ("fine", "coarse"),
    [
        (Grid.between_walls(17, 33), Grid.between_walls(9, 17)),
        (Grid.between_walls(12, 20), Grid.between_walls(7, 11)),
        (Grid.between_walls(9, 9, 17), Grid.between_walls(5, 5, 9)),
    ],
)
def test_restriction_is_the_weighted_adjoint_of_interpolation(fine, coarse):
    r, u = noise(fine), coarse.zero_walls(noise(coarse))
    weight = math.prod(h / big for h, big in zip(fine.spacing, coarse.spacing, strict=True))
    left = weight * float((coarse.prolong(u, fine) * r).sum())
    assert left == pytest.approx(float((u * fine.restrict(r, coarse)).sum()), rel=1e-10)


def test_interpolation_keeps_what_is_linear_and_coarsening_what_is_constant():
    fine, coarse = Grid.between_walls(20, 31), Grid.between_walls(8, 9)
    x, y = (points[None, None] for points in coarse.points())
    fx, fy = fine.points()
    assert torch.allclose(coarse.prolong(2 * x - y, fine)[0, 0], 2 * fx - fy, atol=1e-12)
    ones = torch.ones(1, 1, *fine.shape, dtype=torch.float64)
    assert torch.allclose(fine.coarsen(ones, coarse), torch.ones(1, 1, 8, 9).double())


def test_resampling_keeps_the_modes_that_both_have():
    small, large = Grid.torus(8, 8), Grid.torus(20, 20)
    x, y = large.points()
    waves = torch.cos(2 * math.pi * (2 * x - 3 * y)) + torch.sin(2 * math.pi * 9 * x)
    sx, sy = small.points()
    kept = torch.cos(2 * math.pi * (2 * sx - 3 * sy))
    assert torch.allclose(large.resample(waves, small), kept, atol=1e-12)


def test_a_ladder_halves_every_axis_down_to_the_coarsest():
    finest, coarsest = Grid.between_walls(129, 65), Grid.between_walls(33, 33)
    shapes = [grid.shape for grid in finest.ladder(coarsest)]
    assert shapes == [(129, 65), (65, 33), (33, 33)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Grid.between_walls(2, 9), "at least 3 points"),
        (lambda: Grid.between_walls(9, 9, lengths=(1.0, -1.0)), "positive finite"),
        (lambda: Grid.between_walls(9, 9, lengths=(1.0, math.nan)), "positive finite"),
        (lambda: Grid((9, 9), (1.0,), (True, True)), "every axis"),
        (lambda: Grid.torus(4, 4, 4, 4), "one to three axes"),
    ],
)
def test_a_grid_that_is_none_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
