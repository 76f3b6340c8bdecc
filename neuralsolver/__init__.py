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
    "Darcy": "equations",
    "Equation": "equations",
    "ForcedDarcy": "equations",
    "Known": "equations",
    "Helmholtz": "equations",
    "NavierStokes": "equations",
    "Poisson": "equations",
    "Problem": "equations",
    "register": "equations",
    "DatasetSpec": "data",
    "generate": "data",
    "NeuralSolver": "solvers",
    "Solution": "solvers",
    "Status": "solvers",
    "flexible_gmres": "solvers",
    "load": "training",
    "InvalidInput": "errors",
}

__all__ = [
    "Darcy",
    "DatasetSpec",
    "Equation",
    "ForcedDarcy",
    "Helmholtz",
    "InvalidInput",
    "Known",
    "NavierStokes",
    "NeuralSolver",
    "Poisson",
    "Problem",
    "Solution",
    "Status",
    "flexible_gmres",
    "generate",
    "load",
    "register",
]

if TYPE_CHECKING:
    from neuralsolver.data import DatasetSpec, generate
    from neuralsolver.equations import (
        Darcy,
        Equation,
        ForcedDarcy,
        Helmholtz,
        Known,
        NavierStokes,
        Poisson,
        Problem,
        register,
    )
    from neuralsolver.errors import InvalidInput
    from neuralsolver.solvers import NeuralSolver, Solution, Status, flexible_gmres
    from neuralsolver.training import load


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"neuralsolver.{_HOME[name]}"), name)
    raise AttributeError(f"module 'neuralsolver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
