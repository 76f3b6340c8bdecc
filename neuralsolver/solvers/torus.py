"""Flows on any even grid: nested iteration between spectra.

A corrector is bound to the grid of m × m points that it was trained on. On the torus a field goes
from grid to grid by its modes, R_m w: those that both grids have, and zero for the others. A flow
given on n × n points is solved

    n = m    by the plain iteration
    n < m    on m points, and the answer is cut to n
    n > m    on m points first, û = R_n u; then what the finer grid sees is corrected there,

                 û ← û + R_n (C(R_m û, R_m r) − R_m û),    r = F(û) on n points

with one step C of the solver. It makes those modes right under the residual of the finer grid that
are free on the trained one (with the 2/3 rule up to m/3); the others keep what nested iteration
gave them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.fourier import resample
from neuralsolver.equations.navier_stokes import with_initial_frame
from neuralsolver.solvers.acceleration import Anderson
from neuralsolver.solvers.iterate import FixedSteps, Observer, Step, StoppingRule, iterate
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.solution import Solution

MEMORY = 15
"""Trajectories that are mixed: with fewer, a flow of smaller viscosity drifts away again."""


def on_grid(problem: Problem, points: int) -> Problem:
    """The same flow on another grid."""
    return Problem(problem.equation, resample(problem.inputs, points))


class SpectralStep:
    """A step of a solver trained on as many points or fewer, as a step of `iterate`."""

    def __init__(self, solver: NeuralSolver, trained: int) -> None:
        self.solver, self.trained = solver, trained
        self.numbers = itertools.count()

    def __call__(self, problem: Problem, u: Tensor, residual: Tensor) -> Tensor:
        number = next(self.numbers)
        if problem.resolution == self.trained:
            return self.solver.step(problem, u, residual, number)
        coarse = on_grid(problem, self.trained)
        before = coarse.impose(resample(u, self.trained))
        read = resample(residual, self.trained)
        after = self.solver.step(coarse, before, read, number)
        return problem.impose(u + resample(after - before, problem.resolution))


@dataclass(frozen=True)
class Flow:
    """A solver of flows on any grid; `accelerate` wraps its steps in Anderson mixing."""

    solver: NeuralSolver
    trained: int
    accelerate: bool = False

    @torch.no_grad()
    def solve(
        self,
        problem: Problem,
        u0: Tensor | None = None,
        observe: Observer | None = None,
        *,
        stop: StoppingRule | None = None,
    ) -> Solution:
        """Solve on the grid of the problem; the rule stops the iteration on either grid."""
        stop = stop or self.solver.stop
        n = problem.resolution
        if n < self.trained:
            return self._cut(problem, u0, observe, stop)
        if n > self.trained and u0 is None:
            u0 = resample(self.solve(on_grid(problem, self.trained), stop=stop).tensor, n)
        start = self.solver.predict(problem) if u0 is None else u0.to(problem.inputs)
        step: Step = SpectralStep(self.solver, self.trained)
        if self.accelerate and self.solver.corrector is not None:
            step = Anderson(step, MEMORY)
        return iterate(step, problem, problem.impose(start), stop, observe)

    def _cut(
        self, problem: Problem, u0: Tensor | None, observe: Observer | None, stop: StoppingRule
    ) -> Solution:
        """The answer of the trained grid on fewer points; what is observed is that answer."""
        start = None if u0 is None else resample(u0.to(problem.inputs), self.trained)
        solved = self.solve(on_grid(problem, self.trained), start, stop=stop)
        # the modes beyond n/3 are known better than the grid of n points could tell
        answer = with_initial_frame(resample(solved.tensor, problem.resolution), problem.inputs)
        judged = iterate(lambda problem, u, residual: u, problem, answer, FixedSteps(0), observe)
        return replace(judged, status=solved.status, steps=solved.steps)
