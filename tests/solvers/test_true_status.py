"""Random solves: whatever is drawn, the status is true of the field that is returned.

TOLERANCE       the residual of the returned field is at most the tolerance, and it is finite
AT_ROUNDING     it is not, and within a few units of rounding of what it can be
OUT_OF_RANGE    the field is not finite, or too small for a normal number, or its residual is none
any other       the tolerance is missed
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.solvers import Status, TrainedSolver
from tests.networks import sine_solver

SIZES = [1.0, 1.0, 1.0, 1e-12, 1e12, 1e-150, 1e150, 1e-290, 1e290, 1e-315]


def draw(rng):
    """A random problem, a tolerance, and whether a network is asked."""
    n = int(rng.integers(8, 33))
    field = SIZES[rng.integers(len(SIZES))] * np.exp(rng.standard_normal((n, n)))
    size = SIZES[rng.integers(len(SIZES))]
    equation = [
        lambda: ns.Poisson(scale=float(rng.choice([1.0, -2.0, 1e-140, 1e140]))),
        lambda: ns.Helmholtz(wavenumber=float(rng.uniform(0, 45))),
        lambda: ns.Helmholtz(wavenumber=1.0, nonlinearity=float(rng.uniform(0.1, 2))),
        lambda: ns.Darcy(source=size),
    ][rng.integers(4)]()
    options = {}
    if rng.random() < 0.3:
        options["walls"] = SIZES[rng.integers(len(SIZES))] * rng.standard_normal((n, n))
    if rng.random() < 0.2:
        options["lengths"] = tuple(10.0 ** rng.uniform(-3, 3, 2))
    if rng.random() < 0.2:
        options["sides"] = ("walls", str(rng.choice(["flux", "periodic"])))
    tolerance = 10.0 ** -rng.uniform(2, 16)
    return ns.Problem(equation, field, **options), tolerance, rng.random() < 0.5


def untrue(seed):
    """What is not true of the status of one random solve, if anything."""
    problem, tolerance, network = draw(np.random.default_rng(seed))
    solver = TrainedSolver(sine_solver(0.3), problem.equation, 16, {})
    asked = solver.solve if network else ns.solve
    try:
        solution = asked(problem, tolerance=tolerance)
    except ns.InvalidInput as refusal:  # every number that is drawn is finite
        return f"{seed}: {refusal}"
    (status,) = solution.status
    finite = bool(torch.isfinite(solution.tensor).all())
    reached = float(solution.relative_residual)
    if status is Status.TOLERANCE and not (finite and reached <= tolerance):
        return f"{seed}: TOLERANCE at {reached:.3g} of {tolerance:.3g}"
    if status is not Status.TOLERANCE and finite and reached <= tolerance:
        return f"{seed}: {status.name} at {reached:.3g} of {tolerance:.3g}"
    small = float(solution.tensor.abs().max()) < torch.finfo(torch.float64).tiny
    if status is not Status.OUT_OF_RANGE and math.isnan(reached):
        return f"{seed}: {status.name} without a residual"
    if status is Status.OUT_OF_RANGE and finite and not small and not math.isnan(reached):
        return f"{seed}: OUT_OF_RANGE with a field of ordinary numbers"
    if status is Status.AT_ROUNDING and not reached < 1e-3:
        return f"{seed}: AT_ROUNDING at {reached:.3g}"
    if status.good and solution.error_bound is not None and math.isnan(float(solution.error_bound)):
        return f"{seed}: no number for a bound"
    return None


def test_sixty_random_solves_end_with_a_true_status():
    assert [found for found in map(untrue, range(60)) if found] == []


@pytest.mark.slow
def test_nine_hundred_random_solves_end_with_a_true_status():
    assert [found for found in map(untrue, range(2026, 2926)) if found] == []
