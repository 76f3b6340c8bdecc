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
    "AdvectionDiffusion": "equations.advection_diffusion",
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

__all__ = list(_HOME)

if TYPE_CHECKING:
    from neuralsolver.data import DatasetSpec as DatasetSpec
    from neuralsolver.data import generate as generate
    from neuralsolver.data import read as read
    from neuralsolver.data.instances import random_problem as random_problem
    from neuralsolver.equations import Darcy as Darcy
    from neuralsolver.equations import Equation as Equation
    from neuralsolver.equations import FixedValues as FixedValues
    from neuralsolver.equations import Helmholtz as Helmholtz
    from neuralsolver.equations import NavierStokes as NavierStokes
    from neuralsolver.equations import Observed as Observed
    from neuralsolver.equations import Poisson as Poisson
    from neuralsolver.equations import Problem as Problem
    from neuralsolver.equations import Sensors as Sensors
    from neuralsolver.equations import register as register
    from neuralsolver.equations.advection_diffusion import (
        AdvectionDiffusion as AdvectionDiffusion,
    )
    from neuralsolver.equations.contract import check_equation as check_equation
    from neuralsolver.errors import InvalidInput as InvalidInput
    from neuralsolver.fields.complex_field import complex_field as complex_field
    from neuralsolver.fields.complex_field import complex_product as complex_product
    from neuralsolver.fields.space import Field as Field
    from neuralsolver.fields.space import Space as Space
    from neuralsolver.fields.stencils import laplacian as laplacian
    from neuralsolver.inversion import invert as invert
    from neuralsolver.reference import cosine_field as cosine_field
    from neuralsolver.solvers.solve import solve as solve
    from neuralsolver.solvers.transient import evolve as evolve
    from neuralsolver.training import load as load
    from neuralsolver.training.api import register_backbone as register_backbone
    from neuralsolver.training.api import train as train
    from neuralsolver.waves import Waves as Waves


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"neuralsolver.{_HOME[name]}"), name)
    raise AttributeError(f"module 'neuralsolver' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
