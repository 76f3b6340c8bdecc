"""Waves that change their own medium: the discretised equation of one medium and one source.

    −Δu − k² s² (1 − iγ + εχ|u|²) u = f   on a box,    u = 0 on its sides

s is the slowness (refractive index), γ ≥ 0 the absorbing layer along the sides, ε the Kerr
coefficient and χ = 1 outside of the layer, 0 inside. ε = 0 is the linear Helmholtz equation in a
heterogeneous medium. The layer is a quadratic sponge, γ = γ₀ (1 − d/w)² within the distance w of a
side. A wave has almost died when it reaches the side, whose value then does not matter.

With the second differences D_x, D_y of a grid of spacing h, the interior unknowns satisfy

    F(u) = B (h² f + m(u) u) − K u = 0,        m(u) = (kh)² s² (1 − iγ + εχ|u|²)

    order 2 (5 points)    K = −(D_x + D_y)                   B = 1
    order 4 (9 points)    K = −(D_x + D_y + D_x D_y / 6)     B = 1 + (D_x + D_y) / 12

F is not differentiable in the complex sense, because |u|² is not. Its derivative in direction v is

    F'(u) v = P(u) v + B (κ u² v̄),      P(u) v = B ((m₀ + 2κ|u|²) v) − K v,    κ = (kh)² s² εχ

with the complex-linear part P, a matrix of half the order of the real Jacobian.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neuralsolver.cancellation import checkpoint
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.sparse_lu import SparseLU

Real = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]

LAYER_WAVELENGTHS = 1.25
"""Width of the absorbing layer in wavelengths of a medium of slowness 1."""
LAYER_STRENGTH = 2.0
"""γ₀: 1 % of the amplitude comes back from the layer."""


@functools.lru_cache(maxsize=16)
def stencils(shape: tuple[int, int], order: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """K and B of the module's equations for a box of interior points, times h².

    Args:
        shape: Interior points along each axis.
        order: 2 or 4.

    Returns:
        K and B with one pattern, which includes zeros of B.
    """
    if order not in (2, 4):
        raise InvalidInput("order", "2 or 4", order)
    one = [sparse.eye_array(n, format="csr") for n in shape]
    second = [sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) for n in shape]
    laplacian: Any = sparse.kron(second[0], one[1]) + sparse.kron(one[0], second[1])
    identity = sparse.eye_array(math.prod(shape))
    if order == 2:
        return (-laplacian).tocsr(), identity.tocsr()
    mixed = sparse.kron(second[0], second[1])
    return (-(laplacian + mixed / 6)).tocsr(), (identity + laplacian / 12).tocsr()


def distance_to_side(shape: tuple[int, int], spacing: float) -> Real:
    """Distance of every point of a box to its nearest side: (n, m), zero on the sides."""
    rows, columns = (np.minimum(np.arange(n), np.arange(n)[::-1]) * spacing for n in shape)
    nearest: Real = np.minimum(rows[:, None], columns[None, :])
    return nearest


@dataclass(frozen=True)
class WaveOperator:
    """The equation with its medium and source on a grid, as functions of interior vectors.

    Args:
        slowness: s > 0 at the points, sides included: (n, m).
        source: f at the points, complex: (n, m).
        wavenumber: k > 0.
        strength: ε ≥ 0.
        order: 2 or 4, of the stencil.
        spacing: h of the grid along both axes.
        layer: Width w of the absorbing layer; 1.25 wavelengths unless given.
    """

    slowness: Real
    source: Complex
    wavenumber: float
    strength: float
    order: int = 4
    spacing: float = 0.0
    layer: float | None = None

    def __post_init__(self) -> None:
        if self.spacing == 0.0:
            object.__setattr__(self, "spacing", 1.0 / (self.slowness.shape[0] - 1))

    @property
    def shape(self) -> tuple[int, int]:
        """Interior points along each axis."""
        return self.slowness.shape[0] - 2, self.slowness.shape[1] - 2

    @functools.cached_property
    def depth(self) -> Real:
        """How far a point lies inside the absorbing layer: 0 at its edge, 1 on a side. (n, m)"""
        wavelength = 2 * math.pi / self.wavenumber
        width = LAYER_WAVELENGTHS * wavelength if self.layer is None else self.layer
        if width == 0.0:
            return np.zeros(self.slowness.shape)
        distance = distance_to_side(self.slowness.shape, self.spacing)
        inside: Real = np.clip(1.0 - distance / width, 0.0, 1.0)
        return inside

    @functools.cached_property
    def linear_medium(self) -> Complex:
        """m(0) at the interior points."""
        scaled = (self.wavenumber * self.spacing * self.slowness) ** 2
        medium: Complex = scaled * (1.0 - 1j * LAYER_STRENGTH * self.depth**2)
        return inner(medium)

    @functools.cached_property
    def kerr(self) -> Real:
        """κ at the interior points."""
        scaled = (self.wavenumber * self.spacing * self.slowness) ** 2
        return inner(self.strength * scaled * (self.depth == 0.0))

    @functools.cached_property
    def right_hand_side(self) -> Complex:
        """B h² f, with f on the sides too."""
        f = self.spacing**2 * self.source.astype(np.complex128)
        if self.order == 2:
            return inner(f)
        neighbours = f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2]
        right: Complex = inner(f) * (2 / 3) + neighbours.ravel() / 12
        return right

    def residual(self, u: Complex) -> Complex:
        """F(u) of an interior vector."""
        checkpoint()
        stiffness, average = stencils(self.shape, self.order)
        medium = self.linear_medium + self.kerr * _square(u)
        return np.asarray(self.right_hand_side + average @ (medium * u) - stiffness @ u)

    def relative_residual(self, u: Complex) -> float:
        """‖F(u)‖ over ‖F(0)‖."""
        return norm(self.residual(u)) / norm(self.right_hand_side)

    def tangent(self, u: Complex, v: Complex) -> Complex:
        """F'(u) v, linear in v over the real numbers."""
        stiffness, average = stencils(self.shape, self.order)
        product = (self.linear_medium + 2 * self.kerr * _square(u)) * v
        return np.asarray(average @ (product + self.kerr * u**2 * v.conj()) - stiffness @ v)

    def complex_factor(self, u: Complex, *, single_precision: bool = False) -> SparseLU:
        """The factors of P(u), the complex-linear part; at u = 0 those of the linear equation."""
        stiffness, average = stencils(self.shape, self.order)
        medium = self.linear_medium + 2 * self.kerr * _square(u)
        matrix = average * medium[None, :] - stiffness
        return SparseLU(matrix, self.shape, single_precision=single_precision)

    def real_factor(self, u: Complex) -> SparseLU:
        """The factors of F'(u) as a real matrix over (Re v, Im v)."""
        stiffness, average = stencils(self.shape, self.order)
        complex_part = average * (self.linear_medium + 2 * self.kerr * _square(u))[None, :]
        conjugate_part = average * (self.kerr * u**2)[None, :]
        straight: Any = sparse.coo_array(complex_part - stiffness)
        mirror: Any = sparse.coo_array(conjugate_part)
        blocks = [
            [straight.real + mirror.real, mirror.imag - straight.imag],
            [straight.imag + mirror.imag, straight.real - mirror.real],
        ]
        return SparseLU(sparse.block_array(blocks, format="csc"), self.shape, fields=2)

    def with_source(self, source: Complex) -> WaveOperator:
        """The same medium with another source: (n, m)."""
        return replace(self, source=source)

    def normalised(
        self, factor: SparseLU | None = None
    ) -> tuple[WaveOperator, SparseLU, Complex, float]:
        """The problem in units in which its linear solution has a maximum of 1.

        Args:
            factor: Of the linear equation, if it is known.

        Returns:
            The scaled problem, whose ε is that of the largest linear intensity; the factors of its
            linear part; its linear solution; and the unit of u.
        """
        if factor is None:
            factor = self.complex_factor(np.zeros(math.prod(self.shape), np.complex128))
        linear: Complex = -factor.solve(self.right_hand_side)
        unit = float(np.abs(linear).max()) or 1.0
        return replace(self, source=self.source / unit), factor, linear / unit, unit

    def embed(self, u: Complex) -> Complex:
        """An interior vector as a field with its sides: (n, m)."""
        return np.pad(u.reshape(self.shape), 1)


def real_solve(factor: SparseLU, right: Complex) -> Complex:
    """v of F'(u) v = r by the factors of `WaveOperator.real_factor`."""
    both = factor.solve(np.concatenate([right.real, right.imag]))
    half = both.size // 2
    result: Complex = both[:half] + 1j * both[half:]
    return result


def inner(field: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The interior points of a field as a vector."""
    return field[1:-1, 1:-1].ravel()


def norm(v: Complex) -> float:
    """Euclidean length."""
    return float(np.linalg.norm(v))


def _square(u: Complex) -> Real:
    result: Real = u.real**2 + u.imag**2
    return result
