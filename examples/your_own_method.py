"""A new row of every table, from its solver to its numbers: ENS with the network taken out.

    between walls    u ← u − ω D⁻¹F(u), two sweeps, and GMRES around them
    on the torus     u ← u − L⁻¹F(u), Picard's iteration, and Anderson mixing around it

What is left is the classical part of our own solvers. A network earns its place where it does
better than this row.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from neuralsolver.equations import Poisson, Problem
from neuralsolver.equations.jacobian import jacobian_diagonal
from neuralsolver.experiments.evaluate import Evaluation
from neuralsolver.experiments.methods import Method, register
from neuralsolver.experiments.paper import EXPERIMENTS
from neuralsolver.experiments.trainings import scale_named
from neuralsolver.solvers import (
    Anderson,
    Iterate,
    Krylov,
    ResidualBelow,
    ResidualPlateau,
    Solve,
    Solver,
)
from neuralsolver.solvers.smoothing import chebyshev_weights, smooth


class Sweeps:
    """Two sweeps; the diagonal D is computed once for each solve, so it is kept here."""

    def __init__(self) -> None:
        self.diagonal: Tensor | None = None

    def __call__(self, now: Iterate) -> Tensor:
        if self.diagonal is None:
            self.diagonal = jacobian_diagonal(now.problem, now.u)
        u, _ = smooth(now.problem, now.u, now.residual, self.diagonal, chebyshev_weights(2))
        return now.problem.impose(u)

    def keep(self, mask: Tensor) -> None:
        """Some samples have stopped: forget them."""
        self.diagonal = None if self.diagonal is None else self.diagonal[mask]


def picard(now: Iterate) -> Tensor:
    """One step without memory: `now.measured` is L⁻¹F(u) where the equation can invert L."""
    return now.problem.impose(now.u - now.measured)


@dataclass(frozen=True)
class WithoutNetwork(Solver):
    """Loop, start, acceleration and stopping rule of our solvers, and no network."""

    tolerance: float = 1e-10

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        equation = problem.equation
        problem = problem.in_precision(equation.precision)
        start = problem.first_guess() if u0 is None else problem.impose(u0.to(problem.inputs))
        if equation.boundary == "torus":
            return Solve(problem, start, Anderson(picard, 15), ResidualPlateau())
        step = Krylov(Sweeps()) if equation.linear else Anderson(Sweeps(), 8)
        return Solve(problem, start, step, ResidualBelow(self.tolerance, 400))


register(
    Method(
        key="without-network",
        kind="classical",
        label="ENS without its network",
        colour="#AA3377",
        marker="v",
        line="--",
        prepare=lambda setting: WithoutNetwork(),
    )
)


def main(folder: Path) -> None:
    problem = Problem.random(Poisson(), 32, count=4, seed=7)
    print(WithoutNetwork().solve(problem).summary())

    evaluation = Evaluation(
        EXPERIMENTS["poisson"], scale_named("tiny"), folder / "results", data=folder, samples=8
    )
    for row in evaluation.run(["without-network", "newton", "zero"], ["in-distribution"]):
        print(f"{row['method']:16} relative L2 error {row['error']:.1e}, {row['status']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
