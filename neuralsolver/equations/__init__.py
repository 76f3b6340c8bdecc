"""What is to be solved. Torch; knows no scheme for solving it and no network."""

from neuralsolver.equations.base import Equation, generator
from neuralsolver.equations.darcy import Darcy
from neuralsolver.equations.given import FixedValues
from neuralsolver.equations.helmholtz import Helmholtz
from neuralsolver.equations.navier_stokes import NavierStokes
from neuralsolver.equations.poisson import Poisson
from neuralsolver.equations.problem import Problem
from neuralsolver.equations.registry import EQUATIONS, equation_named, register
from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.fields.grid import Grid

__all__ = [
    "EQUATIONS",
    "Darcy",
    "Equation",
    "FixedValues",
    "Grid",
    "Helmholtz",
    "NavierStokes",
    "Observed",
    "Poisson",
    "Problem",
    "Sensors",
    "equation_named",
    "generator",
    "register",
]
