"""The extreme singular values of a trajectory's Jacobian, from products alone.

    J d = ∂ₜd + v·∇d + (curl⁻¹d)·∇w − νΔd        d = 0 in the first frame

over the directions d = Pd that are free: P takes away the first frame and, where the 2/3 rule
imposes them, the modes beyond n/3. JᵀJ has eigenvalues from σ_min² < 1 to σ_max² ≈ 10⁴ and a
hundred thousand unknowns, so it is neither formed nor inverted. Instead the linearised flow

    ∂ₜe + v·∇e + (curl⁻¹e)·∇w − νΔe = r,   e(t₀) = 0,       e = Kr

is stepped through time (`equations/flow_integration.py`): K is J⁻¹ but for the differences in
time, KKᵀ preconditions JᵀJ, and LOBPCG minimises ‖Jd‖²/‖d‖².
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator, eigsh, lobpcg
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.fields.jacobian import linearisation

Vector = npt.NDArray[np.float64]

PRECISION = torch.float32
BLOCK, CYCLE, CYCLES = 4, 20, 12
"""Vectors of LOBPCG, the iterations after which it is looked at, and how often that is done. With
two vectors it has been seen to rest in the second singular value, where the first two are 3 %
apart."""


class Trajectory:
    """J(u) of one trajectory over the free directions, its transpose, and K with its transpose."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        self.problem, self.shape, self.size = problem, u.shape, u.numel()
        self._zero = problem.impose(torch.zeros_like(u))
        self._forward = linearisation(problem, u)
        self._point = u.clone().requires_grad_(True)
        with torch.enable_grad():
            self._residual = problem.residual(self._point)
        # K r, linear in r: one graph serves all transposed products
        self._source = torch.zeros_like(u, dtype=PRECISION).requires_grad_(True)
        self._tangent = cast(Any, problem.equation.invert_linearisation(u.to(PRECISION)))
        with torch.enable_grad():
            linear: Any = problem.equation.invert_linear_part(self._source)
            self._answer = self._tangent(linear)

    def project(self, direction: Vector) -> Vector:
        """P d."""
        field = torch.from_numpy(np.ascontiguousarray(direction)).view(self.shape)
        return (self.problem.impose(field) - self._zero).numpy().reshape(-1)

    def forward(self, direction: Vector) -> Vector:
        """J P d."""
        field = torch.from_numpy(self.project(direction)).view(self.shape)
        return self._forward(field).detach().numpy().reshape(-1)

    def backward(self, values: Vector) -> Vector:
        """P Jᵀ v."""
        field = torch.from_numpy(np.ascontiguousarray(values)).view(self.shape)
        (product,) = torch.autograd.grad(self._residual, self._point, field, retain_graph=True)
        return self.project(product.numpy().reshape(-1))

    def normal(self, direction: Vector) -> Vector:
        """P Jᵀ J P d."""
        return self.backward(self.forward(direction.reshape(-1)))

    def precondition(self, values: Vector) -> Vector:
        """P K Kᵀ P d."""
        field = torch.from_numpy(self.project(values.reshape(-1))).view(self.shape)
        (back,) = torch.autograd.grad(
            self._answer, self._source, field.to(PRECISION), retain_graph=True
        )
        answer = self._tangent(self.problem.equation.invert_linear_part(back))
        return self.project(answer.double().numpy().reshape(-1))


def trajectory_triplet(
    problem: Problem, u: Tensor, rng: np.random.Generator, settled: float
) -> tuple[float, float, float, Vector, Vector]:
    """(σ_min, σ_max, change, v, w) of one trajectory.

    σ_min = ‖Jv‖ for the v that was found, so it bounds the smallest singular value from above;
    `change` is the fraction by which the last cycle of iterations lowered it, at most `settled`
    unless the cycles ran out.
    """
    jacobian = Trajectory(problem, u)
    normal, inverse = (
        _operator(jacobian.size, apply) for apply in (jacobian.normal, jacobian.precondition)
    )
    start = jacobian.project(rng.standard_normal(jacobian.size))
    _, top = eigsh(normal, k=1, v0=start, ncv=20, tol=1e-2, maxiter=200)
    largest = float(np.linalg.norm(jacobian.forward(top[:, 0])))
    block = np.stack(
        [jacobian.precondition(rng.standard_normal(jacobian.size)) for _ in range(BLOCK)], 1
    )
    smallest = math.inf
    for _ in range(CYCLES):
        with warnings.catch_warnings():  # it says that it is not done yet
            warnings.simplefilter("ignore", UserWarning)
            _, found = lobpcg(normal, block, M=inverse, largest=False, tol=1e-12, maxiter=CYCLE)
        block = np.asarray(found, dtype=np.float64)
        v = block[:, 0] / np.linalg.norm(block[:, 0])
        image = jacobian.forward(v)
        before, smallest = smallest, float(np.linalg.norm(image))
        change = 1 - smallest / before
        if change <= settled:
            break
    return smallest, largest, max(change, 0.0), v, image / smallest


def _operator(size: int, apply: Callable[[Vector], Vector]) -> Any:
    def block(columns: Vector) -> Vector:
        return np.stack([apply(column) for column in columns.T], 1)

    return LinearOperator((size, size), matvec=apply, matmat=block, dtype=np.float64)
