"""Multigrid without a network, as the step of a solve: what serves where no corrector does.

Shapes, mirrors, rings, small grids and boxes of three dimensions have no corrector of their own.
There a linear equation is solved by the V-cycles of `geometric_multigrid` under flexible GMRES, a
nonlinear one by Newton's method. The same cycle is the yardstick of the correctors.

SciPy, PyAMG and petsc4py know a preconditioner as something with a shape and a product (`matvec`).
Ordinary Krylov methods rely on its being linear. A corrector is not: in SciPy's GMRES it stalls,
and `krylov.flexible_gmres` takes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from neuralsolver.equations import Grid, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers.direct import lu_inverse, solve_samples
from neuralsolver.solvers.geometric_multigrid import Axis, CoarseSolver, Multigrid
from neuralsolver.solvers.loop import Inverse, State
from neuralsolver.solvers.sparse_newton import Vector

NOT_LINEAR = "a corrector is no linear operator: use solvers.flexible_gmres, or ask for linear=True"


class MultigridStep:
    """u ← u − M r with one V-cycle M ≈ J⁻¹ per sample, or for all where J is one and the same.

    `below` answers in the place of the coarser grids: a corrector (`solvers.shapes`).
    """

    def __init__(self, problem: Problem, below: CoarseSolver | None = None) -> None:
        self.cycles = hierarchies(problem, below)

    def __call__(self, now: State) -> Tensor:
        return now.problem.impose(now.u - self.inverse(now.problem.grid, now.residual))

    def inverse(self, grid: Grid, r: Tensor) -> Tensor:
        """An approximation of J⁻¹r."""
        right = _symmetric(grid, grid.flatten(r))
        return grid.unflatten(solve_samples([cycle.solve for cycle in self.cycles], right), r)

    def of(self, problem: Problem) -> Inverse:
        """`inverse` on the grid of a problem."""
        return partial(self.inverse, problem.grid)

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if len(self.cycles) > 1:
            self.cycles = [c for c, kept in zip(self.cycles, mask.tolist(), strict=True) if kept]


def sparse_inverse(problem: Problem, u: Tensor) -> Inverse:
    """J(u)⁻¹: a V-cycle of a linear problem with one field, sparse factors of any other."""
    if problem.equation.linear and problem.space.scalar:
        return MultigridStep(problem).of(problem)
    space = problem.space
    factors = [lu_inverse(matrix, space) for matrix in sparse_jacobian(problem, u)]

    return lambda r: space.unflatten(solve_samples(factors, space.flatten(r)), r)


def hierarchies(problem: Problem, below: CoarseSolver | None = None) -> list[Multigrid]:
    """The hierarchy of each sample of a linear problem, or a single one where they agree."""
    if not problem.equation.jacobian_depends_on and _same_points(problem):
        problem = problem.select([0])
    grid = problem.grid
    axes = [
        Axis(np.asarray(h * np.arange(n), dtype=np.float64), length if ring else 0.0, walls)
        for n, h, length, ring, walls in zip(
            grid.shape, grid.spacing, grid.lengths, grid.periodic, grid.walls, strict=True
        )
    ]
    shares = _symmetric(grid, torch.ones(1, grid.size, dtype=torch.float64))[0].numpy()
    free = np.ones((problem.batch, grid.size), dtype=bool)
    if problem.fixed is not None:
        free = (~grid.flatten(problem.fixed.mask)).cpu().numpy()
    matrices = sparse_jacobian(problem, problem.zeros())
    if not grid.walled:
        matrices = [sparse.csr_array(sparse.diags_array(shares) @ matrix) for matrix in matrices]
    return [
        Multigrid(matrix, axes, unknown, below)
        for matrix, unknown in zip(matrices, free, strict=True)
    ]


def _symmetric(grid: Grid, vector: Tensor) -> Tensor:
    """A vector of unknowns times their shares, by which J becomes symmetric: ½ at a mirror."""
    if not any(map(any, grid.mirrors)):
        return vector
    shares = grid.weights / math.prod(grid.spacing)
    return vector * grid.flatten(shares[None, None]).to(vector)


def _same_points(problem: Problem) -> bool:
    mask = None if problem.fixed is None else problem.fixed.mask
    return mask is None or bool((mask == mask[:1]).all())


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
