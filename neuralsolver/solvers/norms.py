"""The size of a residual: its root mean square over all points, and the unit that it is told in."""

from __future__ import annotations

import torch
from torch import Tensor

from neuralsolver.equations import Problem

TINY = torch.finfo(torch.float64).tiny
JUMPS = 1e-4
"""The part of the residual of jumps at the walls that still is a unit: above all rounding of it."""


def residual_norm(residual: Tensor) -> Tensor:
    """Root mean square over all but the batch axis, in float64, whatever the size of the values."""
    values = residual.flatten(1).double()
    # a square underflows at 1e-162 and overflows at 1e154
    largest = values.abs().amax(1).clamp_min(TINY)
    return (values / largest[:, None]).square().mean(1).sqrt() * largest


def guess_norm(problem: Problem) -> Tensor:
    """The unit of all residuals of a problem: the measured one of its first guess.

    Where values are known, the guess blends those of the walls into the box and may happen to be
    the solution: the unit is then that of the source, or what the jumps at a wall would leave.
    """
    guess = _measured(problem, problem.first_guess())
    if problem.known is not None:
        source = _measured(problem, torch.zeros_like(problem.known.values))
        jumps = JUMPS * _measured(problem, problem.zeros())
        guess = torch.maximum(guess, torch.maximum(source, jumps))
    return guess.cpu().clamp_min(TINY)


def _measured(problem: Problem, u: Tensor) -> Tensor:
    return residual_norm(problem.measure(problem.residual(u)))
