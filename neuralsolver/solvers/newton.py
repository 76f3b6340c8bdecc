"""Newton's method: as a step of the loop, as a solver, and to finish what a solve has come to.

    J(u) δ = −F(u),    u ← u + αδ,    α = 1, ½, ¼ … the first by which ‖F‖ falls

A neural iterate is a good start, and a start is all that Newton asks for. `polished` ends below the
tolerance or says that it did not get there. Where J is sparse, δ comes from GMRES with an
incomplete LU factorisation. The J of flows is not sparse, and they are measured by L⁻¹F,

    L⁻¹J(u) δ = −L⁻¹F(u)

There δ is sought among a few directions by flexible GMRES, which minimises ‖L⁻¹(Jδ + F)‖ over all
directions taken. These come in turn from

    tangent     δ = J̃⁻¹r, the linearised flow stepped through time: right for all that moves little
                from frame to frame (`Equation.invert_linearisation`)
    plain       δ = L⁻¹r, Picard's: what the frames do not resolve, no time stepping knows

Either alone takes many times as many: tangents leave what the differences in time see otherwise,
plain directions take a hundred to carry a vortex along.

Samples go one by one: directions are whole trajectories, and memory holds those of one sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.base import check_positive
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import has_sparse_jacobian, linearisation, sparse_jacobian
from neuralsolver.solvers.direct import Direction, newton_correction
from neuralsolver.solvers.krylov import Map, least_residual
from neuralsolver.solvers.loop import (
    Iterations,
    Observation,
    Solve,
    Solver,
    State,
    Stepper,
    drained,
)
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.sparse_newton import HALVINGS, Point, Vector, direct, krylov, newton
from neuralsolver.solvers.stopping import LEFT_THE_START, ResidualBelow

MAX_NEWTON = 30
"""Steps with a sparse J."""
DIRECTIONS = 16
"""Directions of one step of a flow; more of them take longer than another step."""
STEPS, STEPS_TO_TOLERANCE = 3, 20
"""Steps of a flow where no tolerance is asked for, and at most where one is."""
GAIN = 0.8
"""A step of a flow that leaves more than this part of the residual was the last."""
ENOUGH = 2e-6
"""What is asked for where nothing is: about what float32 resolves of a residual."""


class NewtonStep:
    """u ← u + αδ for all samples at once, with sparse factors of J(u).

    Args:
        direction: δ of one sample from its sparse J and its F; by sparse LU unless given.
        halvings: How often α may be halved; 0 for full steps, which may lead anywhere.
    """

    def __init__(self, direction: Direction | None = None, halvings: int = HALVINGS) -> None:
        self.direction, self.halvings = direction, halvings

    def __call__(self, now: State) -> Tensor:
        problem = now.problem
        delta = newton_correction(problem, now.u, now.residual, self.direction)
        before = _size(now.preconditioned_residual)
        alpha = torch.ones_like(before)
        u = problem.impose(now.u + delta)
        for _ in range(self.halvings):
            measured = problem.preconditioned_residual(problem.residual(u))
            worse = ~(_size(measured) < before)
            if not bool(worse.any()):
                break
            alpha = torch.where(worse, alpha / 2, alpha)
            u = problem.impose(now.u + alpha.view(-1, *[1] * (u.dim() - 1)) * delta)
        return u


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method with full steps, as in the paper, for static equations between walls.

    A Jacobian that is singular to the last digit gives no step: the sample ends as DIVERGED. Works
    in float64; ends as TOLERANCE when the relative residual falls below `tolerance`.
    """

    steps: int = 50
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        check_limits(self.steps, self.tolerance)

    @staticmethod
    def direction(jacobian: Any, residual: Vector) -> Vector:
        """δ with J δ = −F."""
        return direct(jacobian, residual)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Iterate from `u0`, or from zero."""
        step = NewtonStep(self.direction, halvings=0)
        return solve_in_float64(step, problem, u0, ResidualBelow(self.tolerance, self.steps))


def check_limits(steps: int, tolerance: float) -> None:
    """Raise InvalidInput for a number of steps or a tolerance that stops nothing."""
    if steps < 0:
        raise InvalidInput("steps", "zero or more", steps)
    check_positive("tolerance", tolerance)


def solve_in_float64(
    step: Stepper, problem: Problem, u0: Tensor | None, stop: ResidualBelow
) -> Solve:
    """A solve in float64, in which a tolerance can be reached on every grid."""
    problem = problem.in_precision(torch.float64)
    start = problem.zeros() if u0 is None else problem.impose(u0.to(problem.inputs))
    return Solve(problem, start, step, stop)


def polish(solution: Solution, tolerance: float) -> Solution:
    """Continue a solution to a relative residual of `tolerance` by Newton's method.

    Args:
        solution: Of any solver; samples that ended well are left as they are.
        tolerance: The relative residual to reach.

    Returns:
        The solution. Its notes gain `classical_iterations`: Krylov iterations by the number of the
        sample, for those that were continued.
    """
    return drained(polished(solution, tolerance))


def polished(solution: Solution, tolerance: float | None) -> Iterations:
    """The iterates of `polish`; without a tolerance, a few steps for flows only."""
    flow = not has_sparse_jacobian(solution.problem)
    if not flow and (solution.good or tolerance is None):
        return solution
    problem = solution.problem if flow else solution.problem.in_precision(torch.float64)
    limit = MAX_NEWTON if not flow else STEPS if tolerance is None else STEPS_TO_TOLERANCE
    u, status, steps = (
        solution.tensor.to(problem.inputs).clone(),
        list(solution.status),
        solution.steps.clone(),
    )
    row, used = torch.full((1, len(status)), torch.nan, dtype=torch.float64), {}
    for i, ended in enumerate(solution.status):
        if ended is Status.TOLERANCE or (ended.good and not flow):
            continue
        one, scale = problem.select([i]), solution.residual_scale[i : i + 1]
        target = (ENOUGH if tolerance is None else tolerance) * float(scale)
        before: float | None = None
        for point in _iterates(one, u[i : i + 1], target, limit):
            row[0, i], last = point.norm, before
            before = point.norm
            if last is None:  # the start
                continue
            field, number = _field(one, point.x), torch.tensor([i])
            steps[i] += 1
            at = (int(steps[i]), number, field, one.residual(field), row[0, number], scale)
            yield Observation("polish", *at, field - u[i : i + 1])
            u[i], used[i] = field[0], point.inner
            if flow and point.norm > max(target, GAIN * last):
                break
        if tolerance is not None:
            reached = row[0, i] <= target
            status[i] = Status.TOLERANCE if reached else Status.STALLED if ended.good else ended
        elif i in used and not ended.good and row[0, i] < LEFT_THE_START * scale:
            status[i] = Status.PLATEAU
    return replace(
        solution,
        problem=problem,
        tensor=u,
        status=tuple(status),
        residual_norms=torch.cat([solution.residual_norms, row]),
        steps=steps,
        notes={**solution.notes, "classical_iterations": used} if used else solution.notes,
    )


def _iterates(problem: Problem, u: Tensor, target: float, limit: int) -> Iterator[Point]:
    """Newton's iterates of one sample, as all values of its field."""
    direction = _sparse_direction if has_sparse_jacobian(problem) else _flow_direction

    def function(x: Vector) -> Vector:
        return _vector(problem.preconditioned_residual(problem.residual(_field(problem, x))))

    def step(point: Point) -> tuple[Vector, int]:
        field = _field(problem, point.x)
        right = torch.from_numpy(point.residual).to(field).view_as(field)
        delta, count = direction(problem, field, right, target / point.norm)
        # what is known is not among the unknowns
        return _vector(problem.impose(field + delta) - field), count

    return newton(function, step, _vector(u), target=target, steps=limit)


def _sparse_direction(
    problem: Problem, u: Tensor, residual: Tensor, relative: float
) -> tuple[Tensor, int]:
    """δ from the sparse J, and the iterations of GMRES."""
    space = problem.space
    (jacobian,) = sparse_jacobian(problem, u)
    if not space.scalar:  # the rows of each field in its unit
        rows = problem.preconditioned_residual(torch.ones_like(u))
        jacobian = sparse.diags_array(space.flatten(rows).numpy()[0]) @ jacobian
    right = space.flatten(residual).numpy()[0]
    delta, count = krylov(jacobian, right, max(0.1 * relative, 1e-12))
    return space.unflatten(torch.from_numpy(delta)[None], u), count


def _flow_direction(
    problem: Problem, u: Tensor, residual: Tensor, relative: float
) -> tuple[Tensor, int]:
    """δ among the directions of a flow, and how many they were."""
    jacobian, tangent = linearisation(problem, u), problem.equation.invert_linearisation(u)
    directions: list[Map] = [lambda r: r] if tangent is None else [tangent, lambda r: r]

    def operator(direction: Tensor) -> Tensor:
        return problem.preconditioned_residual(jacobian(direction))

    return least_residual(operator, -residual, directions, DIRECTIONS, 0.1 * relative)


def _vector(field: Tensor) -> Vector:
    return np.asarray(field.detach().flatten().cpu().numpy())


def _field(problem: Problem, x: Vector) -> Tensor:
    return torch.from_numpy(x).to(problem.inputs).view(1, *problem.space.shape)


def _size(r: Tensor) -> Tensor:
    return r.flatten(1).square().sum(1)
