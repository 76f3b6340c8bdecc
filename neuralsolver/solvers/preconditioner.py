"""A solver inside somebody else's: approximations of J⁻¹ over the unknowns, and what takes them.

SciPy, PyAMG and petsc4py know a preconditioner as something with a shape and a product (`matvec`).
Ordinary Krylov methods rely on its being linear. A corrector is not: in SciPy's GMRES it stalls.
`flexible_gmres` minimises the residual over the directions that were actually taken,

    z = M(r),  q = Az,  q ⟂ earlier q,    x ← x + ⟨r, q⟩/⟨q, q⟩ z

(generalised conjugate residuals), so that M may be anything and the residual never grows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.reference.newton import Vector

NOT_LINEAR = (
    "a corrector is no linear operator: use neuralsolver.flexible_gmres, or ask for linear=True"
)


def as_operator(
    problem: Problem, inverse: Callable[[Tensor], Tensor], *, symmetric: bool = False
) -> LinearOperator:
    """J⁻¹ over the unknowns of one sample in C order, as `sparse_jacobian` numbers them.

    At points that are known J is the identity, and so is this. One that is `symmetric` in the
    shares W of the points has the transpose W J⁻¹ W⁻¹, which BiCG and QMR ask for.
    """
    if problem.batch > 1:
        raise InvalidInput("problem", "one sample (Problem.select)", f"{problem.batch} samples")
    grid, like = problem.grid, problem.zeros().double()
    free = torch.ones(1, grid.size, dtype=torch.float64)
    if problem.known is not None:
        free = (~grid.flatten(problem.known.mask)).double()

    @torch.no_grad()
    def product(vector: Vector) -> Vector:
        r = torch.from_numpy(np.array(vector, dtype=np.float64)).view(1, -1)
        answer = grid.flatten(inverse(grid.unflatten(r * free, like)))
        return np.asarray((answer * free + r * (1 - free)).numpy()[0])

    shares = grid.flatten(grid.weights[None, None])[0].numpy()

    def transposed(vector: Vector) -> Vector:
        found: Vector = shares * product(np.ravel(vector) / shares)
        return found

    return LinearOperator(
        (grid.size, grid.size),
        matvec=product,
        rmatvec=transposed if symmetric else None,
        dtype=np.float64,
    )


def flexible_gmres(
    matrix: Any,
    right: Vector,
    *,
    preconditioner: Any,
    rtol: float = 1e-8,
    maxiter: int = 200,
    callback: Callable[[float], None] | None = None,
) -> tuple[Vector, int]:
    """x with ‖right − Ax‖ ≤ rtol ‖right‖ by any preconditioner; zero, or the iterations if not.

    The arguments are those of SciPy: anything that `aslinearoperator` knows. `callback` is given
    the relative residual after each iteration.

    >>> import neuralsolver as ns, numpy as np
    >>> x, failed = ns.flexible_gmres(np.diag([1.0, 2.0]), np.ones(2), preconditioner=np.eye(2))
    >>> x.round(6).tolist(), failed
    ([1.0, 0.5], 0)
    """
    operator, inverse = aslinearoperator(matrix), aslinearoperator(preconditioner)
    right = np.asarray(right, dtype=np.float64).ravel()
    if not np.isfinite(right).all():
        raise InvalidInput("right-hand side", "finite values", "NaN or infinity")
    if operator.shape != inverse.shape or operator.shape[0] != len(right):
        expected = f"the shape of the matrix, {operator.shape}"
        raise InvalidInput("preconditioner", expected, f"{inverse.shape}, {len(right)} values")
    x, r, size = np.zeros_like(right), right.copy(), float(np.linalg.norm(right))
    directions: list[Vector] = []
    images: list[Vector] = []
    for count in range(maxiter):
        if np.linalg.norm(r) <= rtol * size:
            return x, 0
        z = inverse.matvec(r)
        q = operator.matvec(z)
        for _ in range(2):  # once is not enough where the new direction nearly lies among the old
            for direction, image in zip(directions, images, strict=True):
                overlap = float(q @ image)
                q, z = q - overlap * image, z - overlap * direction
        length = float(np.linalg.norm(q))
        if not (length > 0 and np.isfinite(length)):
            return x, count + 1
        q, z = q / length, z / length
        directions.append(z)
        images.append(q)
        step = float(r @ q)
        x, r = x + step * z, r - step * q
        if callback is not None:
            callback(float(np.linalg.norm(r)) / size)
    return x, 0 if np.linalg.norm(r) <= rtol * size else maxiter
