"""What a solver returns: the field, how it ended, and the history of its residual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import jacobian_diagonal
from neuralsolver.solvers.newton import newton_correction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESTIMATED_POINTS = 8 * 64**2
"""A summary estimates errors up to this many grid points in all samples, in about half a second."""


class Status(Enum):
    """How the solution of one sample ended; the value is a sentence for the user."""

    FINISHED = "did the number of steps asked for"
    TOLERANCE = "the residual fell below the tolerance"
    PLATEAU = "the residual stopped improving"
    STEP_LIMIT = "ran out of steps before the tolerance was reached"
    STALLED = "the residual stopped improving far from a solution: do not use this answer"
    DIVERGED = "the residual grew without bound; the best iterate is returned"
    OUT_OF_MEMORY = "the problem did not fit in memory"

    @property
    def good(self) -> bool:
        """Whether the answer asked for was reached."""
        return self in (Status.FINISHED, Status.TOLERANCE, Status.PLATEAU)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved batch. `residual_norms[k, b]` is the RMS residual of sample b after k steps, NaN
    once the sample has stopped; `residual_scale[b]` is that of the first guess. The residual of a
    flow is measured as `Problem.measure` says: raw, it rises before the error has fallen."""

    problem: Problem
    tensor: Tensor
    status: tuple[Status, ...]
    residual_norms: Tensor
    residual_scale: Tensor
    steps: Tensor
    seconds: float
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        problem: Problem,
        u: Tensor,
        *,
        seconds: float = 0.0,
        stop: Callable[[Tensor, Tensor], list[Status | None]] | None = None,
        **notes: Any,
    ) -> Solution:
        """A field that was found without steps, judged: by a stopping rule, where one is given."""
        norms, scale = (
            residual_norm(problem.measure(problem.residual(u))).cpu(),
            guess_norm(problem),
        )
        verdicts = [Status.FINISHED] * problem.batch if stop is None else stop(norms[None], scale)
        finite = torch.isfinite(norms).tolist()
        status = (v or Status.STEP_LIMIT for v in verdicts)
        return cls(
            problem=problem,
            tensor=u,
            status=tuple(s if f else Status.DIVERGED for s, f in zip(status, finite, strict=True)),
            residual_norms=norms[None],
            residual_scale=scale,
            steps=torch.zeros(problem.batch, dtype=torch.long),
            seconds=seconds,
            notes=notes,
        )

    @property
    def u(self) -> Any:
        """The solution in the kind (numpy or torch) and layout of the inputs."""
        return self.problem.restore(self.tensor)

    @property
    def good(self) -> bool:
        """Whether every sample ended with the answer asked for."""
        return all(status.good for status in self.status)

    @property
    def relative_residual(self) -> Tensor:
        """RMS residual of the returned field over that of the first guess, per sample."""
        residual = self.problem.measure(self.problem.residual(self.tensor))
        return residual_norm(residual).cpu() / self.residual_scale

    @property
    def error_bound(self) -> Tensor | None:
        """A guaranteed bound on the relative L2 error per sample, for equations that have one.

        ‖u − u*‖ ≤ (‖F(u)‖ + δ)/σ with δ for the rounding of F itself; infinite where the residual
        is too large to exclude u* = 0. It bounds the distance from the solution of the discrete
        equation: the error of the discretisation is not in it.
        """
        problem = self.problem.in_precision(torch.float64)
        sigma = problem.equation.smallest_singular_value(problem.inputs)
        if sigma is None or problem.known is not None:
            return None
        u = self.tensor.double()
        size = residual_norm(u)
        # every residual value is a sum of at most 16 rounded terms of this size
        largest = residual_norm(jacobian_diagonal(problem, u).abs().amax((1, 2, 3), keepdim=True))
        rounding = 32 * torch.finfo(torch.float64).eps * (2 * largest * size + self.residual_scale)
        distance = (residual_norm(problem.residual(u)).cpu() + rounding.cpu()) / sigma
        remaining = size.cpu() - distance
        return torch.where(remaining > 0, distance / remaining, torch.inf)

    @property
    def error_estimate(self) -> Tensor | None:
        """An estimate of the relative L2 error per sample, where there is no proven bound.

        ‖d‖ / ‖u + d‖ with the Newton correction J(u) d = −F(u). It is exact for a linear equation
        and right to first order otherwise: an error of the size of u may be far from it, and u + d
        may head for another solution. Infinite where J(u) is singular, for then the residual says
        nothing; None where `error_bound` says more, or nothing is known.

        For flows it is ‖L⁻¹F(u)‖ / ‖u‖, with L = ∂ₜ − νΔ in place of J: what the residual has added
        up to over time if nothing carried it away. Advection moves an error more than it changes
        its size: docs/flows.md says how near this came.
        """
        problem = self.problem.in_precision(torch.float64)
        if problem.equation.smallest_singular_value(problem.inputs) is not None:
            return None
        u = self.tensor.detach().double()
        added = problem.equation.invert_linear_part(problem.residual(u))
        if added is not None:
            return (residual_norm(added) / residual_norm(u)).cpu()
        if problem.equation.boundary != "walls" or problem.equation.frames:
            return None
        size, whole = residual_norm(d := newton_correction(problem, u)), residual_norm(u + d)
        return torch.where(size.isfinite() & (whole > 0), size / whole, torch.inf).cpu()

    @property
    def estimate_is_cheap(self) -> bool:
        """Whether the batch is small enough to estimate its errors without being asked."""
        return self.problem.batch * self.problem.resolution**2 <= ESTIMATED_POINTS

    def summary(self) -> str:
        """One line per way of ending, with the residual and the steps it took.

        A second line states the largest error: proven (`error_bound`) or, for batches of at most
        `ESTIMATED_POINTS` points, estimated (`error_estimate`).
        """
        relative, bound = self.relative_residual, self.error_bound
        estimate = self.error_estimate if self.estimate_is_cheap else None
        how = "the residual added up over time" if self.problem.equation.frames else ""
        how = how or "one Newton correction"
        lines = []
        for status, count in Counter(self.status).items():
            chosen = torch.tensor([s is status for s in self.status])
            low, high = int(self.steps[chosen].min()), int(self.steps[chosen].max())
            steps = f"{low}" if low == high else f"{low}-{high}"
            n = self.problem.resolution
            lines.append(
                f"{self.problem.equation.name} {n}x{n}, {count} sample{'s' * (count > 1)}: "
                f"{status.name} ({status.value}); steps {steps}, "
                f"relative residual {float(relative[chosen].max()):.1e}, {self.seconds:.2f} s"
            )
            if bound is not None:
                lines.append(f"relative error at most {float(bound[chosen].max()):.1e}")
            if estimate is not None:
                largest = float(estimate[chosen].max())
                lines.append(f"relative error about {largest:.1e} (estimate: {how})")
        return "\n".join(lines)

    def plot(self, path: str | None = None, sample: int = 0) -> Figure:
        """Input, solution, residual field and residual history of one sample."""
        from neuralsolver.solvers.picture import plot_solution

        return plot_solution(self, path, sample)


def residual_norm(residual: Tensor) -> Tensor:
    """Root mean square over all but the batch axis, in float64."""
    return residual.flatten(1).double().square().mean(1).sqrt()


def guess_norm(problem: Problem) -> Tensor:
    """The unit of all residuals of a problem: the measured one of its first guess."""
    guess = residual_norm(problem.measure(problem.residual(problem.first_guess())))
    return guess.cpu().clamp_min(torch.finfo(torch.float64).tiny)
