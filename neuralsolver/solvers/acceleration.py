"""Acceleration: wrappers around any step, for equations on which the plain iteration is too slow.

`Krylov` (linear F(u) = Au − b). The correction z of the step is a search direction, q = Az. With
earlier directions projected out, u ← u + αz, α = −⟨r,q⟩/⟨q,q⟩ minimises ‖r‖ over all directions so
far. This is flexible GMRES in the form of generalised conjugate residuals: the preconditioner may
change from step to step, so a nonlinear network is allowed, and the residual never grows. It also
converges where the operator is indefinite and no fixed-point iteration can.

`Conjugate` (linear, A symmetric and definite). The same with directions that are conjugate, ⟨z,Az'⟩
= 0, and α = −⟨r,z⟩/⟨z,Az⟩, which minimises the energy ½⟨e,Ae⟩ of the error instead of ‖r‖. Where a
coefficient spans orders of magnitude the two are far apart: a residual is small where an error of
low permeability is large, and the directions that ‖r‖ prefers leave residuals in which a corrector
no longer finds it. This is flexible CG with all directions kept.

`Anderson` (nonlinear). Of the last m iterates, corrections and residuals, the combination whose
residual, linearised along the differences, is smallest:

    γ = argmin ‖r − ΔR γ‖,    u ← (u − ΔU γ) + (c − ΔC γ)

The mixing minimises the physical residual, as the problem measures it, not the size of the
correction: an iterate at which the network has nothing more to say is no solution for that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from neuralsolver.equations.jacobian import linearisation
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.iterate import Iterate, Stepper

MEMORY_BYTES = 1e9
"""What the directions of `Krylov` may occupy when their number is not given."""


class Krylov:
    """Flexible GMRES around a step; beyond `memory` directions the oldest is forgotten."""

    def __init__(self, step: Stepper, memory: int | None = None) -> None:
        self.step, self.memory = step, memory
        self.directions: list[Tensor] = []
        self.images: list[Tensor] = []

    def __call__(self, now: Iterate) -> Tensor:
        if not now.problem.equation.linear:
            raise InvalidInput("acceleration", "a linear equation", now.problem.equation.name)
        z = self.step(now) - now.u
        q = linearisation(now.problem, now.u)(z)
        # twice: once is not enough when the new direction nearly lies among the old ones
        for _ in range(2):
            for direction, image in zip(self.directions, self.images, strict=True):
                overlap = self._overlap(z, q, image)
                q, z = q - overlap * image, z - overlap * direction
        length = self._overlap(z, q, q).abs().sqrt().clamp_min(torch.finfo(q.dtype).tiny)
        q, z = q / length, z / length
        self.directions.append(z)
        self.images.append(q)
        if self.memory is None:
            # decided once: samples that stop must not change what the others remember
            self.memory = max(10, int(MEMORY_BYTES / (2 * q.numel() * q.element_size())))
        excess = len(self.images) - self.memory
        if excess > 0:
            del self.directions[:excess], self.images[:excess]
        return now.u - self._share(now.residual, z, q) * z

    def _overlap(self, z: Tensor, q: Tensor, image: Tensor) -> Tensor:
        """How much of a direction z with q = Az an earlier one of this image has."""
        return _dot(q, image)

    def _share(self, r: Tensor, z: Tensor, q: Tensor) -> Tensor:
        """−α of a direction of unit length."""
        return _dot(r, q)

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.directions = [direction[mask] for direction in self.directions]
        self.images = [image[mask] for image in self.images]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


class Conjugate(Krylov):
    """Flexible conjugate gradients around a step, for a symmetric operator of either sign."""

    def _overlap(self, z: Tensor, q: Tensor, image: Tensor) -> Tensor:
        # ⟨z, Az⟩ of a direction of unit length is 1, or −1 where A is negative
        return _dot(z, image) * self._sign(z, q)

    def _share(self, r: Tensor, z: Tensor, q: Tensor) -> Tensor:
        return _dot(r, z) * self._sign(z, q)

    def _sign(self, z: Tensor, q: Tensor) -> Tensor:
        if self.images:
            z, q = self.directions[0], self.images[0]
        return torch.sign(_dot(z, q))


class Anderson:
    """Anderson mixing of the last `memory` iterates of a step, by their residuals.

    Held are the differences between one iterate and the next, of the residual and of what the step
    made of it, both divided by the length of the first, and the inner products of the first. A new
    step adds one of each: its cost is one pass over what is held.
    """

    def __init__(self, step: Stepper, memory: int = 8) -> None:
        self.step, self.memory = step, memory
        self.last: tuple[Tensor, Tensor] | None = None
        self.moves: list[Tensor] = []
        self.images: list[Tensor] = []
        self.products: Tensor | None = None

    def __call__(self, now: Iterate) -> Tensor:
        proposal, measured = self.step(now).flatten(1), now.measured.flatten(1)
        if self.last is not None:
            self._add(proposal - self.last[0], measured - self.last[1])
        self.last = (proposal, measured)
        if self.products is None:
            return proposal.view_as(now.u)
        size = max(1e-12, 10 * torch.finfo(measured.dtype).eps)
        ridge = size * torch.eye(len(self.images)).to(self.products)
        right = torch.stack([_inner(image, measured) for image in self.images], -1)
        gamma = torch.linalg.solve(self.products + ridge, right[..., None])[..., 0]
        mixed = proposal.clone()
        for share, move in zip(gamma.unbind(-1), self.moves, strict=True):
            mixed.addcmul_(share[:, None], move, value=-1)
        return now.problem.impose(mixed.view_as(now.u))

    def _add(self, move: Tensor, image: Tensor) -> None:
        """Hold one more difference; beyond `memory` the oldest is forgotten."""
        # unit length, so that the small ridge means the same for all of them
        length = image.norm(dim=1, keepdim=True).clamp_min(torch.finfo(image.dtype).tiny)
        self.moves.append(move / length)
        self.images.append(image / length)
        if len(self.images) > self.memory:
            self.moves, self.images = self.moves[1:], self.images[1:]
            assert self.products is not None
            self.products = self.products[:, 1:, 1:]
        row = torch.stack([_inner(self.images[-1], other) for other in self.images], -1)
        count = len(self.images)
        grown = row.new_zeros((len(row), count, count))
        if self.products is not None:
            grown[:, :-1, :-1] = self.products
        grown[:, -1], grown[:, :, -1] = row, row
        self.products = grown

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if self.last is not None:
            self.last = (self.last[0][mask], self.last[1][mask])
        self.moves = [move[mask] for move in self.moves]
        self.images = [image[mask] for image in self.images]
        self.products = None if self.products is None else self.products[mask]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each row."""
    product: Tensor = torch.linalg.vecdot(a, b)
    return product


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product per sample, shaped to multiply a field."""
    product = (a * b).flatten(1).sum(1)
    return product.view(-1, *[1] * (a.dim() - 1))
