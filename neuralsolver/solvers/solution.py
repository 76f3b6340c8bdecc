"""What a solver returns: the field, how it ended, and the history of its residual."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers.bounds import error_bound, error_estimate, on_main_branch
from neuralsolver.solvers.norms import guess_norm, residual_norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESTIMATED_POINTS = 8 * 64**2
"""A summary estimates errors up to this many grid points in all samples, in about half a second."""


class Status(Enum):
    """How the solution of one sample ended; the value is a sentence for the user.

    >>> import neuralsolver as ns
    >>> ns.Status.TOLERANCE.good, ns.Status.DIVERGED.good
    (True, False)
    """

    FINISHED = "did the number of steps asked for"
    TOLERANCE = "the residual fell below the tolerance"
    PLATEAU = "the residual stopped improving"
    STEP_LIMIT = "ran out of steps before the tolerance was reached"
    STALLED = "the residual stopped improving before the answer asked for was reached"
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
    flow is measured as `Problem.measure` says: raw, it rises before the error has fallen.

    >>> import neuralsolver as ns, numpy as np
    >>> solution = ns.load("poisson").solve(ns.Problem(ns.Poisson(), np.ones((64, 64))))
    >>> solution.u.shape, solution.good, bool(solution.error_bound[0] < 1e-4)
    ((64, 64), True, True)
    """

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

        Infinite where the residual is too large to say anything. It bounds the distance from the
        solution of the discrete equation: the error of the discretisation is not in it.
        """
        return error_bound(self.problem, self.tensor)

    @property
    def error_estimate(self) -> Tensor | None:
        """An estimate of the relative L2 error per sample, where there is no proven bound.

        By one Newton correction: an error of the size of u may be far from it, and the correction
        may head for another solution; infinite where the Jacobian is singular. For flows it is what
        the residual has added up to over time if nothing carried it away: docs/flows.md says how
        near this came. None where `error_bound` says more, or nothing is known.
        """
        if self.problem.smallest_singular_value() is not None:
            return None
        return error_estimate(self.problem, self.tensor)

    @property
    def on_main_branch(self) -> list[bool] | None:
        """Whether each sample is on the branch of solutions that leads through zero, if known."""
        return on_main_branch(self.problem, self.tensor)

    @property
    def estimate_is_cheap(self) -> bool:
        """Whether the batch is small enough to estimate its errors without being asked."""
        return self.problem.batch * math.prod(self.problem.grid.shape) <= ESTIMATED_POINTS

    def summary(self) -> str:
        """One line per way of ending, with the residual and the steps it took.

        A second line states the largest error: proven (`error_bound`) or, for batches of at most
        `ESTIMATED_POINTS` points, estimated (`error_estimate`).
        """
        relative, bound = self.relative_residual, self.error_bound
        estimate = self.error_estimate if self.estimate_is_cheap else None
        lines = []
        for status, count in Counter(self.status).items():
            chosen = torch.tensor([s is status for s in self.status])
            low, high = int(self.steps[chosen].min()), int(self.steps[chosen].max())
            steps = f"{low}" if low == high else f"{low}-{high}"
            points = "x".join(map(str, self.problem.grid.shape))
            lines.append(
                f"{self.problem.equation.name} {points}, {count} sample{'s' * (count > 1)}: "
                f"{status.name} ({status.value}); steps {steps}, "
                f"relative residual {float(relative[chosen].max()):.1e}, {self.seconds:.2f} s"
            )
            if bound is not None:
                lines.append(_bound_in_words(float(bound[chosen].max())))
            if estimate is not None:
                lines.append(self._estimate_in_words(float(estimate[chosen].max())))
        branch = self.on_main_branch if self.estimate_is_cheap else None
        if branch is not None and not all(branch):
            others = f"{branch.count(False)} of {len(branch)}"
            lines.append(f"{others} on another branch of solutions than the one through zero")
        by = self.notes.get("answer_by", [])
        if "classical" in by or (by and self.problem.equation.has_floor):
            lines.append(_answers_in_words(by))
        return "\n".join([*lines, *self.notes.get("remarks", ())])

    def _estimate_in_words(self, estimate: float) -> str:
        moving = self.problem.equation.frames > 0
        how = "the residual added up over time" if moving else "one Newton correction"
        return f"relative error about {estimate:.1e} (estimate: {how})"

    def plot(self, path: str | None = None, sample: int = 0) -> Figure:
        """Input, solution, residual field and residual history of one sample."""
        from neuralsolver.solvers.picture import plot_solution

        return plot_solution(self, path, sample)


def _answers_in_words(by: list[str]) -> str:
    """Whose answers they are, where a solve without the network stood beside (safeguard.py)."""
    with_network = by.count("network")
    if with_network == len(by):
        return "the answer of the solve with the network"
    if not with_network:
        return "the answer of the solve without the network, whose residual was smaller"
    rest = len(by) - with_network
    return f"answers with the network: {with_network}, without it, where that was better: {rest}"


def _bound_in_words(bound: float) -> str:
    if math.isinf(bound):
        return "no bound on the error: the residual is too large for one"
    return f"relative error at most {bound:.1e}"
