"""A solver inside somebody else's: approximations of J⁻¹ over the unknowns, as SciPy knows them.

SciPy, PyAMG and petsc4py know a preconditioner as something with a shape and a product (`matvec`).
Ordinary Krylov methods rely on its being linear. A corrector is not: in SciPy's GMRES it stalls,
and `acceleration.flexible_gmres` takes it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.sparse_newton import Vector

NOT_LINEAR = "a corrector is no linear operator: use solvers.flexible_gmres, or ask for linear=True"


def as_operator(
    problem: Problem, inverse: Callable[[Tensor], Tensor], *, symmetric: bool = False
) -> LinearOperator:
    """J⁻¹ over the unknowns of one sample in C order, as `sparse_jacobian` numbers them.

    At points that are known J is the identity, and so is this. One that is `symmetric` in the
    shares W of the points has the transpose W J⁻¹ W⁻¹, which BiCG and QMR ask for.
    """
    if problem.batch > 1:
        raise InvalidInput("problem", "one sample (Problem.select)", f"{problem.batch} samples")
    space, like = problem.space, problem.zeros().double()
    free = torch.ones(1, space.size, dtype=torch.float64)
    if problem.fixed is not None:
        free = (~space.flatten(problem.fixed.mask)).double()

    @torch.no_grad()
    def product(vector: Vector) -> Vector:
        r = torch.from_numpy(np.array(vector, dtype=np.float64)).view(1, -1)
        answer = space.flatten(inverse(space.unflatten(r * free, like)))
        return np.asarray((answer * free + r * (1 - free)).numpy()[0])

    shares = space.weights.numpy()

    def transposed(vector: Vector) -> Vector:
        found: Vector = shares * product(np.ravel(vector) / shares)
        return found

    return LinearOperator(
        (space.size, space.size),
        matvec=product,
        rmatvec=transposed if symmetric else None,
        dtype=np.float64,
    )
