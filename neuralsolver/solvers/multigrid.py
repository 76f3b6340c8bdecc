"""Multigrid without a network, as the step of a solve: what serves where no corrector does.

Shapes, mirrors, rings, small grids and boxes of three dimensions have no corrector of their own.
There a linear equation is solved by the V-cycles of `reference.multigrid` under flexible GMRES, a
nonlinear one by Newton's method. The same cycle is the yardstick of the correctors.
"""

from __future__ import annotations

import math
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.equations import Grid, Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.reference.multigrid import Axis, Below, Multigrid
from neuralsolver.reference.newton import Solve, factorised
from neuralsolver.solvers.iterate import Inverse, Iterate, Stepper
from neuralsolver.solvers.newton import newton_correction

HALVINGS = 12
COARSEST_POINTS = 8


class MultigridStep:
    """u ← u − M r with one V-cycle M ≈ J⁻¹ per sample, or for all where J is one and the same.

    `below` answers in the place of the coarser grids: a corrector (`solvers.shapes`).
    """

    def __init__(self, problem: Problem, below: Below | None = None) -> None:
        self.cycles = hierarchies(problem, below)

    def __call__(self, now: Iterate) -> Tensor:
        return now.problem.impose(now.u - self.inverse(now.problem.grid, now.residual))

    def inverse(self, grid: Grid, r: Tensor) -> Tensor:
        """An approximation of J⁻¹r."""
        right = _symmetric(grid, grid.flatten(r)).double().cpu().numpy()
        if len(self.cycles) == 1:
            answer = self.cycles[0].solve(right.T).T
        else:
            pairs = zip(self.cycles, right, strict=True)
            answer = np.stack([cycle.solve(vector) for cycle, vector in pairs])
        return grid.unflatten(torch.from_numpy(np.ascontiguousarray(answer)), r)

    def of(self, problem: Problem) -> Inverse:
        """`inverse` on the grid of a problem."""
        return partial(self.inverse, problem.grid)

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if len(self.cycles) > 1:
            self.cycles = [c for c, kept in zip(self.cycles, mask.tolist(), strict=True) if kept]


class Factors:
    """What a corrector does on the coarsest grid of a `VCycle`, by sparse factors of J.

    With a coarsest grid of `COARSEST_POINTS` a side this is plain geometric multigrid: its finer
    operators are stencils, of which none has to be multiplied with another. In a box it is set up
    in a fraction of the time of the Galerkin products above, which shapes and mirrors need.
    """

    smoothing = 0
    corrector_reads: tuple[str, ...] = ("error",)

    def __init__(self) -> None:
        self.kept: WeakKeyDictionary[Problem, list[Solve]] = WeakKeyDictionary()

    def predict(self, problem: Problem) -> Tensor:
        """The first guess."""
        return problem.first_guess()

    def correction(self, now: Iterate, number: int = 0) -> Tensor:
        """−J⁻¹r, of every sample or with the factors of one where J is the same for all."""
        grid, factors = now.problem.grid, self._factors(now.problem)
        right = grid.flatten(now.residual).double().cpu().numpy()
        if len(factors) == 1:
            answer = factors[0](right.T).T
        else:
            answer = np.stack([f(vector) for f, vector in zip(factors, right, strict=True)])
        return -grid.unflatten(torch.from_numpy(np.ascontiguousarray(answer)), now.residual)

    def stepper(self) -> Stepper:
        """Corrections as steps."""
        return lambda now: now.problem.impose(now.u + self.correction(now))

    def _factors(self, problem: Problem) -> list[Solve]:
        if problem not in self.kept:
            one = problem if problem.equation.jacobian_reads else problem.select([0])
            double = one.in_precision(torch.float64)
            matrices = sparse_jacobian(double, double.zeros())
            self.kept[problem] = [factorised(matrix) for matrix in matrices]
        return self.kept[problem]


class NewtonStep:
    """u ← u + αδ with J(u)δ = −F(u) by sparse factors, and the first α = 1, ½ … that helps."""

    def __call__(self, now: Iterate) -> Tensor:
        problem, delta = now.problem, newton_correction(now.problem, now.u, now.residual)
        before, alpha = _size(now.residual), torch.ones_like(_size(now.residual))
        u = problem.impose(now.u + delta)
        for _ in range(HALVINGS):
            worse = ~(_size(problem.residual(u)) < before)
            if not bool(worse.any()):
                break
            alpha = torch.where(worse, alpha / 2, alpha)
            u = problem.impose(now.u + alpha.view(-1, *[1] * (u.dim() - 1)) * delta)
        return u


def sparse_inverse(problem: Problem, u: Tensor) -> Inverse:
    """J(u)⁻¹: a V-cycle of a linear problem, sparse factors of any other."""
    if problem.equation.linear:
        return MultigridStep(problem).of(problem)
    grid = problem.grid
    factors = [factorised(matrix) for matrix in sparse_jacobian(problem, u)]

    def inverse(r: Tensor) -> Tensor:
        right = grid.flatten(r).double().cpu().numpy()
        found = [factor(vector) for factor, vector in zip(factors, right, strict=True)]
        return grid.unflatten(torch.from_numpy(np.stack(found)), r)

    return inverse


def hierarchies(problem: Problem, below: Below | None = None) -> list[Multigrid]:
    """The hierarchy of each sample of a linear problem, or a single one where they agree."""
    if not problem.equation.jacobian_reads and _same_points(problem):
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
    if problem.known is not None:
        free = (~grid.flatten(problem.known.mask)).cpu().numpy()
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
    mask = None if problem.known is None else problem.known.mask
    return mask is None or bool((mask == mask[:1]).all())


def _size(r: Tensor) -> Tensor:
    return r.flatten(1).square().sum(1)
