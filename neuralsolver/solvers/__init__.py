"""How a Problem becomes a Solution. A network here is any callable."""

from neuralsolver.solvers.acceleration import Anderson, Krylov
from neuralsolver.solvers.classical import polish
from neuralsolver.solvers.iterate import (
    FixedSteps,
    Observation,
    ResidualBelow,
    ResidualPlateau,
    Solver,
    iterate,
)
from neuralsolver.solvers.multilevel import VCycle, nested_iteration
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.trained import TrainedSolver

__all__ = [
    "Anderson",
    "FixedSteps",
    "Krylov",
    "NeuralSolver",
    "Observation",
    "ResidualBelow",
    "ResidualPlateau",
    "Solution",
    "Solver",
    "Status",
    "TrainedSolver",
    "VCycle",
    "iterate",
    "nested_iteration",
    "polish",
]
