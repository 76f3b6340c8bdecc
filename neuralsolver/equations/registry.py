"""Equations by name, with the constants the paper trains on."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from neuralsolver.equations.base import Equation
from neuralsolver.equations.darcy import FIELD, Darcy
from neuralsolver.equations.helmholtz import Helmholtz
from neuralsolver.equations.navier_stokes import NavierStokes
from neuralsolver.equations.poisson import Poisson
from neuralsolver.errors import InvalidInput

EQUATIONS: dict[str, Equation] = {}
"""Those of the paper, and what a user has registered."""

BOXES: dict[str, Equation] = {"darcy-box": Darcy(source=FIELD, dimension=3)}
"""Equations stated on a cube: models are trained for them, but what goes through all equations
draws, shows or compares squares."""


def register(equation: Equation) -> Equation:
    """Make an equation known by its name, with these constants as the default ones.

    >>> import neuralsolver as ns
    >>> ns.register(ns.Poisson(scale=2.0)).name
    'poisson'
    """
    if not isinstance(equation, Equation):
        raise InvalidInput("equation", "an Equation", repr(equation))
    EQUATIONS[equation.name] = equation
    return equation


for _prototype in (
    Poisson(scale=2.0),
    Helmholtz(wavenumber=1.0),
    Helmholtz(wavenumber=2.0, nonlinearity=1.0),
    Darcy(source=100.0),
    NavierStokes(),
    NavierStokes(
        viscosity=5e-4,
        forcing="kolmogorov",
        forcing_amplitude=4.0,
        forcing_wavenumber=4,
        frame_spacing=0.05,
        frames=40,
    ),
):
    register(_prototype)


def equation_named(name: str, constants: Mapping[str, Any] | None = None) -> Equation:
    """The equation called `name`, with some constants replaced; texts are read as numbers.

    >>> from neuralsolver.equations import equation_named
    >>> equation_named("helmholtz", {"wavenumber": "3"}).wavenumber
    3.0
    """
    prototypes = {**BOXES, **EQUATIONS}
    if not isinstance(name, str) or name not in prototypes:
        raise InvalidInput("equation", f"one of {', '.join(EQUATIONS)}{_nearest(name)}", name)
    if constants is not None and not isinstance(constants, Mapping):
        raise InvalidInput(f"constants of {name}", "names and values", repr(constants)[:60])
    prototype = prototypes[name]
    ranges = prototype.limits()
    values = {}
    constants = dict(constants or {})
    if name == "darcy-box" and constants.get("source") == 1.0:
        constants["source"] = FIELD  # older cards name the factor of the field
    for key, value in constants.items():
        if key not in ranges:
            known = ", ".join(ranges) or "none"
            raise InvalidInput(f"constant of {name}", f"one of {known}", str(key)[:60])
        values[key] = ranges[key].read(key, value)
    for key in prototype.dependent:
        values.setdefault(key, 0.0)
    return dataclasses.replace(prototype, **values)  # type: ignore[type-var]


ACCURATE: dict[str, Any] = {"time_order": 4, "dealiasing": "2/3"}
"""How the residual of a flow is taken where a network is trained on it."""


def equation_to_train(name: str, constants: Mapping[str, Any] | None = None) -> Equation:
    """The equation called `name` as it is trained: a flow with its more accurate residual."""
    numerics = equation_named(name).numerics
    accurate = {key: value for key, value in ACCURATE.items() if key in numerics}
    return equation_named(name, {**accurate, **(constants or {})})


def describe(equation: Equation) -> dict[str, Any]:
    """An equation as JSON values: what it is, and its constants with their ranges.

    >>> import neuralsolver as ns
    >>> from neuralsolver.equations.registry import describe
    >>> describe(ns.Poisson())["constants"]["scale"]["value"]
    2.0
    """
    return {
        "name": equation.name,
        "inputs": list(equation.input_names),
        "unknowns": list(equation.unknowns),
        "boundary": equation.boundary,
        "frames": equation.frames,
        "linear": equation.linear,
        "minimum_resolution": equation.minimum_resolution,
        "constants": {
            name: {
                "value": getattr(equation, name),
                **limit.describe(),
                "numerical": name in equation.numerics,
            }
            for name, limit in equation.limits().items()
            if name != "dimension"  # what is described are squares
        },
    }


def import_equations(file: str | Path, option: str = "--equation-module") -> ModuleType:
    """Import a user's Python file by its path: the equations it registers are then known.

    It runs with all rights of the user. Importing it again does nothing. `option` is how the user
    named it, for the message of an error.
    """
    path = Path(file).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput(option, "an existing Python file", file)
    name = path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return known
        raise InvalidInput(option, "a name that no other module has", name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        got = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"{option} {file}", "a file that can be imported", got) from error
    try:  # workers in other processes cannot find the file: they are sent what it defines
        import cloudpickle
    except ImportError:  # without the extra `cluster` there are no workers
        return module
    cloudpickle.register_pickle_by_value(module)
    return module


def _nearest(name: object) -> str:
    close = difflib.get_close_matches(str(name)[:60], EQUATIONS, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
