"""Solving without a network: the method follows from what the problem is.

    J u = b linear, one stencil in a box between walls    sine transform
    J linear and definite, many unknowns                  multigrid under conjugate gradients
    any other linear J, and that of several fields        sparse LU, at once where J is indefinite
    F nonlinear with a sparse J                           Newton with a line search
    flows                                                 Picard, Anderson mixing, Newton-Krylov

A transform and a factorisation are direct: u ← u − J⁻¹F(u) is then repeated only to remove what was
rounded (`direct`). Both serve any number of sources, which `prepare` makes use of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import has_sparse_jacobian
from neuralsolver.solvers.direct import LARGE, DirectStep, sine_inverse
from neuralsolver.solvers.krylov import accelerated
from neuralsolver.solvers.loop import (
    Iterations,
    Observer,
    Solve,
    Solver,
    Stepper,
    in_natural_units,
)
from neuralsolver.solvers.multigrid import MultigridStep
from neuralsolver.solvers.network_free import picard
from neuralsolver.solvers.newton import NewtonStep, polished
from neuralsolver.solvers.solution import Solution
from neuralsolver.solvers.stopping import ResidualBelow

DEFAULT_TOLERANCE = 1e-6
MAX_STEPS, PATIENCE = 200, 40
REFINEMENTS, REFINEMENT_PATIENCE = 12, 3


def solve(
    problem: Problem,
    tolerance: float | None = None,
    *,
    u0: Tensor | npt.ArrayLike | None = None,
    observe: Observer | None = None,
) -> Solution:
    """Solve a problem classically, by the method that suits it.

    >>> import neuralsolver as ns
    >>> solution = ns.solve(ns.Problem.random(ns.Helmholtz(wavenumber=40.0), 64), tolerance=1e-10)
    >>> solution.good, solution.notes["method"]
    (True, 'sine transform')

    Args:
        problem: The equation with its inputs, on any grid that the equation knows.
        tolerance: The residual to reach, as a fraction of that of the first guess: 1e-6, or for a
            flow as far as its residual falls.
        u0: A field to begin with, in the layout of the inputs or of the solution.
        observe: Called with every observation on the way.

    Returns:
        The solution with a status per sample. A tolerance that was not reached is a status, not an
        exception. `notes["method"]` names the method.

    Raises:
        InvalidInput: The equation has no sparse Jacobian and is no flow.
    """
    return ClassicalSolver().solve(problem, u0, observe, tolerance=tolerance)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ClassicalSolver(Solver):
    """The solver behind `solve`: it needs no network.

    Attributes:
        factor: The direct solver of one operator, kept from one problem to the next (`prepare`).
    """

    factor: DirectStep | None = field(default=None, repr=False)

    def run(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The solve of `compose` in natural units and float64."""
        if problem.equation.boundary == "periodic":
            answer = yield from picard(problem).run(problem, u0, **options)
            return _labelled(answer, "Picard and Newton-Krylov")
        problem = problem.in_precision(torch.float64)
        given = None if u0 is None else u0.double()
        compose = partial(self.compose, **options)
        answer = yield from in_natural_units(compose, problem, given)
        return answer.judged(options.get("tolerance") or DEFAULT_TOLERANCE)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """A solve with the option `tolerance`."""
        asked = options.get("tolerance")
        tolerance = DEFAULT_TOLERANCE if asked is None else asked
        start = problem.first_guess() if u0 is None else problem.impose(u0)
        stepper, method = self._method(problem)
        stop = ResidualBelow(tolerance, MAX_STEPS, PATIENCE)
        if isinstance(stepper, DirectStep):
            stop = ResidualBelow(tolerance, REFINEMENTS, REFINEMENT_PATIENCE)

        def finish(solution: Solution) -> Iterations:
            if not isinstance(stepper, DirectStep):
                solution = yield from polished(solution, tolerance)
            return _labelled(solution, method)

        return Solve(problem, start, stepper, stop, [finish])

    def _method(self, problem: Problem) -> tuple[Stepper, str]:
        equation, grid = problem.equation, problem.grid
        if not has_sparse_jacobian(problem):
            expected = "a sparse Jacobian (fields between walls), or a flow"
            raise InvalidInput("problem", expected, equation.name)
        if self.factor is not None:
            self.factor.check(problem)
            return self.factor, self.factor.method
        if not equation.linear:
            return NewtonStep(), "Newton"
        inverse = sine_inverse(problem)
        if inverse is not None:
            return DirectStep(problem, [inverse], "sine transform"), "sine transform"
        definite = equation.definite_on(grid)
        slow_to_factorise = grid.dimension > 2 and equation.self_adjoint
        large = problem.space.scalar and grid.size > LARGE[grid.dimension]
        if large and (definite or slow_to_factorise):
            return accelerated(MultigridStep(problem), problem), "multigrid"
        return DirectStep.factorised(problem), "sparse LU"


def prepare(problem: Problem) -> ClassicalSolver:
    """The direct solver of a linear problem's operator: one factorisation for many sources.

    Args:
        problem: One sample of the operator, or several of the same one.

    Returns:
        A solver of all problems with the same equation, grid, fixed points and coefficients. It
        raises InvalidInput for any other.

    Raises:
        InvalidInput: The problem is not linear, has no sparse Jacobian, or several operators.
    """
    if not (problem.equation.linear and has_sparse_jacobian(problem)):
        raise InvalidInput("problem", "a linear equation with a sparse Jacobian", problem.equation)
    problem = problem.in_precision(torch.float64)
    found = problem.natural()
    inner = problem if found is None else found[0]
    step = DirectStep.of(inner)
    if len(step.inverses) > 1:
        raise InvalidInput("problem", "one operator", f"{len(step.inverses)} different ones")
    return ClassicalSolver(step)


def _labelled(solution: Solution, method: str) -> Solution:
    return replace(solution, notes={**solution.notes, "method": method})
