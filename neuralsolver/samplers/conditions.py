"""What a network is told about the sensors, and the units in which it thinks.

The sensors are interpolated by a thin-plate spline, which knows one thing of the prior only: that
sources have no mean. This is the *fill* φ of the input, with its solution A⁻¹φ. The mean is a small
part of f and decides the largest mode of u; a network whose layers are normalised hardly sees it.
A network is to know only what the fill does not:

    x = ½ ((f − φ)/s_f,  (u − A⁻¹φ)/s_u)

where s_f, s_u are the usual sizes of these differences for that number of sensors, so that both
channels have the size that EDM expects. Without sensors φ = 0 and the s are those of the prior.
Inputs are meant as the equation's networks see them (log₂(a/6) of a permeability).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from scipy.interpolate import RBFInterpolator
from scipy.spatial import cKDTree
from torch import Tensor

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import Darcy, Equation, Helmholtz, Poisson
from neuralsolver.equations.base import Array
from neuralsolver.equations.darcy import REFERENCE_PERMEABILITY
from neuralsolver.equations.sensors import Observed, Sensors
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.edm import SIGMA_DATA

CONDITION_CHANNELS = 5
FAR = 2.0
"""What the two channels of distance say where there is no sensor at all."""


@dataclass(frozen=True)
class Sizes:
    """The usual sizes of input and solution, and of their differences from the fill: power laws
    exp(a + b ln N) in the number N of sensors."""

    prior: tuple[float, float]
    law: tuple[tuple[float, float], tuple[float, float]]

    def of(self, count: int) -> tuple[float, float]:
        """s_f and s_u for a number of sensors; zero stands for the prior."""
        if count == 0:
            return self.prior
        first, second = (float(np.exp(a + b * np.log(count))) for a, b in self.law)
        return min(first, self.prior[0]), min(second, self.prior[1])


@singledispatch
def encode_inputs(equation: Equation, inputs: Tensor) -> Tensor:
    """Inputs as networks see them."""
    return equation.conditioning(inputs)


@encode_inputs.register
def _logarithm(equation: Darcy, inputs: Tensor) -> Tensor:
    return torch.log2(inputs[:, :1] / REFERENCE_PERMEABILITY)


@singledispatch
def decode_inputs(equation: Equation, encoded: Tensor, final: bool) -> Tensor:
    """Inputs of an estimate; a `final` one is an input of the family, not a mean of some."""
    return encoded


@decode_inputs.register
def _two_phases(equation: Darcy, encoded: Tensor, final: bool) -> Tensor:
    low, high = (float(np.log2(a / REFERENCE_PERMEABILITY)) for a in (equation.low, equation.high))
    if final:
        return torch.where(encoded >= 0.5 * (low + high), equation.high, equation.low).to(encoded)
    return REFERENCE_PERMEABILITY * 2.0 ** encoded.clamp(low, high)


@singledispatch
def centred(equation: Equation, encoded: Array) -> Array:
    """An input (as networks see it) without the mean that its family does not have."""
    return encoded


@centred.register
def _no_mean(equation: Poisson | Helmholtz, encoded: Array) -> Array:
    # the integral by the trapezoidal rule, to which every cosine but the constant adds nothing
    weights = np.ones(encoded.shape[-1])
    weights[[0, -1]] = 0.5
    weights /= weights.sum()
    mean = np.einsum("...ij,i,j->...", encoded, weights, weights)
    without: Array = encoded - mean[..., None, None]
    return without


@dataclass(frozen=True, eq=False)
class Conditions:
    """A batch of sensor sets as fields (B, 1, n, n), with the sizes (B, 2, 1, 1)."""

    equation: Equation
    fill: Tensor
    filled_solution: Tensor
    mask: Tensor
    distance: Tensor
    counts: Tensor
    scale: Tensor
    prior: tuple[float, float]

    def channels(self) -> Tensor:
        """What a network reads (B, 5, n, n)."""
        observed = (self.counts > 0).view(-1, 1, 1, 1)
        root = self.counts.clamp_min(1).sqrt().view(-1, 1, 1, 1)
        raw, relative = 10 * self.distance, self.distance * root / 2
        far = torch.full_like(raw, FAR)
        parts = [
            self.fill / self.prior[0],
            self.filled_solution / self.prior[1],
            self.mask,
            torch.where(observed, raw, far),
            torch.where(observed, relative, far),
        ]
        return torch.cat(parts, 1)

    def encode(self, encoded_inputs: Tensor, u: Tensor) -> Tensor:
        """x of an input (as networks see it) and a solution."""
        difference = torch.cat([encoded_inputs - self.fill, u - self.filled_solution], 1)
        return SIGMA_DATA * difference / self.scale

    def decode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The input (as networks see it) and the solution of x."""
        change = x * self.scale / SIGMA_DATA
        u = self.equation.impose(self.filled_solution + change[:, 1:], self.fill)
        return self.fill + change[:, :1], u

    def repeat(self, count: int) -> Conditions:
        """Each sensor set `count` times in a row."""
        return self._each(lambda t: t.repeat_interleave(count, 0))

    def select(self, index: slice) -> Conditions:
        """A part of the batch."""
        return self._each(lambda t: t[index])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Conditions:
        parts = ("fill", "filled_solution", "mask", "distance", "counts", "scale")
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in parts}
        return replace(self, **changed)


def conditions(
    equation: Equation,
    resolution: int,
    sensors: Sequence[tuple[Array, Array]],
    sizes: Sizes,
) -> Conditions:
    """Sensor sets (positions (N, 2), values of the input (N,)) as a network is told of them."""
    shape = (len(sensors), 1, resolution, resolution)
    fill, distance, mask = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for i, (positions, values) in enumerate(sensors):
        if len(positions) == 0:
            continue
        fill[i, 0] = centred(equation, filled(equation, positions, values, resolution))
        distance[i, 0] = cKDTree(positions).query(_points(resolution))[0]
        nearest = np.rint(positions * (resolution - 1)).astype(np.int64)
        mask[i, 0, nearest[:, 0], nearest[:, 1]] = 1.0
    counts = torch.tensor([len(positions) for positions, _ in sensors])
    inputs = decode_inputs(equation, torch.from_numpy(fill), False)
    solved = torch.from_numpy(solve_reference(equation, inputs.numpy()).solution)
    solved[counts == 0] = 0.0
    scale = torch.tensor([sizes.of(int(count)) for count in counts], dtype=torch.float64)
    return Conditions(
        equation,
        torch.from_numpy(fill),
        solved,
        torch.from_numpy(mask),
        torch.from_numpy(distance),
        counts,
        scale[:, :, None, None],
        sizes.prior,
    )


def thin_plate_spline(positions: Array, values: Array, resolution: int) -> Array:
    """The thin-plate spline through `values` (N,) at `positions` (N, 2), on n × n points."""
    if np.linalg.matrix_rank(np.column_stack([np.ones(len(values)), positions])) < 3:
        raise InvalidInput("sensors of the input", "three that are not on one line", len(values))
    spline = RBFInterpolator(positions, values, kernel="thin_plate_spline")
    return np.asarray(spline(_points(resolution).reshape(-1, 2)).reshape(resolution, resolution))


def nearest_value(positions: Array, values: Array, resolution: int) -> Array:
    """The value of the nearest sensor, on n × n points."""
    return np.asarray(values[cKDTree(positions).query(_points(resolution))[1]])


def _points(resolution: int) -> Array:
    line = np.linspace(0.0, 1.0, resolution)
    return np.stack(np.meshgrid(line, line, indexing="ij"), -1)


def filled(
    equation: Equation,
    positions: Array,
    values: Array,
    resolution: int,
    interpolate: Callable[[Array, Array, int], Array] = thin_plate_spline,
) -> Array:
    """The input (as networks see it) interpolated between its values at sensors, (n, n)."""
    encoded = encode_inputs(equation, torch.from_numpy(values)[:, None, None, None])
    return interpolate(positions, encoded.flatten().numpy(), resolution)


def input_sensors(observed: Observed) -> Sensors:
    """The sensors of the input, when there are no others."""
    if not observed.inputs_only:
        expected = f"sensors of {observed.equation.input_names[0]} only"
        raise InvalidInput("sensors", expected, "sensors of the solution")
    return observed.sensors
