"""Smoothing: a few cheap sweeps that damp what oscillates from point to point.

    u ← u − ω D⁻¹F(u),    D = diag J,    ω⁻¹ = 5/4 + 3/4 cos(π(j − ½)/s),   j = 1 … s

With these Chebyshev weights s sweeps damp the upper three quarters [½, 2] of the spectrum of D⁻¹J
of a five-point operator by 1/T_s(5/3): 0.22, 0.07, 0.025 for s = 2, 3, 4. What is left is smooth,
and its residual is no longer hidden under the large residual of small oscillations. In three
dimensions what oscillates along one axis alone begins at ⅓: the weights are those of [⅓, 2], and
the factors 0.34, 0.15, 0.06.

Where the same J is applied many times (`multilevel`), it is written out once as a few diagonals,
four beside D for a five-point operator: with the field as one long row and (Sₖe)ₓ = eₓ₊ₖ,

    J = D (1 − Σₖ cₖSₖ),    ê = Σₖ cₖSₖe − D⁻¹r,    e ← (1 − ω) e + ω ê

where ê solves Je = −r at each point with its neighbours held: a few passes over contiguous memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import linearisation


def chebyshev_weights(sweeps: int, dimension: int = 2) -> list[float]:
    """The weights ω of s sweeps in d dimensions."""
    middle, half = 1 + 0.5 / dimension, 1 - 0.5 / dimension
    return [1 / (middle + half * math.cos(math.pi * (j + 0.5) / sweeps)) for j in range(sweeps)]


def smooth(
    problem: Problem, u: Tensor, residual: Tensor, diagonal: Tensor, weights: list[float]
) -> tuple[Tensor, Tensor]:
    """u after the sweeps, and its residual."""
    for weight in weights:
        u = u - weight * residual / diagonal
        residual = problem.residual(u)
    return u, residual


@dataclass(frozen=True)
class Stencil:
    """J as its diagonal D, D⁻¹ (zero where nothing is solved) and the cₖ by their shift k."""

    diagonal: Tensor
    inverse: Tensor
    neighbours: dict[int, Tensor]

    def sweep(self, r: Tensor, weights: list[float], e: Tensor | None = None) -> Tensor:
        """e (or zero) after the sweeps on Je = −r."""
        target = -self.inverse * r
        if e is None:  # then ê is the target itself
            e, weights = weights[0] * target, weights[1:]
        for weight in weights:
            e = torch.lerp(e, self._add_neighbours(target.clone(), e), weight)
        return e

    def apply(self, e: Tensor) -> Tensor:
        """Je."""
        return (e - self._add_neighbours(torch.zeros_like(e), e)).mul_(self.diagonal)

    def select(self, mask: Tensor) -> Stencil:
        """Some of the samples."""
        neighbours = {shift: values[mask] for shift, values in self.neighbours.items()}
        return Stencil(self.diagonal[mask], self.inverse[mask], neighbours)

    def _add_neighbours(self, total: Tensor, e: Tensor) -> Tensor:
        """total + Σₖ cₖSₖe, in place; the first and the last points are wall and have no cₖ."""
        row, margin = e.flatten(1), max(self.neighbours)
        end = row.shape[1] - margin
        inside = total.view(row.shape)[:, margin:end]
        for shift, coefficient in self.neighbours.items():
            inside.addcmul_(coefficient, row[:, margin + shift : end + shift])
        return total


def stencil(problem: Problem, u: Tensor) -> Stencil:
    """J(u) written out, by the coloured probing of `equations.jacobian`."""
    rows, n = problem.grid.shape
    reach = problem.equation.stencil_reach
    period, offsets = 2 * reach + 1, range(-reach, reach + 1)
    jacobian = linearisation(problem, u)
    # a probe too small beside the source would be lost in F(probe) − F(0)
    size = float(problem.residual(torch.zeros_like(u)).abs().max()) or 1.0
    entries = {(i, j): torch.zeros_like(u) for i in offsets for j in offsets}
    for p in range(period):
        for q in range(period):
            probe = torch.zeros_like(u)
            probe[..., p::period, q::period] = size
            response = jacobian(probe) / size
            for (i, j), entry in entries.items():
                # the points whose neighbour at (i, j) has this colour
                here = (
                    ...,
                    slice((p - i) % period, rows, period),
                    slice((q - j) % period, n, period),
                )
                entry[here] = response[here]
    diagonal = entries.pop((0, 0))
    inverse = torch.where(diagonal == 0, 0.0, 1 / diagonal)
    present = {i * n + j: entry for (i, j), entry in entries.items() if bool(entry.any())}
    margin = max(present)
    neighbours = {
        shift: (-inverse * entry).flatten(1)[:, margin : rows * n - margin].contiguous()
        for shift, entry in present.items()
    }
    return Stencil(diagonal, inverse, neighbours)
