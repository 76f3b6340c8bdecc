"""Solves in natural units (`equations.units`): what is seen and returned is in the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.units import Units, per_sample
from neuralsolver.solvers.iterate import Iterations, Observation
from neuralsolver.solvers.solution import Solution

Run = Callable[[Problem, Tensor | None], Iterations]


def in_natural_units(run: Run, problem: Problem, u0: Tensor | None) -> Iterations:
    """The run of a problem, done in its natural units where it has others."""
    found = problem.natural()
    if found is None:
        return (yield from run(problem, u0))
    inner, units = found
    running = run(inner, None if u0 is None else _divided(u0, units))
    while True:
        try:
            seen = next(running)
        except StopIteration as end:
            return _returned(end.value, problem, units)
        yield _seen(seen, units)


def _divided(u: Tensor, units: Units) -> Tensor:
    return u / per_sample(units.solution, u)


def _seen(seen: Observation, units: Units) -> Observation:
    solution, residual = (f[seen.samples] for f in (units.solution, units.residual))

    def scaled(field: Tensor, factor: Tensor) -> Tensor:
        return field * per_sample(factor, field)

    return replace(
        seen,
        u=scaled(seen.u, solution),
        residual=scaled(seen.residual, residual),
        norms=seen.norms * residual.cpu(),
        scale=seen.scale * residual.cpu(),
        correction=None if seen.correction is None else scaled(seen.correction, solution),
    )


def _returned(solution: Solution, problem: Problem, units: Units) -> Solution:
    problem = problem.in_precision(solution.problem.inputs.dtype)
    factor = units.residual.cpu()
    return replace(
        solution,
        problem=problem,
        tensor=solution.tensor * per_sample(units.solution, solution.tensor),
        residual_norms=solution.residual_norms * factor,
        residual_scale=solution.residual_scale * factor,
    )
