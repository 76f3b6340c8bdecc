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

from dataclasses import replace

from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers.loop import State
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.stopping import StoppingRule


class SpectralStep:
    """A step of a solver on its own grid, or on a finer one through the modes both have."""

    def __init__(self, solver: NeuralSolver, trained: int) -> None:
        self.step, self.trained = solver.stepper(), trained

    def __call__(self, now: State) -> Tensor:
        problem = now.problem
        if problem.resolution == self.trained:
            return self.step(now)
        coarse = problem.resampled(problem.equation.grid(self.trained))
        grid, below = problem.grid, coarse.grid
        u = coarse.impose(grid.resample(now.u, below))
        after = self.step(State(coarse, u, grid.resample(now.residual, below)))
        return problem.impose(now.u + below.resample(after - u, grid))

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.step.keep(mask)


def cut(solved: Solution, problem: Problem, stop: StoppingRule) -> Solution:
    """The answer of a finer grid on that of `problem`, judged there: its residual is its own.

    A sample that ended well on the finer grid has still to meet a tolerance on this one; where none
    was asked for, it ends as it ended there.
    """
    u = solved.problem.grid.resample(solved.tensor, problem.grid)
    # the modes beyond n/3 are known better than this grid could tell: only frame 0 is imposed
    u[:, :, 0] = problem.inputs
    judged = Solution.of(problem, u, stop=stop)
    status = tuple(map(_ending, judged.status, solved.status))
    return replace(judged, status=status, steps=solved.steps, notes=solved.notes)


def _ending(here: Status, there: Status) -> Status:
    if here in (Status.TOLERANCE, Status.DIVERGED):
        return here
    return Status.STEP_LIMIT if there is Status.TOLERANCE else there
