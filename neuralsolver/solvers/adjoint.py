"""Gradients of a solution by the implicit function theorem: no step of the solve is remembered.

    F(u(θ); θ) = 0    ⇒    ∂u/∂θ = −J⁻¹ ∂F/∂θ,    dL/dθ = −λᵀ ∂F/∂θ   with   Jᵀλ = ∂L/∂u

θ are the inputs, the values that are known, and constants given as tensors. One linear solve per
sample yields λ, whatever the number of parameters. Where J is symmetric in the shares W of the
points, Jᵀ = W J W⁻¹, the solver's own approximation of J⁻¹ preconditions it in flexible GMRES; what
does not get there, and every other J, is factorised.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import has_sparse_jacobian, sparse_jacobian
from neuralsolver.solvers.direct import lu_inverse
from neuralsolver.solvers.krylov import flexible_gmres
from neuralsolver.solvers.multigrid import as_operator
from neuralsolver.solvers.solution import Solution
from neuralsolver.solvers.sparse_newton import Vector

if TYPE_CHECKING:
    from neuralsolver.solvers.loop import Solver

ADJOINT_TOLERANCE = 1e-11
ADJOINT_STEPS = 60
"""More would take longer than a factorisation."""


def with_gradient(solver: Solver, problem: Problem, solution: Solution) -> Solution:
    """The solution as a differentiable function of what `problem` consists of."""
    if not has_sparse_jacobian(problem):
        name = problem.equation.name
        raise InvalidInput("gradient", "an equation without frames: detach the inputs", name)
    fixed, u = solution.problem, solution.tensor.detach()
    asked = problem.in_precision(u.dtype)
    residual = asked.residual(asked.impose(u))
    attached: Tensor = _Implicit.apply(residual, u, solver, fixed)  # type: ignore[no-untyped-call]
    return replace(solution, tensor=asked.impose(attached))


class _Implicit(torch.autograd.Function):
    """u as a function of the residual that a change of θ leaves at it."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, u: Tensor, solver: Solver, problem: Problem) -> Tensor:
        ctx.solver, ctx.problem, ctx.u = solver, problem, u
        return u.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return -adjoint(ctx.solver, ctx.problem, ctx.u, gradient), None, None, None


@torch.no_grad()
def adjoint(solver: Solver, problem: Problem, u: Tensor, gradient: Tensor) -> Tensor:
    """λ with Jᵀλ = gradient over the unknowns of each sample; zero where u is known."""
    problem, u = problem.in_precision(torch.float64), u.double()
    space = problem.space
    shares = space.weights.numpy()
    right = space.flatten(gradient.double()).cpu().numpy()
    if problem.fixed is not None:
        right = np.where(space.flatten(problem.fixed.mask).cpu().numpy(), 0.0, right)
    found = []
    for i, vector in enumerate(right):
        one, here = problem.select([i]), u[i : i + 1]
        found.append(_transposed(solver, one, here, vector, shares))
    return space.unflatten(torch.from_numpy(np.stack(found)), u).to(gradient)


def _transposed(
    solver: Solver, problem: Problem, u: Tensor, right: Vector, shares: Vector
) -> Vector:
    """J⁻ᵀ right of one sample."""
    (matrix,) = sparse_jacobian(problem, u)
    if problem.equation.self_adjoint and right.any():
        operator = as_operator(problem, solver.inverse(problem, u))
        answer, failed = flexible_gmres(
            matrix,
            right / shares,
            preconditioner=operator,
            rtol=ADJOINT_TOLERANCE,
            maxiter=ADJOINT_STEPS,
        )
        if not failed:
            return shares * answer
    return lu_inverse(sparse.csr_array(matrix.T), problem.space)(right)
