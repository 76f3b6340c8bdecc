"""Problems to be solved: random ones, and those of a user's file.

Sizes are estimated before anything is allocated.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from tokenize import TokenError

import numpy as np

from neuralsolver.data.truth import truncate_spectrum, truth, working_resolution
from neuralsolver.equations import Equation, NavierStokes, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, check_memory

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
    SEED.read("seed", seed)
    check_size(equation, resolution)
    fine = working_resolution(equation, resolution)
    drawn = Problem.random(equation, fine, seed=seed, key=INSTANCE_KEY)
    if not isinstance(equation, NavierStokes):
        field = drawn.inputs[0].numpy()  # one field, as a user would give it
        return Problem(equation, field[0] if len(field) == 1 else field)
    # only the first frame is wanted; the others are as near as possible
    brief = dataclasses.replace(equation, time_order=2, frames=2, frame_spacing=1e-6)
    start = truth(brief, drawn.inputs.numpy()).inputs
    return Problem(equation, truncate_spectrum(start, resolution)[0, 0])


def read_problem(equation: Equation, file: str | Path) -> Problem:
    """The problem whose inputs are the one array of a .npy file."""
    try:
        with open(file, "rb") as opened:
            if not opened.seekable():
                raise InvalidInput("--input", "a regular file", file)
            version = np.lib.format.read_magic(opened)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read_header is None:
                raise ValueError("an unknown version of the format")
            shape, _, kind = read_header(opened)
        if kind.hasobject:
            raise ValueError("Python objects")
        check_memory("--input", f"shape {shape}", float(math.prod(shape)) * kind.itemsize)
        if len(shape) >= 2 and shape[-1] == shape[-2]:
            square = shape[-1] * shape[-2]
            check_size(equation, shape[-1], max(1, math.prod(shape) // max(1, square)))
        field = np.load(file, allow_pickle=False)
    except InvalidInput:
        raise
    except (ValueError, EOFError, SyntaxError, TokenError, OverflowError, RecursionError) as error:
        # numpy's own words advise to allow pickle, which would run what the file says
        got = str(error).splitlines()[0][:80] if "pickle" not in str(error) else "Python objects"
        raise InvalidInput("--input", "a .npy file of numbers", f"{file}: {got}") from None
    return Problem(equation, field)
