"""The size of a residual: its root mean square over all points, and the unit that it is told in."""

from __future__ import annotations

import torch
from torch import Tensor

from neuralsolver.equations import Problem

TINY = torch.finfo(torch.float64).tiny


def residual_norm(residual: Tensor) -> Tensor:
    """Root mean square over all but the batch axis, in float64, whatever the size of the values."""
    values = residual.flatten(1).double()
    # a square underflows at 1e-162 and overflows at 1e154
    largest = values.abs().amax(1).clamp_min(TINY)
    return (values / largest[:, None]).square().mean(1).sqrt() * largest


def guess_norm(problem: Problem) -> Tensor:
    """The unit of all residuals of a problem: the measured one of its first guess."""
    guess = residual_norm(problem.measure(problem.residual(problem.first_guess())))
    return guess.cpu().clamp_min(TINY)
