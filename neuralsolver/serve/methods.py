"""The solvers of the page: the one that is watched, and those its curves are compared with.

The trained ones are whatever is shipped for the equation. Two need no network: Newton's method, and
the watched solver without its networks. The classical solver gives the truth, and its seconds are
what all others have to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.reference_solver import CoarseIntegrator, ReferenceSolver
from neuralsolver.serve.catalogue import CATALOGUE
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.iterate import Solver
from neuralsolver.solvers.network_free import without_network
from neuralsolver.solvers.optimisation import Newton
from neuralsolver.training import load, shipped

if TYPE_CHECKING:
    from neuralsolver.serve.asks import Task

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


Maker = Callable[[Models, "Task"], Method | None]


def watched(models: Models, task: Task) -> Method:
    """The contractive solver in the mode that was asked for."""
    return _contractive(models, task, task.mode)


def comparisons(models: Models, task: Task) -> list[str]:
    """The keys of the methods that can be run on a task, in the order in which they are drawn."""
    return [key for key, make in COMPARED.items() if make(models, task) is not None]


def compared(models: Models, task: Task, key: str) -> Method:
    """One of the methods to compare with."""
    make = COMPARED.get(key)
    method = make(models, task) if make is not None else None
    if method is None:
        known = ", ".join(comparisons(models, task))
        raise InvalidInput("compare", f"one of {known} for this problem", key)
    return method


def _contractive(models: Models, task: Task, mode: str) -> Method:
    solver = models.main(task.entry.name)
    if mode == "plain":
        return Method("ens-plain", "ENS, plain", solver, {"steps": task.steps})
    # what does not get there by itself is finished classically, as by `ens solve`
    options: dict[str, Any] = {"polish": not task.problem.equation.has_floor}
    if task.tolerance is not None:
        options = {"polish": True, "tolerance": task.tolerance}
    return Method("ens-accelerated", "ENS, accelerated", solver, options)


def _other_mode(mode: str) -> Maker:
    def make(models: Models, task: Task) -> Method | None:
        return None if task.mode == mode else _contractive(models, task, mode)

    return make


def _paper(models: Models, task: Task) -> Method | None:
    solver = models.get(task.entry.name, "paper")
    if solver is None or task.problem.resolution != solver.resolution:
        return None
    trained = task.problem.equation == solver.equation
    steps = AS_TRAINED if trained else SHIFTED
    return Method("paper", "ENS, paper's recipe", solver, {"steps": steps})


def _operator(models: Models, task: Task) -> Method | None:
    solver = models.get(task.entry.name, "fno")
    if solver is None or task.problem.resolution != solver.resolution:
        return None
    return Method("fno", "FNO, one call", solver, {"steps": 0})


def _newton(models: Models, task: Task) -> Method | None:
    if task.tolerance is None:
        return None
    return Method("newton", "Newton, no network", Newton(tolerance=task.tolerance), {})


def _networkless(models: Models, task: Task) -> Method | None:
    options = {} if task.tolerance is None else {"tolerance": task.tolerance}
    solver = without_network(models.main(task.entry.name))
    return Method("networkless", "the same, no network", solver, options)


def _coarse(models: Models, task: Task) -> Method | None:
    if not task.entry.flow:
        return None
    label = f"classical, {COARSE_POINTS} × {COARSE_POINTS}"
    return Method("coarse", label, CoarseIntegrator(COARSE_POINTS), {})


def _classical(models: Models, task: Task) -> Method | None:
    return Method("classical", "classical solver", ReferenceSolver(), {})


COMPARED: dict[str, Maker] = {
    "ens-plain": _other_mode("plain"),
    "ens-accelerated": _other_mode("accelerated"),
    "fno": _operator,
    "paper": _paper,
    "newton": _newton,
    "networkless": _networkless,
    "coarse": _coarse,
    "classical": _classical,
}
