"""Acceleration: wrappers around any step, for equations on which the plain iteration is too slow.

`Krylov` (linear F(u) = Au − b). The correction z of the step is a search direction, q = Az. With
earlier directions projected out, u ← u + αz, α = −⟨r,q⟩/⟨q,q⟩ minimises ‖r‖ over all directions so
far. This is flexible GMRES in the form of generalised conjugate residuals: the preconditioner may
change from step to step, so a nonlinear network is allowed, and the residual never grows. It also
converges where the operator is indefinite and no fixed-point iteration can.

`Anderson` (nonlinear). Of the last m iterates, corrections and residuals, the combination whose
residual, linearised along the differences, is smallest:

    γ = argmin ‖r − ΔR γ‖,    u ← (u − ΔU γ) + (c − ΔC γ)

The mixing minimises the physical residual, as the problem weighs it, not the size of the
correction: an iterate at which the network has nothing more to say is no solution for that.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import linearisation
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.iterate import Step

MEMORY_BYTES = 1e9
"""What the directions of `Krylov` may occupy when their number is not given."""


class Krylov:
    """Flexible GMRES around a step; beyond `memory` directions the oldest is forgotten."""

    def __init__(self, step: Step, memory: int | None = None) -> None:
        self.step, self.memory = step, memory
        self.directions: list[Tensor] = []
        self.images: list[Tensor] = []

    def __call__(self, problem: Problem, u: Tensor, residual: Tensor) -> Tensor:
        if not problem.equation.linear:
            raise InvalidInput("acceleration", "a linear equation", problem.equation.name)
        z = self.step(problem, u, residual) - u
        q = linearisation(problem, u)(z)
        # twice: once is not enough when the new direction nearly lies among the old ones
        for _ in range(2):
            for direction, image in zip(self.directions, self.images, strict=True):
                overlap = _dot(q, image)
                q, z = q - overlap * image, z - overlap * direction
        length = _dot(q, q).sqrt().clamp_min(torch.finfo(q.dtype).tiny)
        q, z = q / length, z / length
        self.directions.append(z)
        self.images.append(q)
        fitting = int(MEMORY_BYTES / (2 * q.numel() * q.element_size()))
        excess = len(self.images) - (self.memory or max(10, fitting))
        if excess > 0:
            del self.directions[:excess], self.images[:excess]
        return u - _dot(residual, q) * z

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.directions = [direction[mask] for direction in self.directions]
        self.images = [image[mask] for image in self.images]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


class Anderson:
    """Anderson mixing of the last `memory` iterates of a step, by their residuals."""

    def __init__(self, step: Step, memory: int = 8) -> None:
        self.step, self.memory = step, memory
        self.history: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, problem: Problem, u: Tensor, residual: Tensor) -> Tensor:
        correction = self.step(problem, u, residual) - u
        residual = problem.weigh(residual)
        self.history.append((u, correction, residual))
        self.history = self.history[-self.memory - 1 :]
        if len(self.history) == 1:
            return u + correction
        du, dc, dr = (
            torch.stack([(b - a).flatten(1) for a, b in pairwise(column)], -1)
            for column in zip(*self.history, strict=True)
        )
        # columns of unit length, so that the small ridge means the same for all of them
        length = dr.norm(dim=1, keepdim=True).clamp_min(torch.finfo(dr.dtype).tiny)
        gram = (dr / length).mT @ (dr / length)
        size = max(1e-12, 10 * torch.finfo(gram.dtype).eps)
        ridge = size * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        right = (dr / length).mT @ residual.flatten(1)[..., None]
        gamma = torch.linalg.solve(gram + ridge, right) / length.mT
        mixed = (u + correction).flatten(1) - ((du + dc) @ gamma)[..., 0]
        return problem.impose(mixed.view_as(u))

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.history = [(u[mask], c[mask], r[mask]) for u, c, r in self.history]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product per sample, shaped to multiply a field."""
    product = (a * b).flatten(1).sum(1)
    return product.view(-1, *[1] * (a.dim() - 1))
