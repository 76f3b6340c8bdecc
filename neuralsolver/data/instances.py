"""Problems to be solved: random ones, and those of a user's file.

Sizes are estimated before anything is allocated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neuralsolver.data.array_files import read_field
from neuralsolver.data.reference_solution import (
    solve_reference,
    truncate_spectrum,
    working_resolution,
)
from neuralsolver.equations import Equation, NavierStokes, Problem
from neuralsolver.equations.base import Array, generator
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Side
from neuralsolver.limits import SEED, Int, check_memory

INSTANCE_KEY = 1
"""The random key of instances drawn for a user."""
FIELDS_AT_ONCE = 24
"""Arrays of the size of a solution, in float64, that a solve keeps at the same time."""


def check_size(equation: Equation, resolution: int, count: int = 1) -> None:
    """Raise InvalidInput when a solve on this grid cannot fit in memory."""
    equation.check_grid(resolution)
    fields = count * math.prod(equation.solution_shape(resolution))
    check_memory("resolution", resolution, 8.0 * FIELDS_AT_ONCE * fields)


def random_problem(equation: Equation, resolution: int, seed: int = 0) -> Problem:
    """A random problem; a flow starts from what its random field has become at `start_time`.

    >>> import neuralsolver as ns
    >>> tuple(ns.random_problem(ns.Poisson(), 16, seed=3).inputs.shape)
    (1, 1, 16, 16)
    """
    return random_on(equation, (resolution,) * equation.dimension, seed)


def read_problem(
    equation: Equation,
    given: str | Path,
    shape: Sequence[int] | None = None,
    *,
    lengths: Sequence[float] | None = None,
    sides: Sequence[Side] | None = None,
) -> Problem:
    """The problem whose inputs a user gives.

    Args:
        equation: The equation.
        given: A file with the inputs (`array_files`), or a number: the same at every point.
        shape: Points along every axis; needed for a number.
        lengths: Lengths of the domain.
        sides: Boundary conditions of every axis.

    Returns:
        The problem.

    Raises:
        InvalidInput: The file, the number or the grid does not suit the equation.
    """
    field = read_field("--input", given)
    if not field.ndim and shape is not None:
        channels = () if len(equation.input_names) == 1 else (len(equation.input_names),)
        check_points(math.prod(shape))
        field = np.full((*channels, *shape), float(field))
    elif field.ndim >= 2 and field.shape[-1] == field.shape[-2]:
        square = field.shape[-1] * field.shape[-2]
        check_size(equation, field.shape[-1], max(1, field.size // max(1, square)))
    else:
        check_points(field.size)
    axes = len(lengths or sides or ()) or equation.dimension
    # one axis more is that of a batch
    several = field.ndim == axes + 1 and len(equation.input_names) == 1
    return Problem(equation, field, lengths=lengths, sides=sides, batch=several)


def random_on(
    equation: Equation,
    shape: Sequence[int],
    seed: int,
    *,
    lengths: Sequence[float] | None = None,
    sides: Sequence[Side] | None = None,
) -> Problem:
    """A random problem on a rectangle: the random field of a square, cut to its points."""
    if len(shape) != equation.dimension:
        expected = f"a file or a number on a grid of {len(shape)} axes"
        raise InvalidInput("--input", expected, f"none, and {equation.name} draws squares")
    seed, resolution = SEED.read("seed", seed), max(shape)
    check_size(equation, resolution)
    resolution = Int(1).read("resolution", resolution)
    if isinstance(equation, NavierStokes):
        field = _flow_start(equation, resolution, seed)
    else:
        field = equation.sample(generator(seed, INSTANCE_KEY, 0), resolution)
    field = field[(slice(None), *(slice(int(n)) for n in shape))]
    # one field, as a user would give it
    return Problem(equation, field[0] if len(field) == 1 else field, lengths=lengths, sides=sides)


def _flow_start(equation: NavierStokes, resolution: int, seed: int) -> Array:
    """What a random vorticity has become at `start_time`, (1, n, n)."""
    fine = working_resolution(equation, resolution)
    drawn = Problem.random(equation, fine, seed=seed, key=INSTANCE_KEY)
    # only the first frame is wanted; the others are as near as possible
    brief = dataclasses.replace(equation, time_order=2, frames=2, frame_spacing=1e-6)
    start = truncate_spectrum(solve_reference(brief, drawn.inputs.numpy()).inputs, resolution)
    return np.asarray(start[0])


def check_points(points: int) -> None:
    """Raise InvalidInput when a solve on this many points cannot fit in memory."""
    check_memory("--input", f"{points} points", 8.0 * FIELDS_AT_ONCE * points)
