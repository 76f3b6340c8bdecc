"""A network that never hurts: beside its answer, that of the same solve without it.

A sample that its network has brought to the tolerance is done. Every other sample is solved again
by an alternative, which is the network-free sibling (`network_free.without_network`) from its own
start, with its own memory, under the same rule and budget. Of the two answers the one with the
smaller measured residual is returned,

    ‖F(u)‖ = min(‖F(u_network)‖, ‖F(u_classical)‖)        for each sample by itself,

so it is never worse than without the network: not on average, but by construction. One exception:
the second solve of a flow is given up early unless it is `Promising`; the cheaper steps of the
alternative then go on from the network's answer, which stays the network's. Steps of both kinds
under one Anderson memory would be cheaper, and diverge: the differences that one of them leaves
behind say nothing of the other.

What an observer sees meanwhile is the better of the two so far. The notes of the solution say for
each sample whose answer it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.solvers.loop import Iterations, Observation, Solve, mapped
from neuralsolver.solvers.norms import residual_norm
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.stopping import StoppingRule

NETWORK, CLASSICAL = "network", "classical"
NOTE = "answer_by"
"""The note that says for each sample whose answer it is."""

GIVEN_UP_ABOVE = 0.05
"""Part of the residual above which the second solve of a flow is given up, unless the network's
answer leaves more."""

Finish = Callable[[Solution], Iterations]


def safeguarded(
    solution: Solution, alternative: Callable[[Tensor, Solution], Solve], label: str = CLASSICAL
) -> Iterations:
    """`solution`, or for each sample what `alternative` makes of it where that is better.

    It is the `finish` of a `Solve`; `alternative` composes the solve of the samples that it is
    given the numbers of, and `label` says whose answers these are.
    """
    waiting = [i for i, status in enumerate(solution.status) if status is not Status.TOLERANCE]
    by = list(solution.notes.get(NOTE, [NETWORK] * len(solution.status)))
    if label == NETWORK:  # what is another's already is not gone on with
        waiting = [i for i in waiting if by[i] == NETWORK and solution.status[i].good]
    if not waiting:
        return replace(solution, notes={**solution.notes, NOTE: by})
    index = torch.tensor(waiting)
    solve = alternative(index, solution)
    best = _Best(solve.problem, solution.tensor[index].to(solve.problem.inputs))
    start = solve.start
    if not isinstance(start, Tensor):
        start = yield from mapped(lambda s: replace(s, samples=index[s.samples]), start)
    rows, offset = [solution.residual_norms], len(solution.residual_norms)

    def better(seen: Observation) -> Observation:
        row = torch.full((1, len(by)), torch.nan, dtype=torch.float64)
        now = best.with_(seen)
        row[0, index[seen.samples]] = now.norms
        rows.append(row)
        return replace(now, samples=index[seen.samples], step=seen.step + offset)

    second = yield from mapped(better, replace(solve, start=start, stage="safeguard").run())
    status, steps, tensor = list(solution.status), solution.steps.clone(), solution.tensor.clone()
    steps[index] += second.steps
    tensor[index] = best.u.to(tensor)
    for i in index[best.changed].tolist():
        by[i] = label
        status[i] = second.status[waiting.index(i)]
    return replace(
        solution,
        tensor=tensor,
        status=tuple(status),
        residual_norms=torch.cat(rows),
        steps=steps,
        notes={**_joined(solution, second, index), NOTE: by},
    )


@dataclass(frozen=True)
class Promising:
    """A stopping rule that gives up as STALLED where `steps` steps leave more than `part`.

    Args:
        rule: The rule that it adds to.
        part: Of the residual of the first guess.
        steps: After which this is asked, once.
    """

    rule: StoppingRule
    part: float
    steps: int = 12

    def __call__(self, norms: Tensor, scale: Tensor) -> list[Status | None]:
        verdicts = self.rule(norms, scale)
        if len(norms) != self.steps + 1:
            return verdicts
        slow = (norms.amin(0) > self.part * scale).tolist()
        pairs = zip(verdicts, slow, strict=True)
        return [Status.STALLED if far and verdict is None else verdict for verdict, far in pairs]


def _joined(first: Solution, second: Solution, index: Tensor) -> dict[str, Any]:
    """The notes of both; what was carried on counts for the sample whoever's answer it has."""
    notes, name = dict(first.notes), "classical_iterations"
    if name in second.notes:
        counts = dict(notes.get(name, {}))
        for i, count in second.notes[name].items():
            sample = int(index[i])
            counts[sample] = counts.get(sample, 0) + count
        notes[name] = counts
    return notes


class _Best:
    """The best iterate of each sample so far, and which of them the alternative has changed."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        self.u, self.residual = u, problem.residual(u)
        norms = residual_norm(problem.preconditioned_residual(self.residual)).cpu()
        self.norms = norms.nan_to_num(torch.inf)
        self.changed = torch.zeros(len(u), dtype=torch.bool)

    def with_(self, seen: Observation) -> Observation:
        """What was seen, wherever it is better than anything before."""
        better = seen.norms < self.norms[seen.samples]
        where = seen.samples[better]
        self.u[where], self.residual[where] = seen.u[better], seen.residual[better]
        self.norms[where] = seen.norms[better]
        self.changed[where] = True
        here = seen.samples
        return replace(seen, u=self.u[here], residual=self.residual[here], norms=self.norms[here])
