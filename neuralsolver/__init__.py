"""Error-conditioned neural solvers for partial differential equations.

    import neuralsolver as ns
    solver = ns.load("helmholtz")
    solution = solver.solve(ns.Problem(ns.Helmholtz(wavenumber=1.5), f))

Names are imported when they are first used, so that `import neuralsolver` and `ens --help` do not
wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    # what is to be solved
    "Equation": "equations",
    "Darcy": "equations",
    "DarcyBox": "equations",
    "ForcedDarcy": "equations",
    "Helmholtz": "equations",
    "NavierStokes": "equations",
    "Observed": "equations",
    "Poisson": "equations",
    "Grid": "equations",
    "Known": "equations",
    "Problem": "equations",
    "Sensors": "equations",
    "equation_named": "equations",
    "register": "equations",
    "describe": "equations.registry",
    "check_equation": "equations.contract",
    "laplacian": "equations.stencils",
    "flux_divergence": "equations.stencils",
    "interior": "equations.stencils",
    "from_interior": "equations.stencils",
    "cosine_field": "reference",
    "periodic_field": "reference",
    # data
    "Dataset": "data",
    "DatasetSpec": "data",
    "generate": "data",
    "read": "data",
    "random_problem": "data.instances",
    # solving
    "NeuralSolver": "solvers",
    "TrainedSolver": "solvers",
    "Solver": "solvers",
    "Solution": "solvers",
    "Status": "solvers",
    "Observation": "solvers",
    "flexible_gmres": "solvers",
    "solve_batch": "solvers",
    "iterate": "solvers",
    "iterations": "solvers",
    "FixedSteps": "solvers",
    "ResidualBelow": "solvers",
    "ResidualPlateau": "solvers",
    # models
    "load": "training",
    "shipped": "training",
    "describe_model": "training.library",
    "train": "experiments.own",
    "load_sampler": "training",
    # errors
    "InvalidInput": "errors",
    "FileDamaged": "errors",
    "ReferenceFailure": "errors",
}

__all__ = [
    "Darcy",
    "DarcyBox",
    "Dataset",
    "DatasetSpec",
    "Equation",
    "FileDamaged",
    "FixedSteps",
    "ForcedDarcy",
    "Grid",
    "Helmholtz",
    "InvalidInput",
    "Known",
    "NavierStokes",
    "NeuralSolver",
    "Observation",
    "Observed",
    "Poisson",
    "Problem",
    "ReferenceFailure",
    "ResidualBelow",
    "ResidualPlateau",
    "Sensors",
    "Solution",
    "Solver",
    "Status",
    "TrainedSolver",
    "check_equation",
    "cosine_field",
    "describe",
    "describe_model",
    "equation_named",
    "flexible_gmres",
    "flux_divergence",
    "from_interior",
    "generate",
    "interior",
    "iterate",
    "iterations",
    "laplacian",
    "load",
    "load_sampler",
    "periodic_field",
    "random_problem",
    "read",
    "register",
    "shipped",
    "solve_batch",
    "train",
]

if TYPE_CHECKING:
    from neuralsolver.data import Dataset, DatasetSpec, generate, read
    from neuralsolver.data.instances import random_problem
    from neuralsolver.equations import (
        Darcy,
        DarcyBox,
        Equation,
        ForcedDarcy,
        Grid,
        Helmholtz,
        Known,
        NavierStokes,
        Observed,
        Poisson,
        Problem,
        Sensors,
        equation_named,
        register,
    )
    from neuralsolver.equations.contract import check_equation
    from neuralsolver.equations.registry import describe
    from neuralsolver.equations.stencils import (
        flux_divergence,
        from_interior,
        interior,
        laplacian,
    )
    from neuralsolver.errors import FileDamaged, InvalidInput, ReferenceFailure
    from neuralsolver.experiments.own import train
    from neuralsolver.reference import cosine_field, periodic_field
    from neuralsolver.solvers import (
        FixedSteps,
        NeuralSolver,
        Observation,
        ResidualBelow,
        ResidualPlateau,
        Solution,
        Solver,
        Status,
        TrainedSolver,
        flexible_gmres,
        iterate,
        iterations,
        solve_batch,
    )
    from neuralsolver.training import load, load_sampler, shipped
    from neuralsolver.training.library import describe_model


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"neuralsolver.{_HOME[name]}"), name)
    raise AttributeError(f"module 'neuralsolver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
