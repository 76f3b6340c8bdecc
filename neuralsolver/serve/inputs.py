"""Random inputs: those of `ens solve --seed`, so that a page can be repeated in the shell."""

from __future__ import annotations

from dataclasses import replace

from neuralsolver.data.truth import truncate_spectrum, truth, working_resolution
from neuralsolver.equations import Equation, NavierStokes, Problem
from neuralsolver.equations.base import check_resolution

INSTANCE_KEY = 1
"""The random key of `ens solve`."""


def random_problem(equation: Equation, resolution: int, seed: int) -> Problem:
    """A random problem; a flow starts from what its random field has become at `start_time`."""
    check_resolution(equation, resolution)
    fine = working_resolution(equation, resolution)
    drawn = Problem.random(equation, fine, seed=seed, key=INSTANCE_KEY)
    if not isinstance(equation, NavierStokes):
        return drawn
    # only the first frame is wanted; the others are as near as possible
    brief = replace(equation, time_order=2, frames=2, frame_spacing=1e-6)
    start = truth(brief, drawn.inputs.numpy()).inputs
    return Problem(equation, truncate_spectrum(start, resolution)[0, 0])
