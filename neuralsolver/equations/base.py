"""What is to be solved: F(u; f) = 0, on the unit square unless a problem says otherwise.

Shapes, stated once (B samples, n × n grid points, T frames, U unknown fields):

    inputs f      (B, C, n, n)        source, permeability or initial vorticity
    solution u    (B, U, n, n)        equations without frames
                  (B, U, T, n, n)     trajectories; frame 0 is the known initial state
    residual F    the shape of u      zero where u is known or no stencil fits

Arrays are indexed [r₁, r₂]; `grid` says where these points are. What kind of equation it is, the
equation declares (boundary, frames, precision, has_floor); nobody else asks.
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

from neuralsolver.equations.grid import Grid
from neuralsolver.equations.units import Units
from neuralsolver.errors import InvalidInput

Array = npt.NDArray[np.float64]


class Equation(ABC):
    """A partial differential equation; subclasses are frozen dataclasses of physical constants.

    A new equation needs `residual` and `sample`; see docs/your_own_equation.md.

    An equation of your own has a residual and random inputs (examples/your_own_equation.py):

    >>> import neuralsolver as ns
    >>> class Membrane(ns.Equation):
    ...     linear, jacobian_reads = True, ()
    ...     def residual(self, u, inputs):
    ...         return ns.laplacian(u) - ns.from_interior(ns.interior(inputs))
    ...     def sample(self, rng, resolution):
    ...         return ns.cosine_field(rng, resolution)[None]
    >>> ns.check_equation(Membrane())
    """

    input_names: ClassVar[tuple[str, ...]] = ("source",)
    unknowns: ClassVar[tuple[str, ...]] = ("solution",)
    boundary: ClassVar[str] = "walls"
    """The ends of every axis: "walls", where u is known, or "torus"."""
    precision: ClassVar[torch.dtype] = torch.float64
    """What it is solved in: float64, unless errors stay far above what float32 resolves."""
    has_floor: ClassVar[bool] = False
    """Whether a true solution leaves a residual, so that no tolerance suggests itself."""
    dependent: ClassVar[tuple[str, ...]] = ()
    """Constants that follow from the others unless they are given; zero asks for that."""
    numerics: ClassVar[tuple[str, ...]] = ()
    """Constants that say how the residual is taken: no true solution depends on them."""
    minimum_resolution: ClassVar[int] = 8
    any_grid: ClassVar[bool] = False
    """Whether it knows other grids than that of the unit square (`residual_on`)."""

    @property
    def stencil_reach(self) -> int:
        """How many points away a residual value still looks, in each direction."""
        return 1

    @property
    def frames(self) -> int:
        """The number of frames after the initial one; zero where nothing moves."""
        return 0

    @property
    def name(self) -> str:
        """The name used on the command line and in files."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()

    @property
    def linear(self) -> bool:
        """Whether F is affine in u."""
        return False

    @property
    def self_adjoint(self) -> bool:
        """Whether J = ∂F/∂u is its own transpose over the unknowns, weighted by their shares."""
        return False

    def definite_on(self, grid: Grid) -> bool:
        """Whether J is symmetric and of one sign on a grid between walls: chooses conjugate
        gradients instead of GMRES."""
        return False

    @property
    def jacobian_reads(self) -> tuple[str, ...]:
        """What ∂F/∂u depends on, among "inputs" and "solution"; a safe answer is both."""
        return ("inputs", "solution")

    @abstractmethod
    def residual(self, u: Tensor, inputs: Tensor) -> Tensor:
        """F(u; f), differentiable; the resolution is read off the tensors."""

    def residual_on(self, grid: Grid, u: Tensor, inputs: Tensor) -> Tensor:
        """F on the points of any grid, for equations that know how (`any_grid`)."""
        raise InvalidInput("grid", f"the unit square, which is all {self.name} knows", grid)

    @abstractmethod
    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        """One random input (C, n, n); the same generator state gives the same function at any n."""

    def impose(self, u: Tensor, inputs: Tensor) -> Tensor:
        """u with the values that are known beforehand: zero on the walls, if there are any."""
        return self.grid(u.shape[-1]).zero_walls(u)

    def first_guess(self, inputs: Tensor) -> Tensor:
        """The field one begins with, zero by default; its residual is the unit of all others."""
        shape = (inputs.shape[0], *self.solution_shape(inputs.shape[-1]))
        return self.impose(inputs.new_zeros(shape), inputs)

    def invert_linear_part(self, residual: Tensor) -> Tensor | None:
        """L⁻¹r for a part L of ∂F/∂u that is inverted exactly and cheaply, where one is known."""
        return None

    def invert_linearisation(self, u: Tensor) -> Callable[[Tensor], Tensor] | None:
        """How L⁻¹r becomes J(u)⁻¹r, nearly, where that is known: see `invert_linear_part`."""
        return None

    def conditioning(self, inputs: Tensor) -> Tensor:
        """What a network sees of the inputs, as channels (B, C, n, n)."""
        return inputs

    def solution_shape(self, *points: int) -> tuple[int, ...]:
        """Shape of one solution, without the batch axis; a single number stands for a square."""
        moving = (self.frames + 1,) if self.frames else ()
        return (len(self.unknowns), *moving, *(points if len(points) > 1 else 2 * points))

    def grid(self, resolution: int) -> Grid:
        """The points of the unit square, `resolution` along each axis."""
        make = Grid.torus if self.boundary == "torus" else Grid.between_walls
        return make(resolution, resolution)

    def smallest_singular_value(self, inputs: Tensor) -> Tensor | None:
        """A proven lower bound on the singular values of ∂F/∂u for each sample, where one is known.

        With it a residual bounds the error of a linear equation: ‖u − u*‖ ≤ ‖F(u)‖ / σ.
        """
        return None

    def smallest_singular_value_on(self, grid: Grid, inputs: Tensor) -> Tensor | None:
        """The same on any grid, and however many points of it are known."""
        return None

    def in_lengths(self, length: float) -> tuple[Equation, float]:
        """With lengths measured in `length`: the equation that u/σ solves for the same f, and σ."""
        raise InvalidInput("grid", f"the unit square, which is all {self.name} knows", length)

    def natural_units(self, inputs: Tensor) -> Units | None:
        """The same problem with numbers of ordinary size; None where it has them."""
        return None

    @property
    def unique_where_definite(self) -> bool:
        """Whether at most one solution has a definite ∂F/∂u: the one continued from f = 0."""
        return False

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
        if self.boundary == "torus" and resolution % 2:
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


def check_positive(name: str, value: float) -> None:
    """Raise InvalidInput unless a physical constant is positive and finite."""
    value = plain(value)
    if not (np.isfinite(value) and value > 0):
        raise InvalidInput(name, "a positive finite number", value)


def check_finite(name: str, value: float) -> None:
    """Raise InvalidInput unless a physical constant is finite."""
    value = plain(value)
    if not np.isfinite(value):
        raise InvalidInput(name, "a finite number", value)


def generator(seed: int, *key: int) -> np.random.Generator:
    """The random generator that belongs to (seed, key) and to nothing else."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
