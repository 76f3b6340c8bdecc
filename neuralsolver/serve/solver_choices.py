"""The solvers of the page: the one that is watched, and those its curves are compared with.

The trained ones are whatever is shipped for the equation. Two need no network: Newton's method, and
the watched solver without its networks. The classical solver gives the truth, and its seconds are
what all others have to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuralsolver.data.reference_solution import CoarseIntegrator, ReferenceSolver
from neuralsolver.equations import Problem
from neuralsolver.serve.catalogue import CATALOGUE
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.krylov import Krylov
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.network_free import without_network
from neuralsolver.solvers.newton import Newton
from neuralsolver.training import load, shipped

if TYPE_CHECKING:
    from neuralsolver.serve.requests import SolveJob

AS_TRAINED, SHIFTED = 15, 80
"""Corrections of the paper's solver: with the constants of its training, and with others."""
COARSE_POINTS = 32


class Models:
    """The trained solvers, loaded once."""

    def __init__(self) -> None:
        names = shipped()
        self.equations = tuple(name for name in CATALOGUE if f"{name}-contractive" in names)
        self.loaded: dict[str, TrainedSolver] = {
            name: load(name) for name in names if name.rpartition("-")[0] in self.equations
        }

    def main(self, equation: str) -> TrainedSolver:
        """The solver that is watched."""
        return self.loaded[f"{equation}-contractive"]

    def get(self, equation: str, recipe: str) -> TrainedSolver | None:
        """Another trained solver of an equation, if there is one."""
        return self.loaded.get(f"{equation}-{recipe}")

    def warm(self) -> None:
        """A first step with every network: what is only made once is then made."""
        for name in self.equations:
            solver = self.main(name)
            problem = Problem.random(solver.equation, solver.resolution)
            solver.solve(problem, steps=1)


@dataclass(frozen=True)
class Method:
    """A solver with the options of its solve, and what it is called."""

    key: str
    label: str
    solver: Solver
    options: dict[str, Any]


def watched(models: Models, job: SolveJob) -> Method:
    """The contractive solver in the mode that was asked for."""
    return _contractive(models, job, job.mode)


def compared(models: Models, job: SolveJob) -> dict[str, Method]:
    """The methods that can be run on a job, by their keys, in the order in which they are drawn."""
    return {method.key: method for method in _others(models, job)}


def step_of(method: Method, problem: Problem) -> str:
    """The name of the steps that a method will make: Krylov, Conjugate, Anderson, …"""
    stepper = method.solver.compose(problem, problem.first_guess(), **method.options).stepper
    conjugate = isinstance(stepper, Krylov) and stepper.held.conjugate
    return "Conjugate" if conjugate else type(stepper).__name__


def _contractive(models: Models, job: SolveJob, mode: str) -> Method:
    solver = models.main(job.entry.name)
    if mode == "plain":
        return Method("ens-plain", "ENS, plain", solver, {"steps": job.steps})
    return Method("ens-accelerated", "ENS, accelerated", solver, job.options)


def _others(models: Models, job: SolveJob) -> Iterator[Method]:
    name, problem = job.entry.name, job.problem
    yield _contractive(models, job, "plain" if job.mode == "accelerated" else "accelerated")
    operator, paper = (models.get(name, recipe) for recipe in ("fno", "paper"))
    if operator is not None and problem.resolution == operator.resolution:
        yield Method("fno", "FNO, one call", operator, {"steps": 0})
    if paper is not None and problem.resolution == paper.resolution:
        steps = AS_TRAINED if problem.equation == paper.equation else SHIFTED
        yield Method("paper", "ENS, paper's recipe", paper, {"steps": steps})
    if job.tolerance is not None:
        yield Method("newton", "Newton, no network", Newton(tolerance=job.tolerance), {})
    bare = without_network(models.main(name))
    yield Method("networkless", "the same, no network", bare, job.options)
    if job.entry.flow:
        label = f"classical, {COARSE_POINTS} × {COARSE_POINTS}"
        yield Method("coarse", label, CoarseIntegrator(COARSE_POINTS), {})
    yield Method("classical", "classical solver", ReferenceSolver(), {})
