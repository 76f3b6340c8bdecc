"""New rows of every table, from a solver to its numbers.

The first has a solver of its own, gradient descent with the step of Barzilai and Borwein (1988):

    u ← u − α r,    α = ⟨s, s⟩ / ⟨s, y⟩,    s = u − u₋,   y = r − r₋

which needs nothing but residuals. The second needs no new solver: it is Newton's method from what a
trained operator predicts.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Poisson, Problem
from neuralsolver.fields.jacobian import jacobian_diagonal
from neuralsolver.solvers import ResidualBelow, Solve, Solver, State
from neuralsolver.solvers.newton import Newton
from neuralsolver.solvers.wrappers import Configured
from neuralsolver.training.presets import scale_named
from paper.evaluate import Evaluation
from paper.methods import Method, Setting, register
from paper.regimes import EXPERIMENTS, Experiment


class SecantStep:
    """The steps of one solve; it remembers the last iterate and its residual."""

    def __init__(self) -> None:
        self.last: State | None = None

    def __call__(self, now: State) -> Tensor:
        if self.last is None:
            step = 0.5 * now.residual / jacobian_diagonal(now.problem, now.u)
        else:
            s, y = now.u - self.last.u, now.residual - self.last.residual
            step = _dot(s, s) / _dot(s, y) * now.residual
        self.last = now
        return now.problem.impose(now.u - step)

    def keep(self, mask: Tensor) -> None:
        """Some samples have stopped: forget them."""
        if self.last is not None:
            self.last = self.last.select(mask, self.last.problem.select(torch.nonzero(mask)[:, 0]))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(1).view(-1, *[1] * (a.dim() - 1))


@dataclass(frozen=True)
class BarzilaiBorwein(Solver):
    """Gradient descent that learns its step from the last one."""

    tolerance: float = 1e-10
    max_steps: int = 2000

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Start, step and stopping rule; the loop does the rest."""
        problem = problem.in_precision(problem.equation.precision)
        start = problem.first_guess() if u0 is None else problem.impose(u0.to(problem.inputs))
        return Solve(problem, start, SecantStep(), ResidualBelow(self.tolerance, self.max_steps))


def between_walls(experiment: Experiment) -> bool:
    """Where it is compared."""
    return experiment.equation.boundary == "dirichlet" and not experiment.ablation


def newton_from_operator(setting: Setting) -> Solver:
    """Newton's method that begins with the answer of the plain operator."""
    network = setting.model("fno").network

    @torch.no_grad()
    def predict(problem: Problem) -> Tensor:
        return network.predict(problem)

    return Configured(Newton(), start=predict)


register(
    Method(
        key="barzilai-borwein",
        kind="classical",
        label="Barzilai-Borwein",
        prepare=lambda setting: BarzilaiBorwein(),
        where=between_walls,
    )
)
register(
    Method(
        key="newton-from-operator",
        kind="classical",
        label="Newton from FNO",
        prepare=newton_from_operator,
        where=between_walls,
        recipes=("fno",),
        samples=8,
    )
)


def main(folder: Path) -> None:
    problem = Problem.random(Poisson(), 32, count=4, seed=7)
    print(BarzilaiBorwein().solve(problem).summary())

    poisson, tiny = EXPERIMENTS["poisson"], scale_named("tiny")
    evaluation = Evaluation(poisson, tiny, folder / "results", data=folder, samples=8)
    for row in evaluation.run(["barzilai-borwein", "newton", "zero"], ["in-distribution"]):
        print(f"{row['method']:16} relative L2 error {row['error']:.1e}, {row['status']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
