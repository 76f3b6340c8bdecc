"""Newton's method with a Krylov method inside, to finish what a solve has come to.

    J(u) δ = −F(u),    u ← u + αδ

`polished`: J is sparse and exact, and GMRES has an incomplete LU factorisation. A neural iterate is
a good start, and a start is all that Newton asks for. Polishing ends in a residual below the
tolerance or says that it did not get there.

`newton_krylov`: J is not sparse, as that of flows, which are measured by L⁻¹F,

    L⁻¹J(u) δ = −L⁻¹F(u)

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

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.fields.jacobian import linearisation, sparse_jacobian
from neuralsolver.solvers.acceleration import Map, least_residual
from neuralsolver.solvers.loop import Iterations, Observation, drained
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.sparse_newton import Point, Vector, krylov, newton
from neuralsolver.solvers.stopping import LEFT_THE_START

MAX_NEWTON = 30
"""Steps with a sparse J."""
DIRECTIONS = 16
"""Directions of one step; more of them take longer than another step."""
STEPS, STEPS_TO_TOLERANCE = 3, 20
"""Steps where no tolerance is asked for, and at most where one is."""
GAIN = 0.8
"""A step that leaves more than this part of the residual was the last."""
ENOUGH = 2e-6
"""What is asked for where nothing is: about what float32 resolves of a residual."""


def polish(solution: Solution, tolerance: float) -> Solution:
    """`solution` carried on to a relative residual of `tolerance`, in float64.

    The notes gain `classical_iterations`: Krylov iterations by the number of the sample, for those
    that were carried on.
    """
    return drained(polished(solution, tolerance))


def polished(solution: Solution, tolerance: float) -> Iterations:
    """The iterates of `polish`; samples that ended well are left as they are."""
    if solution.good:
        return solution
    problem = solution.problem.in_precision(torch.float64)
    u, status = solution.tensor.double().clone(), list(solution.status)
    last = _last(solution.residual_norms)
    used: dict[int, int] = {}
    for i in (i for i, ended in enumerate(status) if not ended.good):
        one, target = problem.select([i]), tolerance * float(solution.residual_scale[i])
        step = int(solution.steps[i])
        for point in _sparse_newton(one, u[i : i + 1], target):
            field = _sparse_field(one, point.x)
            residual = one.residual(field)
            norm = torch.tensor([_norm(one, point)], dtype=torch.float64)
            where, scale = torch.tensor([i]), solution.residual_scale[i : i + 1]
            correction = field - u[i : i + 1]
            yield Observation("polish", step, where, field, residual, norm, scale, correction)
            u[i], last[i], used[i] = field[0], norm[0], point.inner
            step += 1
        status[i] = Status.TOLERANCE if last[i] <= target else status[i]
    if not used:
        return solution
    return replace(
        solution,
        problem=problem,
        tensor=u,
        status=tuple(status),
        residual_norms=torch.cat([solution.residual_norms, last[None]]),
        notes={**solution.notes, "classical_iterations": used},
    )


def _sparse_newton(problem: Problem, u: Tensor, target: float) -> Iterator[Point]:
    """The iterates of one sample; the target is a root mean square over all points of the grid."""
    target *= (u[0].numel() / problem.space.size) ** 0.5

    def function(x: Vector) -> Vector:
        residual = problem.preconditioned_residual(problem.residual(_sparse_field(problem, x)))
        return np.asarray(problem.space.flatten(residual).numpy()[0])

    def step(point: Point) -> tuple[Vector, int]:
        (jacobian,) = sparse_jacobian(problem, _sparse_field(problem, point.x))
        if not problem.space.scalar:  # the rows of each field in its unit
            rows = problem.preconditioned_residual(torch.ones_like(u))
            jacobian = sparse.diags_array(problem.space.flatten(rows).numpy()[0]) @ jacobian
        return krylov(jacobian, point.residual, max(0.1 * target / point.norm, 1e-12))

    start = problem.space.flatten(u).numpy()[0]
    return newton(function, step, start, target=target, steps=MAX_NEWTON)


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
        return _vector(problem.preconditioned_residual(problem.residual(_field(problem, x))))

    def step(point: Point) -> tuple[Vector, int]:
        field = _field(problem, point.x)
        jacobian = linearisation(problem, field)
        tangent = problem.equation.invert_linearisation(field)
        directions: list[Map] = [lambda r: r] if tangent is None else [tangent, lambda r: r]

        def operator(direction: Tensor) -> Tensor:
            return problem.preconditioned_residual(jacobian(direction))

        right = -torch.from_numpy(point.residual).to(field).view_as(field)
        delta, count = least_residual(operator, right, directions, DIRECTIONS, target / point.norm)
        # what is known is not among the unknowns
        free = problem.impose(field + delta) - field
        return _vector(free), count

    return newton(function, step, _vector(u), target=target, steps=limit)


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


def _sparse_field(problem: Problem, x: Vector) -> Tensor:
    return problem.impose(problem.space.unflatten(torch.from_numpy(x)[None], problem.zeros()))


def _norm(problem: Problem, point: Point) -> float:
    """The root mean square over all points, walls included, as residuals are measured."""
    return float(point.norm * (problem.space.size / problem.zeros()[0].numel()) ** 0.5)


def _last(norms: Tensor) -> Tensor:
    """The last residual of each sample."""
    steps = norms.isfinite().long().mul(torch.arange(1, len(norms) + 1)[:, None]).argmax(0)
    return norms.gather(0, steps[None])[0].clone()
