"""What a solver returns: the field, how it ended, and the history of its residual."""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers.norms import (
    error_bound,
    error_estimate,
    field_norms,
    guess_norm,
    measured_norm,
    on_main_branch,
    relative_residual,
    relative_rounding_level,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD_ERROR = 0.1
"""A flow whose residual stopped improving is good up to this estimated relative error."""
ESTIMATED_POINTS = 8 * 64**2
"""A summary estimates errors up to this many grid points in all samples, in about half a second."""


class Status(Enum):
    """How the solution of one sample ended; the value is a sentence for the user.

    >>> from neuralsolver.solvers import Status
    >>> Status.TOLERANCE.good, Status.DIVERGED.good
    (True, False)
    """

    FINISHED = "did the number of steps asked for"
    TOLERANCE = "the residual fell below the tolerance"
    PLATEAU = "the residual stopped improving"
    STEP_LIMIT = "ran out of steps before the tolerance was reached"
    STALLED = "the residual stopped improving far above the tolerance"
    AT_ROUNDING = "the residual is as small as rounding allows, which is above the tolerance"
    OUT_OF_RANGE = "the answer or its residual is too large or too small for floating-point numbers"
    DIVERGED = "the residual grew without bound; the best iterate is returned"
    OUT_OF_MEMORY = "the problem did not fit in memory"

    @property
    def good(self) -> bool:
        """Whether the answer asked for was reached."""
        return self in (Status.FINISHED, Status.TOLERANCE, Status.PLATEAU)


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A solved batch. `residual_norms[k, b]` is the RMS residual of sample b after k steps, NaN
    once the sample has stopped; `residual_scale[b]` is that of the first guess. The residual of a
    flow is preconditioned (`Problem.preconditioned_residual`): raw, it rises before the error has
    fallen.

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
        norms, scale = measured_norm(problem, u).cpu(), guess_norm(problem)
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

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        ends = ", ".join(f"{count} {s.name}" for s, count in Counter(self.status).items())
        shape = "x".join(map(str, self.problem.grid.shape))
        residual = float(self.relative_residual.max())
        return (
            f"<Solution of {self.problem.equation.name} {shape}: {ends}; "
            f"relative residual {residual:.1e}, {self.seconds:.2f} s>"
        )

    def _repr_html_(self) -> str:
        """The summary and the picture of the first sample, for notebooks."""
        memory = io.BytesIO()
        self.plot().savefig(memory, format="png")
        picture = base64.b64encode(memory.getvalue()).decode()
        return f'<pre>{escape(str(self))}</pre><img src="data:image/png;base64,{picture}">'

    def judged(self, tolerance: float | None) -> Solution:
        """The same with a status that is true of the field as it is returned.

        A solve is judged in natural units on its way. Multiplying back may overflow or underflow,
        and a residual that stopped improving may have done so because of rounding.

        Args:
            tolerance: The relative residual that was asked for, if one was.

        Returns:
            The solution. TOLERANCE holds for its `relative_residual`; what misses it ends as
            OUT_OF_RANGE or AT_ROUNDING where one of these is the reason, and so does what has no
            residual that is a number. PLATEAU holds for flows
            with an estimated error of at most `GOOD_ERROR`.
        """
        largest = self.tensor.flatten(1).abs().amax(1).cpu().double()
        finite = torch.isfinite(largest) & torch.isfinite(self.tensor).flatten(1).all(1).cpu()
        status = [
            was if kept or not was.good else Status.OUT_OF_RANGE
            for was, kept in zip(self.status, finite.tolist(), strict=True)
        ]
        if Status.PLATEAU in status:
            return replace(self, status=tuple(status))._with_good_plateaus()
        judged = (Status.TOLERANCE, Status.STALLED, Status.STEP_LIMIT, Status.DIVERGED)
        if tolerance is None or not any(was in judged for was in status):
            return replace(self, status=tuple(status))
        relative, small = self.relative_residual, largest < torch.finfo(torch.float64).tiny
        missed = ~(relative <= tolerance)
        waiting = [i for i, was in enumerate(status) if was in judged and bool(missed[i])]
        if waiting:
            level = relative_rounding_level(self.problem, self.tensor.detach())
            for i in waiting:
                underflowed = status[i] is Status.TOLERANCE and bool(small[i])
                if underflowed or bool(relative[i].isnan()):
                    status[i] = Status.OUT_OF_RANGE
                elif status[i] is Status.TOLERANCE or bool(relative[i] <= level[i]):
                    status[i] = Status.AT_ROUNDING
        return replace(self, status=tuple(status))

    def _with_good_plateaus(self) -> Solution:
        """PLATEAU only where the estimated error is below `GOOD_ERROR`, and STALLED elsewhere."""
        estimate = self.error_estimate
        if estimate is None:
            return self
        poor = (estimate > GOOD_ERROR) & torch.tensor([s is Status.PLATEAU for s in self.status])
        if not bool(poor.any()):
            return self
        ends = zip(self.status, poor.tolist(), strict=True)
        remark = (
            f"no solution: an estimated error of {float(estimate[poor].max()):.0%}, "
            f"above {GOOD_ERROR:.0%}, in {int(poor.sum())} of {len(poor)}"
        )
        return replace(
            self,
            status=tuple(Status.STALLED if far else status for status, far in ends),
            notes={**self.notes, "remarks": [*self.notes.get("remarks", ()), remark]},
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
        return relative_residual(self.problem, self.tensor.detach())

    @property
    def relative_residual_by_field(self) -> dict[str, Tensor]:
        """RMS residual of each unknown field over that of the first guess in its own unit."""
        measured = self.problem.preconditioned_residual(self.problem.residual(self.tensor.detach()))
        relative = field_norms(measured).cpu() / self.residual_scale[:, None]
        return dict(zip(self.problem.equation.unknowns, relative.unbind(1), strict=True))

    @property
    def error_bound(self) -> Tensor | None:
        """A guaranteed bound on the relative L2 error per sample, for equations that have one.

        Infinite where the residual is too large to say anything. It bounds the distance from the
        solution of the discrete equation: the error of the discretisation is not in it.
        """
        return error_bound(self.problem, self.tensor.detach())

    @cached_property
    def error_estimate(self) -> Tensor | None:
        """An estimate of the relative L2 error per sample, where there is no proven bound.

        By one Newton correction: an error of the size of u may be far from it, and the correction
        may head for another solution; infinite where the Jacobian is singular. A flow is compared
        with its own steps through time on the same grid, so that what the differences in time leave
        is in it; what the grid does not resolve is not. None where `error_bound` says more.
        """
        if self.problem.smallest_singular_value() is not None:
            return None
        return error_estimate(self.problem, self.tensor.detach())

    @property
    def on_main_branch(self) -> list[bool] | None:
        """Whether each sample is on the branch of solutions that leads through zero, if known."""
        return on_main_branch(self.problem, self.tensor.detach())

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
        cheap = self.estimate_is_cheap
        estimate = self.error_estimate if cheap else None
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
                worst = float(bound[chosen].max())
                none = "no bound on the error: the residual is too large for one"
                lines.append(none if math.isinf(worst) else f"relative error at most {worst:.1e}")
            if estimate is not None:
                moving = self.problem.equation.frames > 0
                how = "the flow stepped through time" if moving else "one Newton correction"
                worst = float(estimate[chosen].max())
                lines.append(f"relative error about {worst:.1e} (estimate: {how})")
        branch = on_main_branch(self.problem, self.tensor.detach()) if cheap else None
        if branch is not None and not all(branch):
            others = f"{branch.count(False)} of {len(branch)}"
            lines.append(f"{others} on another branch of solutions than the one through zero")
        by = self.notes.get("answer_by", [])
        if "classical" in by or (by and not self.problem.equation.residual_vanishes):
            lines.append(_answers_in_words(by))
        return "\n".join([*lines, *self.notes.get("remarks", ())])

    def plot(self, path: str | None = None, sample: int = 0) -> Figure:
        """Input, solution, residual field and residual history of one sample."""
        from neuralsolver.plotting.pictures import plot_solution

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
