"""Any resolution: a V-cycle whose coarsest solver is a corrector on the grid it was trained on.

A corrector is bound to its grid: its local filters act on points, not on lengths. On a finer grid
the error splits. What the trained grid can carry is restricted to it and removed there by the
corrector; the rest oscillates from point to point and is damped by smoothing on the finer grids,

    e ← e − ω D⁻¹(r + Je),    D = diag J,

with the weights ω of `smoothing`. J is the derivative of the residual at the current iterate, so
that the cycle also serves nonlinear equations. Nested iteration supplies the start: solve on the
trained grid, interpolate, a cycle, and so on up to the grid wanted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import Operator, jacobian_diagonal, linearisation
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.grids import coarse_problem, coarsen, ladder, prolong, restrict
from neuralsolver.solvers.iterate import FixedSteps
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.smoothing import chebyshev_weights


class VCycle:
    """One V-cycle as a step of `iterate`."""

    def __init__(
        self, solver: NeuralSolver, trained: int, *, sweeps: int = 3, coarse_steps: int = 1
    ) -> None:
        self.solver, self.trained = solver, trained
        self.coarse_steps = coarse_steps
        self.weights = chebyshev_weights(sweeps)
        self.problems: list[Problem] = []
        self.diagonals: list[Tensor] = []

    def __call__(self, problem: Problem, u: Tensor, residual: Tensor) -> Tensor:
        if not self.problems or self.problems[0] is not problem:
            self._prepare(problem, u)
        return problem.impose(u + self._cycle(0, u, residual))

    def _prepare(self, problem: Problem, u: Tensor) -> None:
        """The problem on every grid, and the diagonal of its Jacobian."""
        sizes = ladder(problem.resolution, self.trained)
        self.problems = [problem] + [coarse_problem(problem, size) for size in sizes[1:]]
        self.diagonals = [
            jacobian_diagonal(level, coarsen(u, size) if size != problem.resolution else u)
            for level, size in zip(self.problems, sizes, strict=True)
        ]

    def _cycle(self, level: int, u: Tensor, residual: Tensor) -> Tensor:
        """An approximation of −J⁻¹ residual on a level."""
        problem = self.problems[level]
        jacobian = linearisation(problem, u)
        coarsest = level == len(self.problems) - 1
        if coarsest and not self.solver.smoothing:
            return self._correct(problem, u, residual, jacobian)
        e, r = self._smooth(level, torch.zeros_like(u), residual, jacobian)
        if coarsest:
            return e + self._correct(problem, u, r, jacobian)
        below = self.problems[level + 1]
        size = below.resolution
        coarse = self._cycle(level + 1, below.impose(coarsen(u, size)), restrict(r, size))
        e = e + problem.equation.impose(prolong(coarse, u.shape[-1]), problem.inputs)
        e, _ = self._smooth(level, e, residual, jacobian, last=True)
        return e

    def _smooth(
        self, level: int, e: Tensor, residual: Tensor, jacobian: Operator, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Sweeps on J e = −residual, and what they leave; the last ones need not know it."""
        diagonal = self.diagonals[level]
        weights = self.weights[::-1] if last else self.weights
        r = residual + jacobian(e) if last else residual
        for index, weight in enumerate(weights):
            e = e - weight * r / diagonal
            if not (last and index == len(weights) - 1):
                r = residual + jacobian(e)
        return e, r

    def _correct(self, problem: Problem, u: Tensor, residual: Tensor, jacobian: Operator) -> Tensor:
        """The corrector on its own grid."""
        e, r = torch.zeros_like(u), residual
        for index in range(self.coarse_steps):
            if index:
                r = residual + jacobian(e)
            e = e + problem.impose(self.solver.correction(problem, u, r))
        return e


START_STEPS = 10
"""Corrections on the trained grid before its answer is carried up."""


@torch.no_grad()
def nested_iteration(solver: NeuralSolver, trained: int, problem: Problem) -> Tensor:
    """A start on any grid: the trained grid's answer, carried up with a cycle per grid between."""
    if problem.resolution < trained:
        raise InvalidInput("resolution", f"at least {trained}", problem.resolution)
    sizes = ladder(problem.resolution, trained)[::-1]
    if len(sizes) == 1:
        return solver.predict(problem)
    u = solver.solve(coarse_problem(problem, trained), stop=FixedSteps(START_STEPS)).tensor
    for size in sizes[1:-1]:
        level = coarse_problem(problem, size)
        u = level.impose(prolong(u, size))
        u = VCycle(solver, trained)(level, u, level.residual(u))
    return problem.impose(prolong(u, problem.resolution))
