"""Direct solves: J⁻¹ by the sine transform or by sparse LU, for any number of sources.

    u ← u − J⁻¹F(u)        repeated only to remove what was rounded (iterative refinement)

Whether one stencil stands at every point is measured, not asked. The sine transform S = S⁻¹
diagonalises such a J, so its eigenvalues are λ = S J S 1, and one random field tells whether
J v = S λ S v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import fft
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import linearisation, sparse_jacobian
from neuralsolver.fields.space import Space
from neuralsolver.solvers.sparse_lu import SingularMatrix, SparseLU
from neuralsolver.solvers.sparse_newton import factorised

if TYPE_CHECKING:
    from neuralsolver.solvers.loop import State

Array = npt.NDArray[np.float64]
Inverse = Callable[[Array], Array]
"""b → J⁻¹b for a vector or the columns of a matrix."""
Direction = Callable[[Any, Array], Array]
"""δ of one sample from its sparse J and its F."""

LARGE = {1: 10**7, 2: 256**2, 3: 24**3}
"""Unknowns above which V-cycles are faster than a factorisation, by the dimension."""
SAME = 1e-11
"""Two operators whose images of a random field differ by less, relatively, are one."""


class DirectStep:
    """u ← u − J⁻¹F(u) with a J⁻¹ for every sample, or one for all that share their operator."""

    def __init__(self, problem: Problem, inverses: list[Inverse], method: str) -> None:
        self.inverses, self.method = inverses, method
        self.shape = problem.grid.shape
        self.image = _images(problem)[:1]

    @classmethod
    def of(cls, problem: Problem) -> DirectStep:
        """By the sine transform where one stencil stands at every point, else by sparse LU."""
        inverse = sine_inverse(problem)
        if inverse is None:
            return cls.factorised(problem)
        return cls(problem, [inverse], "sine transform")

    @classmethod
    def factorised(cls, problem: Problem) -> DirectStep:
        """By sparse LU; samples with the same operator share its factors."""
        images = _images(problem)
        if bool((images == images[:1]).all()):
            problem = problem.select([0])
        matrices = sparse_jacobian(problem, problem.zeros())
        return cls(problem, [lu_inverse(m, problem.space) for m in matrices], "sparse LU")

    def check(self, problem: Problem) -> None:
        """Raise InvalidInput unless every sample of a problem has the operator of this step."""
        if problem.grid.shape == self.shape:
            images = _images(problem)
            difference = (images - self.image).flatten(1).norm(dim=1)
            if bool((difference <= SAME * self.image.norm()).all()):
                return
        expected = "the grid, fixed points and coefficients that were prepared"
        raise InvalidInput("problem", expected, "another operator")

    def __call__(self, now: State) -> Tensor:
        space = now.problem.space
        found = solve_samples(self.inverses, space.flatten(now.residual))
        return now.problem.impose(now.u - space.unflatten(found, now.u))

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if len(self.inverses) > 1:
            pairs = zip(self.inverses, mask.tolist(), strict=True)
            self.inverses = [inverse for inverse, kept in pairs if kept]


def sine_inverse(problem: Problem) -> Inverse | None:
    """J⁻¹ by the sine transform, if one constant stencil stands at every point of a walled box."""
    grid, equation = problem.grid, problem.equation
    if not (grid.walled and equation.linear and problem.space.scalar) or problem.fixed_inside:
        return None
    if "inputs" in equation.jacobian_depends_on:
        return None
    one = problem.select([0])
    jacobian, like = linearisation(one, one.zeros()), one.zeros()

    def applied(values: Array) -> Array:
        image = jacobian(grid.unflatten(torch.from_numpy(values.reshape(1, -1)), like))
        return grid.flatten(image)[0].numpy().reshape(points)

    points = tuple(grid.interior(like).shape[2:])
    transform = partial(fft.dstn, type=1, norm="ortho")
    symbol = transform(applied(transform(np.ones(points))))
    probe = np.random.default_rng(0).standard_normal(points)
    image = applied(probe)
    wrong = np.linalg.norm(image - transform(symbol * transform(probe)))
    if not (wrong <= SAME * np.linalg.norm(image) and np.abs(symbol).min() > 0):
        return None

    def inverse(right: Array) -> Array:
        columns = right.T.reshape(-1, *points)
        axes = tuple(range(1, columns.ndim))
        found = transform(transform(columns, axes=axes) / symbol, axes=axes)
        return np.asarray(found.reshape(len(columns), -1).T)

    return inverse


def lu_inverse(matrix: Any, space: Space) -> Inverse:
    """J⁻¹ of the sparse matrix of a space by LU; not finite where J is singular or not finite."""
    if not space.uniform:  # the unknowns are no box of points
        return factorised(matrix)
    points, fields = space.interior_shape, len(space.fields)
    by_field = np.arange(space.size).reshape(-1, fields).T.ravel()
    try:
        if not np.isfinite(matrix.data).all():
            raise SingularMatrix("not finite")
        factor = SparseLU(matrix[by_field][:, by_field], points, fields=fields)
    except SingularMatrix:
        return lambda right: np.full_like(right, np.nan)

    def inverse(right: Array) -> Array:
        found = np.empty_like(right)
        found[by_field] = factor.solve(right[by_field])
        return found

    return inverse


def solve_samples(inverses: Sequence[Inverse], right: Tensor) -> Tensor:
    """J⁻¹ of every right-hand side, in float64.

    Args:
        inverses: A map of vectors for every sample, or one for all, which then maps columns.
        right: The vectors, (batch, size).

    Returns:
        The solutions, (batch, size).
    """
    rows = right.double().cpu().numpy()
    if len(inverses) == 1:
        found = inverses[0](rows.T).T
    else:
        found = np.stack([inverse(row) for inverse, row in zip(inverses, rows, strict=True)])
    return torch.from_numpy(np.ascontiguousarray(found))


def newton_correction(
    problem: Problem,
    u: Tensor,
    residual: Tensor | None = None,
    direction: Direction | None = None,
) -> Tensor:
    """δ with J(u)δ = −F(u) of every sample as a field; NaN where J is singular.

    Args:
        problem: With a sparse Jacobian.
        u: The iterate.
        residual: F(u), if it is known.
        direction: δ from J and F; by sparse LU unless given.

    Returns:
        The correction, from float64 factors.
    """
    residual = problem.residual(u) if residual is None else residual
    space, right = problem.space, problem.space.flatten(residual.detach()).double().cpu().numpy()
    pairs = zip(sparse_jacobian(problem, u), right, strict=True)
    if direction is None:
        found = [lu_inverse(jacobian, space)(-values) for jacobian, values in pairs]
    else:
        found = [direction(jacobian, values) for jacobian, values in pairs]
    return space.unflatten(torch.from_numpy(np.stack(found)), u)


def _images(problem: Problem) -> Tensor:
    """J v of each sample for one random field v that is zero where u is fixed."""
    zero = problem.zeros()
    probe = torch.randn(zero.shape[1:], generator=torch.Generator().manual_seed(0)).to(zero)
    direction = probe.expand_as(zero) * problem.free
    # one where u is fixed: other fixed points are another operator
    return linearisation(problem, zero)(direction) + (~problem.free).to(zero)
