"""Newton's method for problems whose Jacobian is not sparse: flows, measured by L⁻¹F.

    L⁻¹J(u) δ = −L⁻¹F(u),    u ← u + αδ

δ is sought among a few directions by flexible GMRES in the form of conjugate residuals, which
minimises ‖L⁻¹(Jδ + F)‖ over all directions taken. These come in turn from

    tangent     δ = J̃⁻¹r, the linearised flow stepped through time: right for all that moves little
                from frame to frame (`Equation.invert_linearisation`)
    plain       δ = L⁻¹r, Picard's: what the frames do not resolve, no time stepping knows

Either alone takes many times as many: tangents leave what the differences in time see otherwise,
plain directions take a hundred to carry a vortex along.

Samples go one by one: directions are whole trajectories, and memory holds those of one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import linearisation
from neuralsolver.reference.newton import Point, Vector, newton
from neuralsolver.solvers.iterate import Iterations, Observation
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.stopping import LEFT_THE_START

DIRECTIONS = 16
"""Directions of one step; more of them take longer than another step."""
STEPS, STEPS_TO_TOLERANCE = 3, 20
"""Steps where no tolerance is asked for, and at most where one is."""
GAIN = 0.8
"""A step that leaves more than this part of the residual was the last."""
ENOUGH = 2e-6
"""What is asked for where nothing is: about what float32 resolves of a residual."""

Map = Callable[[Tensor], Tensor]


def newton_krylov(solution: Solution, tolerance: float | None) -> Iterations:
    """`solution` carried on to a relative residual of `tolerance`, or for a few steps without one.

    It is the `finish` of a `Solve`. The notes gain `classical_iterations`: the derivatives taken,
    by the number of the sample.
    """
    problem, status = solution.problem, list(solution.status)
    u, steps, used = solution.tensor.clone(), solution.steps.clone(), {}
    rows = [solution.residual_norms]
    for i in (i for i, ended in enumerate(status) if ended is not Status.TOLERANCE):
        one, scale = problem.select([i]), solution.residual_scale[i : i + 1]
        target = (ENOUGH if tolerance is None else tolerance) * float(scale)
        limit = STEPS if tolerance is None else STEPS_TO_TOLERANCE
        norms: list[float] = []
        for point in _steps(one, u[i : i + 1], target, limit):
            field = _field(one, point.x)
            norms.append(point.norm)
            if len(norms) > 1:
                seen = _observation(one, field, u[i : i + 1], point.norm, scale)
                yield replace(seen, samples=torch.tensor([i]), step=int(steps[i]) + 1)
                u[i], used[i] = field[0], point.inner
                steps[i] += 1
                if point.norm > max(target, GAIN * norms[-2]):
                    break
        if tolerance is not None:
            status[i] = _ending(norms, target, limit)
        elif len(norms) > 1 and not status[i].good:
            status[i] = Status.PLATEAU if norms[-1] < LEFT_THE_START * scale else status[i]
        row = torch.full((1, len(status)), torch.nan, dtype=torch.float64)
        row[0, i] = norms[-1]
        rows.append(row)
    notes = {**solution.notes, "classical_iterations": used} if used else solution.notes
    return replace(
        solution,
        tensor=u,
        status=tuple(status),
        residual_norms=torch.cat(rows),
        steps=steps,
        notes=notes,
    )


def _steps(problem: Problem, u: Tensor, target: float, limit: int) -> Iterator[Point]:
    """Newton's iterates of one sample."""

    def function(x: Vector) -> Vector:
        return _vector(problem.measure(problem.residual(_field(problem, x))))

    def step(point: Point) -> tuple[Vector, int]:
        field = _field(problem, point.x)
        jacobian = linearisation(problem, field)
        tangent = problem.equation.invert_linearisation(field)
        directions: list[Map] = [lambda r: r] if tangent is None else [tangent, lambda r: r]

        def operator(direction: Tensor) -> Tensor:
            return problem.measure(jacobian(direction))

        right = -torch.from_numpy(point.residual).to(field).view_as(field)
        delta, count = least_residual(operator, right, directions, DIRECTIONS, target / point.norm)
        # what is known is not among the unknowns
        free = problem.impose(field + delta) - field
        return _vector(free), count

    return newton(function, step, _vector(u), target=target, steps=limit)


def least_residual(
    operator: Map, right: Tensor, directions: Sequence[Map], count: int, relative: float
) -> tuple[Tensor, int]:
    """x with the smallest ‖right − Ax‖ over `count` directions, or fewer if `relative` is reached.

    The maps in `directions` turn the residual so far into the next one, each in its turn.
    """
    r, x = right.flatten().clone(), torch.zeros_like(right).flatten()
    size = float(r.norm())
    images, moves = r.new_empty((count, len(r))), r.new_empty((count, len(r)))
    for taken, direction in zip(range(count), cycle(directions), strict=False):
        if not float(r.norm()) > 0.1 * relative * size:
            return x.view_as(right), taken
        z = direction(r.view_as(right)).flatten()
        q = operator(z.view_as(right)).flatten()
        for _ in range(2):  # once is not enough where the new one nearly lies among the old ones
            overlap = images[:taken] @ q
            q, z = q - overlap @ images[:taken], z - overlap @ moves[:taken]
        length = float(q.norm())
        if not (length > 0 and np.isfinite(length)):
            return x.view_as(right), taken
        images[taken], moves[taken] = q / length, z / length
        share = r @ images[taken]
        r, x = r - share * images[taken], x + share * moves[taken]
    return x.view_as(right), count


def _ending(norms: list[float], target: float, limit: int) -> Status:
    if norms[-1] <= target:
        return Status.TOLERANCE
    return Status.STEP_LIMIT if len(norms) > limit else Status.STALLED


def _observation(
    problem: Problem, field: Tensor, before: Tensor, norm: float, scale: Tensor
) -> Observation:
    norms, none = torch.tensor([norm], dtype=torch.float64), torch.tensor([0])
    residual = problem.residual(field)
    return Observation("polish", 0, none, field, residual, norms, scale, field - before)


def _vector(field: Tensor) -> Vector:
    return np.asarray(field.detach().flatten().cpu().numpy())


def _field(problem: Problem, x: Vector) -> Tensor:
    shape = problem.equation.solution_shape(problem.resolution)
    return torch.from_numpy(x).to(problem.inputs).view(1, *shape)
