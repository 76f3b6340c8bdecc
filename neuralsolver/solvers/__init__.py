"""How a Problem becomes a Solution. A network here is any callable."""

from neuralsolver.solvers.batches import solve_batch
from neuralsolver.solvers.krylov import Anderson, Krylov, flexible_gmres
from neuralsolver.solvers.loop import (
    Observation,
    Solve,
    Solver,
    State,
    iterate,
    iterations,
)
from neuralsolver.solvers.multilevel import VCycle
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.newton import polish
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.solve import ClassicalSolver
from neuralsolver.solvers.stopping import FixedSteps, ResidualBelow, ResidualPlateau
from neuralsolver.solvers.trained import TrainedSolver

__all__ = [
    "Anderson",
    "ClassicalSolver",
    "FixedSteps",
    "Krylov",
    "NeuralSolver",
    "Observation",
    "ResidualBelow",
    "ResidualPlateau",
    "Solution",
    "Solve",
    "Solver",
    "State",
    "Status",
    "TrainedSolver",
    "VCycle",
    "flexible_gmres",
    "iterate",
    "iterations",
    "polish",
    "solve_batch",
]
