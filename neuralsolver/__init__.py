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
    "AdvectionDiffusion": "equations.advection_diffusion",
    "Darcy": "equations",
    "Helmholtz": "equations",
    "NavierStokes": "equations",
    "Observed": "equations",
    "Poisson": "equations",
    "Grid": "equations",
    "FixedValues": "equations",
    "Problem": "equations",
    "Sensors": "equations",
    "Waves": "waves",
    "equation_named": "equations",
    "register": "equations",
    "describe": "equations.registry",
    "check_equation": "equations.contract",
    "Field": "fields.space",
    "Space": "fields.space",
    "complex_field": "fields.complex_field",
    "complex_product": "fields.complex_field",
    "laplacian": "fields.stencils",
    "flux_divergence": "fields.stencils",
    "interior": "fields.stencils",
    "from_interior": "fields.stencils",
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
    "solve": "solvers.solve",
    "solve_batch": "solvers",
    "evolve": "solvers.transient",
    "Trajectory": "solvers.transient",
    "iterate": "solvers",
    "iterations": "solvers",
    "FixedSteps": "solvers",
    "ResidualBelow": "solvers",
    "ResidualPlateau": "solvers",
    # models
    "load": "training",
    "shipped": "training",
    "describe_model": "training.library",
    "train": "training.api",
    "register_backbone": "training.api",
    "invert": "inversion",
    # errors
    "InvalidInput": "errors",
    "FileDamaged": "errors",
    "ReferenceFailure": "errors",
}

__all__ = [
    "AdvectionDiffusion",
    "Darcy",
    "Dataset",
    "DatasetSpec",
    "Equation",
    "Field",
    "FileDamaged",
    "FixedSteps",
    "FixedValues",
    "Grid",
    "Helmholtz",
    "InvalidInput",
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
    "Space",
    "Status",
    "TrainedSolver",
    "Trajectory",
    "Waves",
    "check_equation",
    "complex_field",
    "complex_product",
    "cosine_field",
    "describe",
    "describe_model",
    "equation_named",
    "evolve",
    "flexible_gmres",
    "flux_divergence",
    "from_interior",
    "generate",
    "interior",
    "invert",
    "iterate",
    "iterations",
    "laplacian",
    "load",
    "periodic_field",
    "random_problem",
    "read",
    "register",
    "register_backbone",
    "shipped",
    "solve",
    "solve_batch",
    "train",
]

if TYPE_CHECKING:
    from neuralsolver.data import Dataset, DatasetSpec, generate, read
    from neuralsolver.data.instances import random_problem
    from neuralsolver.equations import (
        Darcy,
        Equation,
        FixedValues,
        Grid,
        Helmholtz,
        NavierStokes,
        Observed,
        Poisson,
        Problem,
        Sensors,
        equation_named,
        register,
    )
    from neuralsolver.equations.advection_diffusion import AdvectionDiffusion
    from neuralsolver.equations.contract import check_equation
    from neuralsolver.equations.registry import describe
    from neuralsolver.errors import FileDamaged, InvalidInput, ReferenceFailure
    from neuralsolver.fields.complex_field import complex_field, complex_product
    from neuralsolver.fields.space import Field, Space
    from neuralsolver.fields.stencils import (
        flux_divergence,
        from_interior,
        interior,
        laplacian,
    )
    from neuralsolver.inversion import invert
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
    from neuralsolver.solvers.solve import solve
    from neuralsolver.solvers.transient import Trajectory, evolve
    from neuralsolver.training import load, shipped
    from neuralsolver.training.api import register_backbone, train
    from neuralsolver.training.library import describe_model
    from neuralsolver.waves import Waves


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"neuralsolver.{_HOME[name]}"), name)
    raise AttributeError(f"module 'neuralsolver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
