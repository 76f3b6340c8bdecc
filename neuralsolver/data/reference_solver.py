"""The reference solver of an equation as a Solver: `data.truth`, judged by the residual.

A given initial state of a flow is integrated on a grid whose products keep all of its modes, and
from time zero: the forcing is the same at all times, so that the clock may start with the state.

For accuracies that networks reach, that is too careful. The integrator on a coarser grid, with the
longest step that is stable there, is what they have to be compared with.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch
from torch import Tensor

from neuralsolver.data.reference_solution import (
    ReferenceSolution,
    solve_reference,
    trajectories,
    truncate_spectrum,
    working_resolution,
)
from neuralsolver.equations import NavierStokes, Problem
from neuralsolver.equations.navier_stokes import with_initial_frame
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.fields.fourier import resample, vorticity_derivatives
from neuralsolver.solvers import ResidualBelow, Solution, Status
from neuralsolver.solvers.trained import DEFAULT_TOLERANCE
from neuralsolver.solvers.wrappers import Answer


class ReferenceSolver(Answer):
    """The classical solver, without steps; `seconds` are those of its answer alone.

    Without a `tolerance` it is content with what it vouches for, a flow among them, whose residual
    is not zero.
    """

    def __init__(self, tolerance: float | None = None) -> None:
        super().__init__(self.judged)
        self.tolerance = tolerance

    def judged(self, problem: Problem) -> Solution:
        """The solution in float64."""
        problem = problem.in_precision(torch.float64)
        begin = time.perf_counter()
        answer = _answer(problem)
        u = torch.from_numpy(truncate_spectrum(answer.solution, problem.resolution))
        if problem.equation.frames:
            u = with_initial_frame(u, problem.inputs)
        seconds = time.perf_counter() - begin
        tolerance = DEFAULT_TOLERANCE if self.tolerance is None else self.tolerance
        rule = ResidualBelow(tolerance, max_steps=0)
        judged = Solution.of(problem, u, seconds=seconds, stop=rule, method="reference")
        status = tuple(
            # its own discretisation is solved, which is all that was asked for
            Status.FINISHED if self.tolerance is None and solved and not was.good else was
            for was, solved in zip(judged.status, answer.solved, strict=True)
        )
        return replace(judged, status=status)


def _answer(problem: Problem) -> ReferenceSolution:
    equation, n = problem.equation, problem.resolution
    if not isinstance(equation, NavierStokes):
        return solve_reference(equation, problem.inputs.numpy())
    fine = max(working_resolution(equation, n), 2 * math.ceil(3 * n / 4))
    return solve_reference(
        replace(equation, start_time=0.0), resample(problem.inputs, fine).numpy()
    )


COURANT = 0.8
"""Step times speed over spacing. A wave of the dealiased grid, k ≤ 2πn/3, is stable in Runge-Kutta
4 up to 2.8 / (2π/3) = 1.3; the rest is for eddies that grow faster with time."""
HALVINGS = 4


class CoarseIntegrator(Answer):
    """The reference integrator of flows on a grid of `points`, with the longest stable step."""

    def __init__(self, points: int) -> None:
        super().__init__(self.judged)
        self.points = points

    def judged(self, problem: Problem) -> Solution:
        """The flow of the modes that the coarser grid has, in float64."""
        problem = problem.in_precision(torch.float64)
        begin = time.perf_counter()
        answer = torch.cat([self._flow(problem.select([i])) for i in range(problem.batch)])
        u = with_initial_frame(resample(answer, problem.resolution), problem.inputs)
        seconds = time.perf_counter() - begin
        return Solution.of(problem, u, seconds=seconds, method="reference", grid=self.points)

    def _flow(self, problem: Problem) -> Tensor:
        equation = problem.equation
        if not isinstance(equation, NavierStokes):
            raise InvalidInput("equation", "a flow", equation.name)
        equation = replace(equation, start_time=0.0)
        initial = resample(problem.inputs, self.points)
        v1, v2, *_ = vorticity_derivatives(initial)
        speed = float((v1.square() + v2.square()).sqrt().max())
        step = COURANT / (self.points * max(speed, 1e-12))
        for _ in range(HALVINGS):
            try:
                frames = trajectories(equation, initial.numpy(), min(step, equation.frame_spacing))
            except ReferenceFailure:
                step /= 2
                continue
            return torch.from_numpy(frames)
        raise ReferenceFailure(f"{equation.name}: no stable step on {self.points} points")
