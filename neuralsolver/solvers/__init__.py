"""How a Problem becomes a Solution. A network here is any callable."""

from neuralsolver.solvers.acceleration import Anderson, Krylov
from neuralsolver.solvers.batches import solve_batch
from neuralsolver.solvers.classical import polish
from neuralsolver.solvers.iterate import (
    Iterate,
    Observation,
    Solve,
    Solver,
    iterate,
    iterations,
)
from neuralsolver.solvers.multilevel import VCycle
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.preconditioner import flexible_gmres
from neuralsolver.solvers.solution import Solution, Status
from neuralsolver.solvers.stopping import FixedSteps, ResidualBelow, ResidualPlateau
from neuralsolver.solvers.trained import TrainedSolver

__all__ = [
    "Anderson",
    "FixedSteps",
    "Iterate",
    "Krylov",
    "NeuralSolver",
    "Observation",
    "ResidualBelow",
    "ResidualPlateau",
    "Solution",
    "Solve",
    "Solver",
    "Status",
    "TrainedSolver",
    "VCycle",
    "flexible_gmres",
    "iterate",
    "iterations",
    "polish",
    "solve_batch",
]
