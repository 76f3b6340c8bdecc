"""Random shapes for training."""

from __future__ import annotations

import numpy as np

from neuralsolver.reference.random_shapes import FEWEST_FREE, random_shape


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
