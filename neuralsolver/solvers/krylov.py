"""Krylov methods: wrappers around any step, for equations on which the plain iteration is too slow.

`Krylov` (linear F(u) = Au − b). The correction z of the step is a search direction, q = Az. With
earlier directions projected out, u ← u + αz, α = −⟨r,q⟩/⟨q,q⟩ minimises ‖r‖ over all directions so
far. This is flexible GMRES in the form of generalised conjugate residuals: the preconditioner may
change from step to step, so a nonlinear network is allowed, and the residual never grows. It also
converges where the operator is indefinite and no fixed-point iteration can.

With `conjugate` (A symmetric and definite) directions are conjugate, ⟨z,Az'⟩ = 0, and
α = −⟨r,z⟩/⟨z,Az⟩, which minimises the energy ½⟨e,Ae⟩ of the error instead of ‖r‖. Where a
coefficient spans orders of magnitude the two are far apart: a residual is small where an error of
low permeability is large, and the directions that ‖r‖ prefers leave residuals in which a corrector
no longer finds it. This is flexible CG with all directions kept.

`Anderson` (nonlinear). Of the last m iterates, corrections and residuals, the combination whose
residual, linearised along the differences, is smallest:

    γ = argmin ‖r − ΔR γ‖,    u ← (u − ΔU γ) + (c − ΔC γ)

The mixing minimises the physical residual, as the problem measures it, not the size of the
correction: an iterate at which the network has nothing more to say is no solution for that.

`least_residual` is `Krylov` for one vector instead of a solve, and `flexible_gmres` the same in the
form of SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import aslinearoperator
from torch import Tensor
from torch.linalg import vecdot

from neuralsolver.cancellation import checkpoint
from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import State, Stepper
from neuralsolver.solvers.sparse_newton import Vector

Map = Callable[[Tensor], Tensor]

ROWS = 8
"""Directions for which room is made at a time."""
MEMORY_BYTES = 1e9
"""What the directions of `Krylov` may occupy when their number is not given."""
MEMORY, MEMORY_OF_FRAMES = 8, 15
"""Iterates that Anderson mixes: with fewer, a flow of smaller viscosity drifts away again."""


def accelerated(step: Stepper, problem: Problem) -> Stepper:
    """A step with the acceleration that suits its problem."""
    equation = problem.equation
    if not equation.linear:
        return Anderson(step, MEMORY_OF_FRAMES if equation.frames else MEMORY)
    whole = problem.space.scalar and not problem.fixed_inside
    return Krylov(step, conjugate=whole and equation.definite_on(problem.grid))


@dataclass(eq=False)
class Directions:
    """Directions z and their images q = Az, made orthogonal and of unit length as they come.

    Both are the rows of one array (samples, directions, points), so that a projection is two
    products with it. Orthogonal are the images, or with `conjugate` image and direction. Beyond
    `memory` directions the oldest is forgotten.
    """

    memory: int | None
    conjugate: bool = False
    directions: Tensor | None = None
    images: Tensor | None = None
    count: int = 0

    def add(self, z: Tensor, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add a pair (samples, points): as it is held, what r is tested against, and its length."""
        if self.images is not None and self.directions is not None:
            held = min(self.count, self.images.shape[1])
            past, images = self.directions[:, :held], self.images[:, :held]
            # twice: once is not enough when the new direction nearly lies among the old ones
            for _ in range(2):
                overlap = torch.bmm(images, self._tested(z, q)[:, :, None]).mT
                q = torch.baddbmm(q[:, None], overlap, images, alpha=-1)[:, 0]
                z = torch.baddbmm(z[:, None], overlap, past, alpha=-1)[:, 0]
        length = vecdot(q, self._tested(z, q)).abs().sqrt()
        unit = length.clamp_min(torch.finfo(q.dtype).tiny)[:, None]
        q, z = q / unit, z / unit
        tested = self._tested(z, q)
        if self.memory is None:
            # decided once: samples that stop must not change what the others remember
            self.memory = max(10, int(MEMORY_BYTES / (2 * q.numel() * q.element_size())))
        if self.images is None or self.directions is None:
            self.directions, self.images = z[:, None][:, :0], q[:, None][:, :0]
        room = self.images.shape[1]
        if self.count >= room and room < self.memory:
            more = min(room + ROWS, self.memory) - room
            self.directions = torch.cat([self.directions, z.new_empty(len(z), more, z.shape[1])], 1)
            self.images = torch.cat([self.images, q.new_empty(len(q), more, q.shape[1])], 1)
        place = self.count % self.images.shape[1]
        self.directions[:, place], self.images[:, place] = z, q
        self.count += 1
        return z, tested, length

    def _tested(self, z: Tensor, q: Tensor) -> Tensor:
        if not self.conjugate:
            return q
        # ⟨z, Az⟩ of a direction of unit length is 1, or −1 where A is negative
        if self.images is None or self.directions is None:
            return z * torch.sign(vecdot(z, q))[:, None]
        return z * torch.sign(vecdot(self.directions[:, 0], self.images[:, 0]))[:, None]

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if self.images is not None and self.directions is not None:
            self.directions, self.images = self.directions[mask], self.images[mask]


class Krylov:
    """Flexible GMRES around a step, or flexible conjugate gradients.

    Args:
        step: What proposes a correction.
        memory: Directions that are held; as many as fit into a gigabyte unless given.
        conjugate: For a symmetric operator of either sign: minimise the energy of the error.
    """

    def __init__(
        self, step: Stepper, memory: int | None = None, *, conjugate: bool = False
    ) -> None:
        self.step, self.held = step, Directions(memory, conjugate)
        self.constant: Tensor | None = None

    def __call__(self, now: State) -> Tensor:
        if not now.problem.equation.linear:
            raise InvalidInput("acceleration", "a linear equation", now.problem.equation.name)
        z = self.step(now) - now.u
        if self.constant is None:
            self.constant = now.problem.residual(torch.zeros_like(z))
        # a direction has no length of its own: with that of F(0) little cancels in F(z) − F(0)
        ratio = self.constant.flatten(1).norm(dim=1) / now.residual.flatten(1).norm(dim=1)
        usable = (ratio > 0) & torch.isfinite(ratio)
        z = z * torch.where(usable, ratio, 1.0).view(-1, *[1] * (z.dim() - 1))
        in_units = now.problem.in_field_units
        q = in_units(now.problem.residual(z).sub_(self.constant)).flatten(1)
        direction, tested, _ = self.held.add(z.flatten(1), q)
        share = vecdot(in_units(now.residual).flatten(1), tested)[:, None]
        answer: Tensor = now.u - (share * direction).view_as(now.u)
        return answer

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.held.keep(mask)
        self.constant = None if self.constant is None else self.constant[mask]
        if hasattr(self.step, "keep"):
            self.step.keep(mask)


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

    def __call__(self, now: State) -> Tensor:
        proposal, measured = self.step(now).flatten(1), now.preconditioned_residual.flatten(1)
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
            self.moves, self.images = (
                part.new_empty(len(part), self.memory, part.shape[1]) for part in (move, image)
            )
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


def least_residual(
    operator: Map,
    right: Tensor,
    directions: Sequence[Map],
    count: int,
    relative: float,
    observe: Callable[[float], None] | None = None,
) -> tuple[Tensor, int]:
    """The x of the smallest ‖right − Ax‖ over a few directions.

        z = M(r),  q = Az,  q ⟂ earlier q,    x ← x + ⟨r, q⟩/⟨q, q⟩ z

    Args:
        operator: z to Az, linear.
        right: The right-hand side, of any shape.
        directions: Maps M from the residual so far to the next direction, each in its turn; they
            need not be linear, and the residual never grows.
        count: At most so many directions; fewer where A maps one to nothing new.
        relative: Stop where the residual is this part of that of zero.
        observe: Called with the part that is left after each direction.

    Returns:
        x in the shape of `right`, and the number of directions.
    """
    r, x, held = (
        right.flatten()[None].clone(),
        torch.zeros_like(right).flatten()[None],
        Directions(count),
    )
    size = float(r.norm())
    left = size
    for taken, direction in zip(range(count), cycle(directions), strict=False):
        if not left > relative * size:
            return x.view_as(right), taken
        checkpoint()
        z = direction(r.view_as(right))
        z, q, length = held.add(z.flatten()[None], operator(z).flatten()[None])
        if not (float(length) > 0 and np.isfinite(float(length))):
            return x.view_as(right), taken
        share = vecdot(r, q)
        r, x = r - share * q, x + share * z
        left = float(r.norm())
        if observe is not None:
            observe(left / size)
    return x.view_as(right), count


def flexible_gmres(
    matrix: Any,
    right: Vector,
    *,
    preconditioner: Any,
    rtol: float = 1e-8,
    maxiter: int = 200,
    callback: Callable[[float], None] | None = None,
) -> tuple[Vector, int]:
    """x with ‖right − Ax‖ ≤ rtol ‖right‖ by any preconditioner, in the form of SciPy's methods.

    >>> import numpy as np
    >>> from neuralsolver.solvers import flexible_gmres
    >>> x, failed = flexible_gmres(np.diag([1.0, 2.0]), np.ones(2), preconditioner=np.eye(2))
    >>> x.round(6).tolist(), failed
    ([1.0, 0.5], 0)

    Args:
        matrix: A: anything that SciPy's `aslinearoperator` knows.
        right: The right-hand side.
        preconditioner: An approximation of A⁻¹, likewise; it need not be linear.
        rtol: The part of the residual that may be left.
        maxiter: Iterations at most.
        callback: Called with the relative residual after each iteration.

    Returns:
        x, and zero where it is found or else the iterations.
    """
    operator, inverse = aslinearoperator(matrix), aslinearoperator(preconditioner)
    right = np.asarray(right, dtype=np.float64).ravel()
    if not np.isfinite(right).all():
        raise InvalidInput("right-hand side", "finite values", "NaN or infinity")
    if operator.shape != inverse.shape or operator.shape[0] != len(right):
        expected = f"the shape of the matrix, {operator.shape}"
        raise InvalidInput("preconditioner", expected, f"{inverse.shape}, {len(right)} values")

    def product(factor: Any) -> Map:
        return lambda v: torch.from_numpy(np.array(factor.matvec(v.numpy()), dtype=np.float64))

    left = [1.0 if right.any() else 0.0]

    def seen(part: float) -> None:
        left.append(part)
        if callback is not None:
            callback(part)

    b = torch.from_numpy(right.copy())
    x, taken = least_residual(product(operator), b, [product(inverse)], maxiter, rtol, seen)
    return x.numpy(), 0 if left[-1] <= rtol else max(taken, 1)
