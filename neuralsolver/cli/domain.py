"""The problem that the options of `ens solve` describe: input, domain, boundary, fixed points.

--input      a number, or a file with the field     array_files says which
--mask       fixed points; it also gives the grid of a random or constant input
--walls      u on the boundary and at the fixed points
--lengths    2,1 or 1,1,1: a rectangle or a box
--boundary   dirichlet, neumann, periodic for each axis, or lower:upper for its two ends
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.errors import InvalidInput
from neuralsolver.limits import Float

if TYPE_CHECKING:
    from neuralsolver.equations import Equation, Problem

Input = Annotated[
    str | None,
    typer.Option(
        "--input", help="Input field: a number, or a .npy, .csv or .mat file. [default: random]"
    ),
]
Walls = Annotated[
    str | None,
    typer.Option(help="Value of u on the boundary: a number, or a file with a field. [default: 0]"),
]
Mask = Annotated[
    Path | None,
    typer.Option(help="Fix u at --walls where this .png is dark, or this array is not 0."),
]
Lengths = Annotated[
    str | None, typer.Option(help="Sides of the domain, as 2,1 or 1,1,1. [default: 1 each]")
]
Boundary = Annotated[
    str | None,
    typer.Option(
        help="Boundary condition of each axis: dirichlet, neumann or periodic; "
        "dirichlet:neumann for two ends. [default: dirichlet]"
    ),
]


@dataclass(frozen=True)
class Domain:
    """What the options say of the domain, as they were given."""

    input_field: str | None = None
    walls: str | None = None
    mask: Path | None = None
    lengths: str | None = None
    boundary: str | None = None

    @property
    def changed(self) -> bool:
        """Whether it is another one than the unit square with u = 0 on its boundary."""
        return any((self.walls, self.mask, self.lengths, self.boundary))

    def check_reads(self, resolution: int | None) -> None:
        """Raise InvalidInput where the points are given twice."""
        given = "--mask" if self.mask is not None else "--input"
        if resolution is not None and (self.mask is not None or self._is_file()):
            raise InvalidInput("--resolution", f"no file as {given} beside it", resolution)

    def problem(self, equation: Equation, resolution: int, seed: int) -> Problem:
        """The problem of an equation on this domain."""
        from neuralsolver.data.array_files import read_field, read_mask
        from neuralsolver.data.instances import random_on, read_problem

        if equation.boundary == "periodic" and (self.walls is not None or self.mask is not None):
            raise InvalidInput("--walls and --mask", "an equation with walls", equation.name)
        mask = None if self.mask is None else read_mask("--mask", self.mask)
        lengths, sides = self.grid_options()
        axes = len(lengths or sides or ()) or equation.dimension
        shape = (resolution,) * axes if mask is None else mask.shape
        grid: dict[str, Any] = {"lengths": lengths, "sides": sides}
        if self.input_field is None:
            problem = random_on(equation, shape, seed, **grid)
        else:
            problem = read_problem(equation, self.input_field, shape, **grid)
        if mask is not None and mask.shape != problem.grid.shape:
            raise InvalidInput("--mask", f"{problem.grid.shape}, as the input", mask.shape)
        if self.walls is None and mask is None:
            return problem
        values = 0.0 if self.walls is None else read_field("--walls", self.walls)
        return problem.holding(mask, values)

    def grid_options(self) -> tuple[tuple[float, ...] | None, tuple[Any, ...] | None]:
        """Lengths and sides of the axes, None where nothing was said."""
        lengths = sides = None
        if self.lengths is not None:
            positive = Float(above=0.0, most=1e100)
            parts = self.lengths.split(",")
            lengths = tuple(positive.read("--lengths", part.strip()) for part in parts)
            if len(lengths) not in (2, 3):
                raise InvalidInput("--lengths", "two or three numbers, as 2,1", self.lengths)
        if self.boundary is not None:
            words = [axis.strip().split(":") for axis in self.boundary.lower().split(",")]
            sides = tuple(pair[0] if len(pair) == 1 else tuple(pair) for pair in words)
            count = 2 if lengths is None else len(lengths)
            sides = sides * count if len(sides) == 1 else sides
            if len(sides) not in (2, 3) or (lengths and len(lengths) != len(sides)):
                raise InvalidInput("--boundary", "a word for every axis", self.boundary)
        return lengths, sides

    def _is_file(self) -> bool:
        try:
            return self.input_field is not None and float(self.input_field) is None
        except ValueError:
            return True
