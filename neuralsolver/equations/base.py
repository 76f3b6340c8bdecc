"""What is to be solved: F(u; f) = 0 on the unit square.

Shapes, stated once (B samples, n × n grid points, T frames):

    inputs f      (B, C, n, n)        source, permeability or initial vorticity
    solution u    (B, 1, n, n)        static equations
                  (B, 1, T, n, n)     flows; frame 0 is the known initial state
    residual F    the shape of u      zero where u is imposed or no stencil fits

Arrays are indexed [r₁, r₂]. Between walls the grid includes them, rᵢ = i/(n−1); on the torus the
right end is the left one, rᵢ = i/n.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput

Array = npt.NDArray[np.float64]


class Equation(ABC):
    """A partial differential equation; subclasses are frozen dataclasses of physical constants.

    A new equation needs `residual` and `sample`; see docs/your_own_equation.md.
    """

    input_names: ClassVar[tuple[str, ...]] = ("source",)
    periodic: ClassVar[bool] = False
    dependent: ClassVar[tuple[str, ...]] = ()
    """Constants that follow from the others unless they are given; zero asks for that."""
    numerics: ClassVar[tuple[str, ...]] = ()
    """Constants that say how the residual is taken: no true solution depends on them."""
    minimum_resolution: ClassVar[int] = 8

    @property
    def stencil_reach(self) -> int:
        """How many points away a residual value still looks, in each direction."""
        return 1

    @property
    def name(self) -> str:
        """The name used on the command line and in files."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()

    @property
    def linear(self) -> bool:
        """Whether F is affine in u."""
        return False

    @property
    def jacobian_reads(self) -> tuple[str, ...]:
        """What ∂F/∂u depends on, among "inputs" and "solution"; a safe answer is both."""
        return ("inputs", "solution")

    @abstractmethod
    def residual(self, u: Tensor, inputs: Tensor) -> Tensor:
        """F(u; f), differentiable; the resolution is read off the tensors."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, resolution: int) -> Array:
        """One random input (C, n, n); the same generator state gives the same function at any n."""

    def impose(self, u: Tensor, inputs: Tensor) -> Tensor:
        """u with the values that are known beforehand: zero on the walls."""
        return zero_ring(u)

    def first_guess(self, inputs: Tensor) -> Tensor:
        """The field one begins with, zero by default; its residual is the unit of all others."""
        shape = (inputs.shape[0], *self.solution_shape(inputs.shape[-1]))
        return self.impose(inputs.new_zeros(shape), inputs)

    def invert_linear_part(self, residual: Tensor) -> Tensor | None:
        """L⁻¹r for a part L of ∂F/∂u that is inverted exactly and cheaply, where one is known."""
        return None

    def conditioning(self, inputs: Tensor) -> Tensor:
        """What a network sees of the inputs, as channels (B, C, n, n)."""
        return inputs

    def solution_shape(self, resolution: int) -> tuple[int, ...]:
        """Shape of one solution, without the batch axis."""
        return (1, resolution, resolution)

    def smallest_singular_value(self, inputs: Tensor) -> Tensor | None:
        """A proven lower bound on the singular values of ∂F/∂u for each sample, where one is known.

        With it a residual bounds the error of a linear equation: ‖u − u*‖ ≤ ‖F(u)‖ / σ.
        """
        return None

    def constants(self) -> dict[str, Any]:
        """The physical constants by name."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    def check_inputs(self, inputs: Tensor) -> None:
        """Raise InvalidInput unless `inputs` is a finite real batch on a large square grid."""
        names = " and ".join(self.input_names)
        channels = len(self.input_names)
        if inputs.is_complex() or not inputs.is_floating_point():
            raise InvalidInput(names, "real floating-point values", inputs.dtype)
        if inputs.dim() != 4 or inputs.shape[1] != channels or inputs.shape[2] != inputs.shape[3]:
            expected = f"shape (batch, {channels}, n, n)"
            raise InvalidInput(names, expected, tuple(inputs.shape))
        check_resolution(self, inputs.shape[-1])
        if not bool(torch.isfinite(inputs).all()):
            count = int((~torch.isfinite(inputs)).sum())
            raise InvalidInput(names, "finite values", f"{count} NaN or infinite values")


def check_resolution(equation: Equation, resolution: int) -> None:
    """Raise InvalidInput when the grid is too small (or odd, on the torus) for the equation."""
    if resolution < equation.minimum_resolution:
        raise InvalidInput("resolution", f"at least {equation.minimum_resolution}", resolution)
    if equation.periodic and resolution % 2:
        raise InvalidInput("resolution", "an even number on the torus", resolution)


def check_positive(name: str, value: float) -> None:
    """Raise InvalidInput unless a physical constant is positive and finite."""
    if not (np.isfinite(value) and value > 0):
        raise InvalidInput(name, "a positive finite number", value)


def check_finite(name: str, value: float) -> None:
    """Raise InvalidInput unless a physical constant is finite."""
    if not np.isfinite(value):
        raise InvalidInput(name, "a finite number", value)


def zero_ring(u: Tensor) -> Tensor:
    """u with its outermost grid points set to zero."""
    return torch.nn.functional.pad(u[..., 1:-1, 1:-1], (1, 1, 1, 1))


def generator(seed: int, *key: int) -> np.random.Generator:
    """The random generator that belongs to (seed, key) and to nothing else."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


@dataclass(frozen=True, eq=False)
class Problem:
    """An equation with its inputs, which may be numpy or torch, one field (n, n) or a batch."""

    equation: Equation
    inputs: Tensor

    def __init__(self, equation: Equation, inputs: Tensor | npt.ArrayLike) -> None:
        as_numpy = not isinstance(inputs, Tensor)
        tensor = inputs if isinstance(inputs, Tensor) else _tensor_of(equation, inputs)
        dimensions = tensor.dim()
        if dimensions < 2 or tensor.shape[-1] != tensor.shape[-2]:
            names = " and ".join(equation.input_names)
            raise InvalidInput(
                names, "a square field (n, n) or a batch of them", tuple(tensor.shape)
            )
        if dimensions == 2:
            tensor = tensor[None, None]
        elif dimensions == 3:
            tensor = tensor[None] if len(equation.input_names) > 1 else tensor[:, None]
        equation.check_inputs(tensor)
        object.__setattr__(self, "equation", equation)
        object.__setattr__(self, "inputs", tensor)
        object.__setattr__(self, "_given", (as_numpy, dimensions))

    @classmethod
    def random(
        cls, equation: Equation, resolution: int, count: int = 1, seed: int = 0, key: int = 0
    ) -> Problem:
        """`count` random instances in float64; sample i depends on (seed, key, i) only."""
        check_resolution(equation, resolution)
        fields = [equation.sample(generator(seed, key, i), resolution) for i in range(count)]
        return cls(equation, torch.from_numpy(np.stack(fields)))

    @property
    def resolution(self) -> int:
        return self.inputs.shape[-1]

    @property
    def batch(self) -> int:
        return self.inputs.shape[0]

    def residual(self, u: Tensor) -> Tensor:
        """F(u; f)."""
        return self.equation.residual(u, self.inputs)

    def impose(self, u: Tensor) -> Tensor:
        """u with its known values."""
        return self.equation.impose(u, self.inputs)

    def zeros(self) -> Tensor:
        """The zero guess, with the known values imposed."""
        shape = (self.batch, *self.equation.solution_shape(self.resolution))
        return self.impose(self.inputs.new_zeros(shape))

    def first_guess(self) -> Tensor:
        """The field one begins with."""
        return self.equation.first_guess(self.inputs)

    def weigh(self, residual: Tensor) -> Tensor:
        """A residual as it is measured: L⁻¹r in the units of the error where L⁻¹ is known, or r."""
        integrated = self.equation.invert_linear_part(residual)
        return residual if integrated is None else integrated

    def select(self, index: Tensor | Sequence[int] | slice) -> Problem:
        """The sub-batch at `index`."""
        return Problem(self.equation, self.inputs[index])

    def in_precision(self, dtype: torch.dtype) -> Problem:
        """The same problem in another precision, to be restored as it was given."""
        changed = Problem(self.equation, self.inputs.to(dtype))
        object.__setattr__(changed, "_given", self._given)  # type: ignore[attr-defined]
        return changed

    def restore(self, u: Tensor) -> Any:
        """u in the kind and layout in which the inputs were given."""
        as_numpy, dimensions = self._given  # type: ignore[attr-defined]
        if dimensions == 2:
            u = u[0, 0]
        elif dimensions == 3:
            u = u[0] if len(self.equation.input_names) > 1 else u[:, 0]
        return u.detach().cpu().numpy() if as_numpy else u


def _tensor_of(equation: Equation, values: npt.ArrayLike) -> Tensor:
    array = np.asarray(values)
    names = " and ".join(equation.input_names)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InvalidInput(names, "real numbers", f"dtype {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return torch.from_numpy(np.ascontiguousarray(array))
