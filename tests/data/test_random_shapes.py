"""Problems on random shapes, with their solutions."""

from __future__ import annotations

import numpy as np
import torch

from neuralsolver.data.random_shapes import FEWEST_FREE, ShapedExamples, random_shape


def test_solutions_solve_and_samples_stand_alone():
    examples = ShapedExamples(6, 24, seed=3)
    problem, solution = examples.posed(slice(None))
    size = problem.residual(problem.zeros()).abs().amax()
    assert float(problem.residual(solution).abs().amax()) < 1e-9 * float(size)
    assert problem.fixed is not None
    assert torch.equal(solution[problem.fixed.mask], problem.fixed.values[problem.fixed.mask])
    alone = ShapedExamples(3, 24, seed=3)
    assert torch.equal(alone.solutions, examples.solutions[:3])
    assert alone.fingerprint != examples.fingerprint == ShapedExamples(6, 24, seed=3).fingerprint
    # some hold values, some hold zero
    held = [bool(values.any()) for values in problem.fixed.values]
    assert 0 < sum(held) < len(held)


def test_shapes_vary_leave_room_and_repeat():
    shapes = [random_shape(np.random.default_rng(i), 32) for i in range(60)]
    free = np.array([np.count_nonzero(~shape[1:-1, 1:-1]) for shape in shapes])
    assert free.min() >= FEWEST_FREE
    # from small domains to the whole square
    assert free.min() < 200
    assert free.max() > 850
    again = random_shape(np.random.default_rng(7), 32)
    assert (again == shapes[7]).all()


def test_a_shape_is_the_same_on_a_finer_grid():
    """Clouds, blobs and polygons are functions; only single points depend on the grid."""
    rng = [np.random.default_rng(11) for _ in range(2)]
    coarse, fine = random_shape(rng[0], 33), random_shape(rng[1], 65)
    assert np.mean(coarse == fine[::2, ::2]) > 0.97
