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

from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.iterate import Iterate, Stepper

ROWS = 8
"""Directions for which room is made at a time."""
MEMORY_BYTES = 1e9
"""What the directions of `Krylov` may occupy when their number is not given."""


class Krylov:
    """Flexible GMRES around a step; beyond `memory` directions the oldest is forgotten.

    Directions and images are the rows of one array (samples, directions, points) each, so that a
    projection is two products with it.
    """

    def __init__(self, step: Stepper, memory: int | None = None) -> None:
        self.step, self.memory = step, memory
        self.directions: Tensor | None = None
        self.images: Tensor | None = None
        self.count = 0
        self.constant: Tensor | None = None

    def __call__(self, now: Iterate) -> Tensor:
        if not now.problem.equation.linear:
            raise InvalidInput("acceleration", "a linear equation", now.problem.equation.name)
        z = self.step(now) - now.u
        if self.constant is None:
            self.constant = now.problem.residual(torch.zeros_like(z))
        # a direction has no length of its own: with that of F(0) little cancels in F(z) − F(0)
        z = z * _over(self.constant, now.residual)
        q = now.problem.residual(z).sub_(self.constant).flatten(1)
        z = z.flatten(1)
        if self.images is not None and self.directions is not None:
            held = min(self.count, self.images.shape[1])
            past, images = self.directions[:, :held], self.images[:, :held]
            # twice: once is not enough when the new direction nearly lies among the old ones
            for _ in range(2):
                overlap = torch.bmm(images, self._tested(z, q)[:, :, None]).mT
                q = torch.baddbmm(q[:, None], overlap, images, alpha=-1)[:, 0]
                z = torch.baddbmm(z[:, None], overlap, past, alpha=-1)[:, 0]
        squared = _inner(q, self._tested(z, q)).abs()[:, None]
        length = squared.sqrt().clamp_min(torch.finfo(q.dtype).tiny)
        q, z = q / length, z / length
        tested = self._tested(z, q)
        self._add(z, q)
        share = _inner(now.residual.flatten(1), tested)[:, None]
        answer: Tensor = now.u - (share * z).view_as(now.u)
        return answer

    def _tested(self, z: Tensor, q: Tensor) -> Tensor:
        """What of a direction z with q = Az images are tested against: directions are made so that
        it is orthogonal to all of them, and of unit length on its own."""
        return q

    def _add(self, direction: Tensor, image: Tensor) -> None:
        """Hold one more pair, in the place of the oldest where there is no more room."""
        if self.memory is None:
            # decided once: samples that stop must not change what the others remember
            self.memory = max(10, int(MEMORY_BYTES / (2 * image.numel() * image.element_size())))
        if self.images is None or self.directions is None:
            self.directions, self.images = _room(direction, 0), _room(image, 0)
        room = self.images.shape[1]
        if self.count >= room and room < self.memory:
            more = min(room + ROWS, self.memory) - room
            self.directions = torch.cat([self.directions, _room(direction, more)], 1)
            self.images = torch.cat([self.images, _room(image, more)], 1)
        place = self.count % self.images.shape[1]
        self.directions[:, place], self.images[:, place] = direction, image
        self.count += 1

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if self.images is not None and self.directions is not None:
            self.directions, self.images = self.directions[mask], self.images[mask]
        self.constant = None if self.constant is None else self.constant[mask]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


class Conjugate(Krylov):
    """Flexible conjugate gradients around a step, for a symmetric operator of either sign."""

    def _tested(self, z: Tensor, q: Tensor) -> Tensor:
        # ⟨z, Az⟩ of a direction of unit length is 1, or −1 where A is negative
        if self.images is None or self.directions is None:
            return z * torch.sign(_inner(z, q))[:, None]
        return z * torch.sign(_inner(self.directions[:, 0], self.images[:, 0]))[:, None]


def _over(one: Tensor, other: Tensor) -> Tensor:
    """‖one‖ / ‖other‖ for each sample, 1 where either is zero; it may multiply a field."""
    ratio = one.flatten(1).norm(dim=1) / other.flatten(1).norm(dim=1)
    usable = (ratio > 0) & torch.isfinite(ratio)
    return torch.where(usable, ratio, 1.0).view(-1, *[1] * (one.dim() - 1))


def _room(like: Tensor, rows: int) -> Tensor:
    """Room for so many rows beside `like` (samples, points)."""
    return like.new_empty(len(like), rows, like.shape[1])


class Anderson:
    """Anderson mixing of the last `memory` iterates of a step, by their residuals.

    Held are the differences between one iterate and the next, of the residual and of what the step
    made of it, both divided by the length of the first, and the inner products of the first: rows
    of one array (samples, differences, points) each, the newest in the place of the oldest. A new
    step costs one pass over either. What is known of a solution is the same in every proposal, so
    it is in their combination.
    """

    def __init__(self, step: Stepper, memory: int = 8) -> None:
        self.step, self.memory = step, memory
        self.last: tuple[Tensor, Tensor] | None = None
        self.moves: Tensor | None = None
        self.images: Tensor | None = None
        self.products: Tensor | None = None
        self.count = 0

    def __call__(self, now: Iterate) -> Tensor:
        proposal, measured = self.step(now).flatten(1), now.measured.flatten(1)
        if self.last is None:
            self.last = (proposal, measured)
            return proposal.view_as(now.u)
        gamma = self._shares(proposal - self.last[0], measured - self.last[1], measured)
        self.last = (proposal, measured)
        assert self.moves is not None
        held = self.moves[:, : gamma.shape[1]]
        mixed = torch.baddbmm(proposal[:, None], gamma[:, None], held, alpha=-1)
        return mixed.view_as(now.u)

    def _shares(self, move: Tensor, image: Tensor, measured: Tensor) -> Tensor:
        """Hold one more difference, and find γ of all that are held."""
        if self.moves is None or self.images is None or self.products is None:
            self.moves, self.images = (_room(part, self.memory) for part in (move, image))
            self.products = image.new_zeros(len(image), self.memory, self.memory)
        place = self.count % self.memory
        self.count += 1
        held = min(self.count, self.memory)
        # unit length, so that the small ridge means the same for all of them
        length = image.norm(dim=1, keepdim=True).clamp_min(torch.finfo(image.dtype).tiny)
        torch.div(move, length, out=self.moves[:, place])
        torch.div(image, length, out=self.images[:, place])
        row, right = (
            torch.bmm(self.images[:, :held], vector[..., None])[..., 0]
            for vector in (self.images[:, place], measured)
        )
        self.products[:, place, :held] = self.products[:, :held, place] = row
        size = max(1e-12, 10 * torch.finfo(measured.dtype).eps)
        ridge = size * torch.eye(held).to(self.products)
        gamma: Tensor = torch.linalg.solve(self.products[:, :held, :held] + ridge, right)
        return gamma

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if self.last is not None:
            self.last = (self.last[0][mask], self.last[1][mask])
        if self.moves is not None and self.images is not None and self.products is not None:
            self.moves, self.images = self.moves[mask], self.images[mask]
            self.products = self.products[mask]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each row."""
    product: Tensor = torch.linalg.vecdot(a, b)
    return product
