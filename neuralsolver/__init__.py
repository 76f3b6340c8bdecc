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
    "Helmholtz": "equations",
    "NavierStokes": "equations",
    "Observed": "equations",
    "Poisson": "equations",
    "Problem": "equations",
    "Sensors": "equations",
    "register": "equations",
    "DatasetSpec": "data",
    "generate": "data",
    "NeuralSolver": "solvers",
    "Solution": "solvers",
    "Status": "solvers",
    "load": "training",
    "load_sampler": "training",
    "InvalidInput": "errors",
}

__all__ = [
    "Darcy",
    "DatasetSpec",
    "Equation",
    "Helmholtz",
    "InvalidInput",
    "NavierStokes",
    "NeuralSolver",
    "Observed",
    "Poisson",
    "Problem",
    "Sensors",
    "Solution",
    "Status",
    "generate",
    "load",
    "load_sampler",
    "register",
]

if TYPE_CHECKING:
    from neuralsolver.data import DatasetSpec, generate
    from neuralsolver.equations import (
        Darcy,
        Equation,
        Helmholtz,
        NavierStokes,
        Observed,
        Poisson,
        Problem,
        Sensors,
        register,
    )
    from neuralsolver.errors import InvalidInput
    from neuralsolver.solvers import NeuralSolver, Solution, Status
    from neuralsolver.training import load, load_sampler


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"neuralsolver.{_HOME[name]}"), name)
    raise AttributeError(f"module 'neuralsolver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
