"""Reconstruction by correction: the observation mismatch as an error signal.

The paper's iteration corrects by any signal that says how wrong a field is. Here the state is the
pair (f, u), and two signals are read in turn: the mismatch of the sensors moves f, the residual
moves u after it, by the corrections of a trained solver. What the sensors see of f is Jf, with
J = H_f + H_u A⁻¹, and f ← f + M Jᵀ v with

    v from the mismatch y − Jf by conjugate residuals on J M Jᵀ, which never let it grow,
    M = Σ φφᵀ (1 + π²(p² + q²))⁻²,   φ the cosines of the square.

M makes every change smooth. Starting from nothing, the steps lead to the field of least bending
through the sensors. No covariance is known; a source is known to have no mean, and has none here.
There is one answer, without spread. Sensors of the solution need an input that enters linearly:
A⁻¹ and its transpose, which are the same, are then solves of the trained solver, two for a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import torch
from torch import Tensor

from neuralsolver.equations import Darcy, Equation, Helmholtz, Poisson, Problem
from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import decode_inputs, encode_inputs
from neuralsolver.samplers.palette import check_same
from neuralsolver.samplers.samples import Drawn, Sampler, Told
from neuralsolver.solvers.loop import Solver
from paper.baselines.measurement import PointValues
from paper.baselines.projection import least_residual

STEPS = 200
FITTED = 1e-4
"""The mismatch, in units of the values, at which the sensors are met."""
SOLVED, FINISHED = 1e-6, 1e-10
"""Relative residuals of u on the way and in the end."""


class Correction(Sampler):
    """Corrections of the input by the sensors' mismatch, of the solution by its residual."""

    name = "correction"

    def __init__(self, solver: Solver, steps: int = STEPS) -> None:
        self.solver, self.steps = solver, steps

    def _draw(
        self, observed: Sequence[Observed], count: int, seeds: Sequence[int], told: Told
    ) -> list[Drawn]:
        check_same(observed)
        drawn: list[Drawn] = []
        for _, group in groupby(observed, lambda problem: len(problem.sensors)):
            alike = list(group)
            field = self._corrected(alike)
            inputs = decode_inputs(alike[0].equation, field, True)
            u = self.solver.solve(alike[0].complete(inputs), tolerance=FINISHED).tensor
            for pair in zip(inputs, u, strict=True):
                first, second = (part.expand(count, -1, -1, -1) for part in pair)
                drawn.append((first, second, {}))
            told(len(drawn) / len(observed))
        return drawn

    def _corrected(self, observed: Sequence[Observed]) -> Tensor:
        """The inputs (as networks see them) that the steps lead to."""
        seen = _Sensing(observed)
        sees_solution = bool(seen.of_solution.any())
        equation, noise = observed[0].equation, observed[0].sensors.noise
        if sees_solution and isinstance(equation, Darcy):
            expected = f"sensors of {equation.input_names[0]} only"
            raise InvalidInput("sensors", expected, "sensors of the solution")

        def field(rows: Tensor) -> Tensor:
            spread = seen.spread(rows / seen.units)
            change = spread[:, :1]
            if sees_solution:
                change = change + self._solve(equation, spread[:, 1:])
            return _smooth(equation, change)

        def product(rows: Tensor) -> Tensor:
            inputs = field(rows)
            u = self._solve(equation, inputs) if sees_solution else torch.zeros_like(inputs)
            read = seen.read(torch.cat([inputs, u], 1)) / seen.units
            return read + (noise / seen.units) ** 2 * rows

        return field(least_residual(product, seen.values / seen.units, self.steps, FITTED))

    def _solve(self, equation: Equation, inputs: Tensor) -> Tensor:
        return self.solver.solve(Problem(equation, inputs), tolerance=SOLVED).tensor


class _Sensing(PointValues):
    """The same sensors in units of what they saw."""

    def __init__(self, observed: Sequence[Observed]) -> None:
        super().__init__(observed)
        encoded = encode_inputs(observed[0].equation, self.values[:, None, :, None])[:, 0, :, 0]
        self.values = torch.where(self.of_solution, self.values, encoded)
        self.units = torch.ones_like(self.values)
        for chosen in (self.of_solution, ~self.of_solution):
            square = torch.where(chosen, self.values**2, 0.0).sum(1) / chosen.sum(1).clamp_min(1)
            size = square.sqrt()[:, None].expand_as(self.values)
            self.units = torch.where(chosen & (size > 0), size, self.units)


def _smooth(equation: Equation, change: Tensor) -> Tensor:
    """M times a change; that of a source has no mean."""
    cosines, damping = _cosines(change.shape[-1])
    modes = damping * (cosines.T @ change @ cosines)
    if isinstance(equation, Poisson | Helmholtz):
        modes[..., 0, 0] = 0.0
    return cosines @ modes @ cosines.T


@lru_cache(maxsize=4)
def _cosines(n: int) -> tuple[Tensor, Tensor]:
    """The cosines at the points of the grid, and (1 + π²(p² + q²))⁻²."""
    count = torch.arange(n, dtype=torch.float64)
    table = math.sqrt(2) * torch.cos(math.pi * torch.outer(count, count) / (n - 1))
    table[:, 0] = 1.0
    squares = (math.pi * count) ** 2
    return table, (1 + squares[:, None] + squares) ** -2
