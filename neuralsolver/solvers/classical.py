"""Finishing classically: Newton with a preconditioned Krylov method on the same discrete equation.

    J(u) δ = −F(u),   u ← u + αδ,      J sparse and exact, GMRES with an incomplete LU factorisation

A neural iterate is a good start, and a start is all that Newton asks for. Polishing ends in a
residual below the tolerance or says that it did not get there, and counts what the start was worth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.reference.newton import Point, Vector, krylov, newton
from neuralsolver.solvers.iterate import Iterations, Observation, drained
from neuralsolver.solvers.solution import Solution, Status

MAX_NEWTON = 30


def polish(solution: Solution, tolerance: float) -> Solution:
    """`solution` carried on to a relative residual of `tolerance`, in float64.

    The notes gain `classical_iterations`: Krylov iterations by the number of the sample, for those
    that were carried on. `iterations_from_zero` says what they would take without their start.
    """
    return drained(polished(solution, tolerance))


def iterations_from_zero(solution: Solution, tolerance: float) -> dict[int, int]:
    """The Krylov iterations of the same method from zero, for the samples that were polished."""
    problem = solution.problem.in_precision(torch.float64)
    counts = {}
    for i in solution.notes.get("classical_iterations", {}):
        target = tolerance * float(solution.residual_scale[i])
        *_, last = _newton(problem.select([i]), problem.zeros()[i : i + 1], target)
        counts[i] = last.inner
    return counts


def polished(solution: Solution, tolerance: float) -> Iterations:
    """The iterates of `polish`; samples that ended well are left as they are."""
    problem = solution.problem.in_precision(torch.float64)
    u, status = solution.tensor.double().clone(), list(solution.status)
    last = _last(solution.residual_norms)
    used: dict[int, int] = {}
    for i in (i for i, ended in enumerate(status) if not ended.good):
        one, target = problem.select([i]), tolerance * float(solution.residual_scale[i])
        step = int(solution.steps[i])
        for point in _newton(one, u[i : i + 1], target):
            field = _field(one, point.x)
            residual = one.grid.unflatten(torch.from_numpy(point.residual)[None], field)
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


def _newton(problem: Problem, u: Tensor, target: float) -> Iterator[Point]:
    """The iterates of one sample; the target is a root mean square over all points of the grid."""
    target *= (u[0].numel() / problem.grid.size) ** 0.5

    def function(x: Vector) -> Vector:
        residual = problem.residual(_field(problem, x))
        return np.asarray(problem.grid.flatten(residual).numpy()[0])

    def step(point: Point) -> tuple[Vector, int]:
        (jacobian,) = sparse_jacobian(problem, _field(problem, point.x))
        return krylov(jacobian, point.residual, max(0.1 * target / point.norm, 1e-12))

    start = problem.grid.flatten(u).numpy()[0]
    return newton(function, step, start, target=target, steps=MAX_NEWTON)


def _field(problem: Problem, x: Vector) -> Tensor:
    return problem.impose(problem.grid.unflatten(torch.from_numpy(x)[None], problem.zeros()))


def _norm(problem: Problem, point: Point) -> float:
    """The root mean square over all points, walls included, as residuals are measured."""
    return float(point.norm * (problem.grid.size / problem.zeros()[0].numel()) ** 0.5)


def _last(norms: Tensor) -> Tensor:
    """The last residual of each sample."""
    steps = norms.isfinite().long().mul(torch.arange(1, len(norms) + 1)[:, None]).argmax(0)
    return norms.gather(0, steps[None])[0].clone()
