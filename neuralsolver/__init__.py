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
    "Problem": "equations",
    "FixedValues": "equations",
    "Poisson": "equations",
    "Helmholtz": "equations",
    "Darcy": "equations",
    "NavierStokes": "equations",
    "Waves": "waves",
    "Sensors": "equations",
    "Observed": "equations",
    # an equation of your own
    "Equation": "equations",
    "Space": "fields.space",
    "Field": "fields.space",
    "complex_field": "fields.complex_field",
    "complex_product": "fields.complex_field",
    "laplacian": "fields.stencils",
    "cosine_field": "reference",
    "check_equation": "equations.contract",
    "register": "equations",
    # solving
    "load": "training",
    "solve": "solvers.solve",
    "evolve": "solvers.transient",
    "invert": "inversion",
    # data and training
    "DatasetSpec": "data",
    "generate": "data",
    "read": "data",
    "random_problem": "data.instances",
    "train": "training.api",
    "register_backbone": "training.api",
    # errors
    "InvalidInput": "errors",
}
"""Public names and the modules they are in; all other names are imported from their modules."""

__all__ = [
    "Darcy",
    "DatasetSpec",
    "Equation",
    "Field",
    "FixedValues",
    "Helmholtz",
    "InvalidInput",
    "NavierStokes",
    "Observed",
    "Poisson",
    "Problem",
    "Sensors",
    "Space",
    "Waves",
    "check_equation",
    "complex_field",
    "complex_product",
    "cosine_field",
    "evolve",
    "generate",
    "invert",
    "laplacian",
    "load",
    "random_problem",
    "read",
    "register",
    "register_backbone",
    "solve",
    "train",
]

if TYPE_CHECKING:
    from neuralsolver.data import DatasetSpec, generate, read
    from neuralsolver.data.instances import random_problem
    from neuralsolver.equations import (
        Darcy,
        Equation,
        FixedValues,
        Helmholtz,
        NavierStokes,
        Observed,
        Poisson,
        Problem,
        Sensors,
        register,
    )
    from neuralsolver.equations.contract import check_equation
    from neuralsolver.errors import InvalidInput
    from neuralsolver.fields.complex_field import complex_field, complex_product
    from neuralsolver.fields.space import Field, Space
    from neuralsolver.fields.stencils import laplacian
    from neuralsolver.inversion import invert
    from neuralsolver.reference import cosine_field
    from neuralsolver.solvers.solve import solve
    from neuralsolver.solvers.transient import evolve
    from neuralsolver.training import load
    from neuralsolver.training.api import register_backbone, train
    from neuralsolver.waves import Waves


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"neuralsolver.{_HOME[name]}"), name)
    raise AttributeError(f"module 'neuralsolver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
