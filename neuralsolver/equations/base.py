"""What is to be solved: F(u; f) = 0, on the unit square unless a problem says otherwise.

Shapes, stated once (B samples, n × n grid points, T frames, U unknown fields):

    inputs f      (B, C, n, n)        source, permeability or initial vorticity
    solution u    (B, U, n, n)        equations without frames
                  (B, U, T, n, n)     trajectories; frame 0 is the known initial state
    residual F    the shape of u      zero where u is known or no stencil fits

Arrays are indexed [r₁, r₂]; `grid` says where these points are. What kind of equation it is, the
equation declares (boundary, frames, precision, residual_vanishes); nobody else asks.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Grid, unit_grid
from neuralsolver.fields.space import Field, Space
from neuralsolver.fields.units import Units
from neuralsolver.limits import POSITIVE, Choice, Limit, limit_of

Array = npt.NDArray[np.float64]


class Equation(ABC):
    """A partial differential equation; subclasses are frozen dataclasses of physical constants.

    A new equation needs `residual` and `sample`; see docs/your_own_equation.md.

    An equation of your own has a residual and random inputs (examples/your_own_equation.py):

    >>> import neuralsolver as ns
    >>> class Membrane(ns.Equation):
    ...     linear, jacobian_depends_on = True, ()
    ...     def residual(self, space, u, inputs):
    ...         return ns.laplacian(u, space.grid) - space.zero_boundary(inputs)
    ...     def sample(self, rng, resolution):
    ...         return ns.cosine_field(rng, resolution)[None]
    >>> ns.check_equation(Membrane())
    """

    input_names: ClassVar[tuple[str, ...]] = ("source",)
    unknowns: ClassVar[tuple[str, ...]] = ("solution",)
    boundary: ClassVar[str] = "dirichlet"
    """The ends of every axis: "dirichlet", where u is known, or "periodic"."""
    precision: ClassVar[torch.dtype] = torch.float64
    """What it is solved in: float64, unless errors stay far above what float32 resolves."""
    residual_vanishes: ClassVar[bool] = True
    """Whether a true solution leaves no residual; where it does, no tolerance suggests itself."""
    dependent: ClassVar[tuple[str, ...]] = ()
    """Constants that follow from the others unless they are given; zero asks for that."""
    numerics: ClassVar[tuple[str, ...]] = ()
    """Constants that say how the residual is taken: no true solution depends on them."""
    minimum_resolution: ClassVar[int] = 8
    stencil_reach: ClassVar[int] = 1
    """How many points away a residual value still looks, in each direction."""
    linear: ClassVar[bool] = False
    """Whether F is affine in u."""
    self_adjoint: ClassVar[bool] = False
    """Whether J = ∂F/∂u is its own transpose over the unknowns, weighted by their shares."""
    jacobian_depends_on: ClassVar[tuple[str, ...]] = ("inputs", "solution")
    """What ∂F/∂u depends on, among "inputs" and "solution"; a safe answer is both."""
    unique_where_definite: ClassVar[bool] = False
    """Whether at most one solution has a definite ∂F/∂u: the one continued from f = 0."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for a constant that is not in the range it declares."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if "limit" in field.metadata:
                check_constant(field.name, getattr(self, field.name), field.metadata["limit"])

    def limits(self) -> dict[str, Limit]:
        """The type and range of each constant: as declared, or any value of its type."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: f.metadata.get("limit", limit_of(getattr(self, f.name))) for f in fields}

    @property
    def dimension(self) -> int:
        """The axes of the grid it is stated on: the square, or the cube."""
        return 2

    @property
    def fields(self) -> tuple[Field, ...]:
        """The unknown fields; override it where one has a boundary of its own."""
        return tuple(Field(name) for name in self.unknowns)

    def space(self, grid: Grid) -> Space:
        """The unknown fields on a grid."""
        return Space(grid, self.fields, self.frames)

    @property
    def frames(self) -> int:
        """The number of frames after the initial one; zero where nothing moves."""
        return 0

    @property
    def name(self) -> str:
        """The name used on the command line and in files."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()

    def definite_on(self, grid: Grid) -> bool:
        """Whether J is symmetric and of one sign on a grid between walls: chooses conjugate
        gradients instead of GMRES."""
        return False

    def wavelengths_on(self, grid: Grid) -> float:
        """How many wavelengths fit across a grid, zero where solutions do not oscillate: with many
        of them J is indefinite, and iterations stall."""
        return 0.0

    @abstractmethod
    def residual(self, space: Space, u: Tensor, inputs: Tensor) -> Tensor:
        """F(u; f), differentiable, zero where nothing is solved for.

        Args:
            space: The unknown fields on their grid, of any lengths and sides.
            u: The fields, (batch, field, x, y[, z]).
            inputs: The inputs, (batch, channel, x, y[, z]).

        Returns:
            The residual of every field, in the shape of u.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        """One random input (C, n, n); the same generator state gives the same function at any n."""

    def impose(self, u: Tensor, inputs: Tensor) -> Tensor:
        """u with the values that are known beforehand: zero on the walls, if there are any."""
        return self.space(self.grid(u.shape[-1])).zero_boundary(u)

    def first_guess(self, inputs: Tensor) -> Tensor:
        """The field one begins with, zero by default; its residual is the unit of all others."""
        shape = (inputs.shape[0], *self.solution_shape(inputs.shape[-1]))
        return self.impose(inputs.new_zeros(shape), inputs)

    def moved(self, fields: Tensor, chance: Array) -> Tensor:
        """The fields of each sample, moved by a symmetry of the equation; `chance` (B, 4) in [0, 1)
        chooses which. Inputs and solution move alike. By default there is none."""
        return fields

    def invert_linear_part(self, residual: Tensor) -> Tensor | None:
        """L⁻¹r for a part L of ∂F/∂u that is inverted exactly and cheaply, where one is known."""
        return None

    def invert_linearisation(self, u: Tensor) -> Callable[[Tensor], Tensor] | None:
        """How L⁻¹r becomes J(u)⁻¹r, nearly, where that is known: see `invert_linear_part`."""
        return None

    def integrate(self, inputs: Tensor) -> Tensor | None:
        """The solution by time stepping, (batch, field, frame, x, y), where there is time."""
        return None

    def conditioning(self, inputs: Tensor) -> Tensor:
        """What a network sees of the inputs, as channels (B, C, n, n)."""
        return inputs

    def solution_shape(self, *points: int) -> tuple[int, ...]:
        """Shape of one solution, without the batch axis; one number stands for all axes."""
        moving = (self.frames + 1,) if self.frames else ()
        return (
            len(self.unknowns),
            *moving,
            *(points if len(points) > 1 else self.dimension * points),
        )

    def grid(self, resolution: int) -> Grid:
        """The points of the unit square (or cube), `resolution` along each axis."""
        return unit_grid(self.boundary == "periodic", *self.dimension * (resolution,))

    def smallest_singular_value(
        self, grid: Grid, inputs: Tensor, fixed_inside: bool = False
    ) -> Tensor | None:
        """A proven lower bound on the singular values of ∂F/∂u for each sample, where one is known.

        With it a residual bounds the error of a linear equation: ‖u − u*‖ ≤ ‖F(u)‖ / σ.

        Args:
            grid: The points.
            inputs: The inputs, (batch, channel, x, y[, z]).
            fixed_inside: Whether points that are not on a wall are known, too.
        """
        return None

    def in_lengths(self, length: float) -> tuple[Equation, float] | None:
        """With lengths measured in `length`: the equation that u/σ solves for the same f, and σ."""
        return None

    def natural_units(self, inputs: Tensor, fixed: Tensor) -> Units | None:
        """The same problem with numbers of ordinary size; None where it has them.

        Args:
            inputs: The inputs, (batch, field, x, y).
            fixed: The largest |u| among the fixed values of each sample, (batch,), zero for none.

        Returns:
            The equation, the inputs and the powers of two that lead back.
        """
        return None

    def network_unit(self, inputs: Tensor) -> Tensor | None:
        """What u is divided by where a network reads it, (batch,), beside the powers of two.

        Networks know problems of one size; J⁻¹ of this problem is so many times as large as theirs.
        """
        return None

    @property
    def conditioning_names(self) -> tuple[str, ...]:
        """Those of the inputs that a network sees."""
        return self.input_names

    @property
    def varying(self) -> tuple[Tensor, ...]:
        """Constants that are tensors, with respect to which a solution is differentiated."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        values = (getattr(self, field.name) for field in fields)
        return tuple(value for value in values if isinstance(value, Tensor))

    def with_plain_constants(self) -> Equation:
        """The same with every constant a number."""
        if not self.varying:
            return self
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        values = {field.name: plain(getattr(self, field.name)) for field in fields}
        return dataclasses.replace(self, **values)  # type: ignore[type-var]

    def constants(self) -> dict[str, Any]:
        """The physical constants by name."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    def check_grid(self, resolution: int) -> None:
        """Raise InvalidInput when a grid is too small (or odd, on the torus) for the equation."""
        if resolution < self.minimum_resolution:
            raise InvalidInput("resolution", f"at least {self.minimum_resolution}", resolution)
        if self.boundary == "periodic" and resolution % 2:
            raise InvalidInput("resolution", "an even number on the torus", resolution)

    def check_inputs(self, inputs: Tensor) -> None:
        """Raise InvalidInput unless `inputs` is a finite real batch on a large enough grid."""
        names = " and ".join(self.input_names)
        channels = len(self.input_names)
        if inputs.is_complex() or not inputs.is_floating_point():
            raise InvalidInput(names, "real floating-point values", inputs.dtype)
        if inputs.dim() < 4 or inputs.shape[1] != channels:
            expected = f"shape (batch, {channels}, n, n)"
            raise InvalidInput(names, expected, tuple(inputs.shape))
        self.check_grid(min(inputs.shape[2:]))
        if not bool(torch.isfinite(inputs).all()):
            count = int((~torch.isfinite(inputs)).sum())
            raise InvalidInput(names, "finite values", f"{count} NaN or infinite values")


def plain(value: Any) -> Any:
    """A constant that may be a tensor with a gradient, as a number."""
    return value.detach().item() if isinstance(value, Tensor) else value


def constant(default: Any, limit: Limit) -> Any:
    """The dataclass field of a physical constant: its default value, and its type and range."""
    return dataclasses.field(default=default, metadata={"limit": limit})


def check_constant(name: str, value: Any, limit: Limit) -> None:
    """Raise InvalidInput unless a constant, a number or a tensor that is one, is in its range."""
    number = isinstance(value, int | float | np.integer | np.floating)
    one = isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex()
    words = getattr(limit, "words", ())
    word = isinstance(value, str) and (isinstance(limit, Choice) or value in words)
    if not (number or one or word):
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor | np.ndarray) else ""
        raise InvalidInput(name, "one real number", type(value).__name__ + shape)
    limit.read(name, plain(value))


def check_positive(name: str, value: float) -> None:
    """Raise InvalidInput unless a number is positive and finite."""
    check_constant(name, value, POSITIVE)


def generator(seed: int, *key: int) -> np.random.Generator:
    """The random generator that belongs to (seed, key) and to nothing else."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
