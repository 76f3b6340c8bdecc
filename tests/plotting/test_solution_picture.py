"""The picture of a solution: masked points are masked, decades have a logarithmic scale."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm

import neuralsolver as ns
from neuralsolver.plotting.pictures import DIVERGING, SEQUENTIAL, colours


def test_colours_follow_the_values():
    assert isinstance(colours(np.array([1e-3, 1.0]))["norm"], LogNorm)
    assert "norm" not in colours(np.array([1.0, 50.0]))
    assert "norm" not in colours(np.array([0.0, 1e6]))
    assert colours(np.array([1.0, 50.0]))["cmap"] == SEQUENTIAL
    assert colours(np.array([-10.0, 50.0]))["cmap"] == DIVERGING


def test_fixed_points_inside_are_masked_in_every_panel():
    mask = np.zeros((20, 16), dtype=bool)
    mask[3:9, 4:8] = True
    fixed = ns.FixedValues(mask, np.full((20, 16), 1e6))
    f = np.where(mask, 1e9, 1.0)
    problem = ns.Problem(ns.Poisson(), f, fixed=fixed, lengths=(2.0, 1.0))
    figure = ns.solve(problem).plot()
    panels = [axis for axis in figure.axes if axis.images and axis.get_title()]
    assert [axis.get_title() for axis in panels] == ["source", "solution", "residual"]
    for axis in panels:
        shown = axis.images[0].get_array()
        assert np.array_equal(np.ma.getmaskarray(shown), mask.T)
        assert list(axis.images[0].get_extent()) == [0, 2, 0, 1]
    # the colours of the input span what is solved for, not what lies under the mask
    assert panels[0].images[0].get_clim()[1] < 10


def test_a_permeability_over_decades_is_drawn_on_a_logarithmic_scale():
    a = np.full((16, 16), 1e-3)
    a[5:9] = 10.0
    figure = ns.solve(ns.Problem(ns.Darcy(), a)).plot()
    assert isinstance(figure.axes[0].images[0].norm, LogNorm)


def test_walls_are_not_drawn_as_masked_points():
    mask = np.zeros((16, 16), dtype=bool)
    mask[6:9, 6:9] = True
    problem = ns.Problem(ns.Poisson(), np.ones((16, 16))).holding(mask, 1.0)
    shown = ns.solve(problem).plot().axes[1].images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), mask.T)
