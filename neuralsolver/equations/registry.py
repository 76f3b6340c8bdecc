"""Equations by name, with the constants the paper trains on."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from neuralsolver.equations.base import Equation
from neuralsolver.equations.darcy import Darcy
from neuralsolver.equations.helmholtz import Helmholtz
from neuralsolver.equations.navier_stokes import NavierStokes
from neuralsolver.equations.poisson import Poisson
from neuralsolver.errors import InvalidInput

EQUATIONS: dict[str, Equation] = {}


def register(equation: Equation) -> Equation:
    """Make an equation known by its name, with these constants as the default ones."""
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
    """The equation called `name`, with some constants replaced; texts are read as numbers."""
    if name not in EQUATIONS:
        raise InvalidInput("equation", f"one of {', '.join(EQUATIONS)}{_nearest(name)}", name)
    prototype = EQUATIONS[name]
    types = {field.name: type(getattr(prototype, field.name)) for field in _fields(prototype)}
    values = {}
    for key, value in (constants or {}).items():
        if key not in types:
            known = ", ".join(types) or "none"
            raise InvalidInput(f"constant of {name}", f"one of {known}", key)
        values[key] = _convert(key, value, types[key])
    for key in prototype.dependent:
        values.setdefault(key, 0.0)
    return dataclasses.replace(prototype, **values)  # type: ignore[type-var]


def _fields(equation: Equation) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(equation)  # type: ignore[arg-type]


def _convert(key: str, value: Any, kind: type) -> Any:
    try:
        converted = kind(value)
    except (TypeError, ValueError):
        raise InvalidInput(key, f"a value of type {kind.__name__}", repr(value)) from None
    if kind is int and float(value) != converted:
        raise InvalidInput(key, "a whole number", repr(value))
    return converted


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, EQUATIONS, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
