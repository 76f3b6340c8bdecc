"""Poisson's equation and Darcy flow in the unit cube between zero walls.

    Δu = f,    −∇·(a ∇u) = f    in Ω = (0, 1)³,   u = 0 on ∂Ω

on n × n × n vertices, h = 1/(n − 1), with the seven-point Laplacian and the flux form of `darcy`.
The sine transform along each axis diagonalises the first; conjugate gradients preconditioned with
it solve the second, in a number of iterations that depends on the contrast of a alone.

A transform is three products with the matrix of sines: 6(n−2)⁴ operations, which at the sizes that
fit in memory beat a fast transform, and n − 1 may be prime. The preconditioner runs in float32.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.reference.products import Real

Array = npt.NDArray[np.float64]

TOLERANCE = 1e-11
MAX_ITERATIONS = 500


def solve_poisson_box(source: npt.ArrayLike) -> Array:
    """u with Δu = source, (B, n, n, n) → (B, n, n, n)."""
    fields = _checked("source", source)
    transform = sine_transform_of_box(fields.shape[-1])
    u = np.zeros_like(fields)
    for f, answer in zip(fields, u, strict=True):
        answer[1:-1, 1:-1, 1:-1] = -transform.inverse_laplacian(f[1:-1, 1:-1, 1:-1])
    return u


def solve_darcy_box(
    permeability: npt.ArrayLike, source: npt.ArrayLike, *, tolerance: float = TOLERANCE
) -> Array:
    """u with −∇·(a∇u) = source; both (B, n, n, n), or a number for the source.

    `tolerance` bounds the relative residual; `ReferenceFailure` when it is not reached.
    """
    a = _checked("permeability", permeability)
    if not (a > 0.0).all():
        raise InvalidInput("permeability", "positive values", f"minimum {a.min():g}")
    f = _checked("source", np.broadcast_to(np.asarray(source, dtype=np.float64), a.shape))
    u = np.zeros_like(a)
    for i in range(len(a)):
        inside = conjugate_gradients(BoxFlux(a[i]), f[i, 1:-1, 1:-1, 1:-1], tolerance)[0]
        u[i, 1:-1, 1:-1, 1:-1] = inside
    return u


class BoxFlux:
    """−∇·(a∇·) of fields (m, m, m) inside zero walls, m = n − 2, by its faces along each axis."""

    def __init__(self, permeability: Array) -> None:
        scale = 0.5 * (len(permeability) - 1) ** 2
        self.resolution = len(permeability)
        inside = slice(1, -1)
        self.faces = []
        for axis in range(3):
            line = tuple(slice(None) if k == axis else inside for k in range(3))
            b = np.moveaxis(permeability[line], axis, 0)
            self.faces.append(scale * (b[1:] + b[:-1]))
        total = (face[1:] + face[:-1] for face in self.faces)
        self.diagonal: Array = sum(
            (np.moveaxis(part, 0, axis) for axis, part in enumerate(total)),
            start=np.zeros((self.resolution - 2,) * 3),
        )

    def __call__(self, u: Array) -> Array:
        """−∇·(a∇u)."""
        product: Array = self.diagonal * u
        for axis, face in enumerate(self.faces):
            x, y = np.moveaxis(u, axis, 0), np.moveaxis(product, axis, 0)
            between = face[1:-1]
            y[1:] -= between * x[:-1]
            y[:-1] -= between * x[1:]
        return product


def conjugate_gradients(operator: BoxFlux, right: Array, tolerance: float) -> tuple[Array, int]:
    """u with ‖f − Au‖ ≤ tolerance ‖f‖, and the iterations that it took."""
    transform = sine_transform_of_box(operator.resolution, single=True)
    u, r = np.zeros_like(right), right.copy()
    size = float(np.linalg.norm(right))
    if size == 0.0:
        return u, 0
    p, previous, energy = np.zeros_like(u), r, 1.0
    for iteration in range(MAX_ITERATIONS):
        scale = float(np.linalg.norm(r))
        if scale <= tolerance * size:
            r = right - operator(u)  # the recurrence may have drifted from it
            if np.linalg.norm(r) <= tolerance * size:
                return u, iteration
        z = scale * transform.inverse_laplacian((r / scale).astype(np.float32)).astype(np.float64)
        new_energy = float(np.vdot(r, z))
        # Polak-Ribière: the preconditioner is symmetric to seven digits only
        coupling = (new_energy - float(np.vdot(previous, z))) / energy if iteration else 0.0
        energy = new_energy
        p = z + coupling * p
        q = operator(p)
        step = energy / float(np.vdot(p, q))
        u += step * p
        previous, r = r, r - step * q
    got = float(np.linalg.norm(r)) / size
    raise ReferenceFailure(f"Darcy in a box: relative residual {got:.2e}, not {tolerance:.2e}")


class BoxTransform:
    """The orthonormal sine transform inside an n × n × n grid; symmetric, and its own inverse."""

    def __init__(self, resolution: int, single: bool) -> None:
        modes, intervals = np.arange(1, resolution - 1), resolution - 1
        turns = np.outer(modes, modes) % (2 * intervals)
        sines = np.sqrt(2.0 / intervals) * np.sin(np.pi * turns / intervals)
        side = (2.0 * intervals * np.sin(0.5 * np.pi * modes / intervals)) ** 2
        symbol = side[:, None, None] + side[:, None] + side
        dtype = np.float32 if single else np.float64
        self.sines: Real = np.ascontiguousarray(sines, dtype=dtype)
        self.symbol: Real = symbol.astype(dtype)

    def __call__(self, values: Real) -> Real:
        """Point values to amplitudes, and back."""
        m = len(self.sines)
        x: Real = (self.sines @ values.reshape(m, m * m)).reshape(m, m, m)
        return (self.sines @ x) @ self.sines

    def inverse_laplacian(self, values: Real) -> Real:
        """(−Δ)⁻¹ of point values."""
        return self(self(values) / self.symbol)


@lru_cache(maxsize=8)
def sine_transform_of_box(resolution: int, single: bool = False) -> BoxTransform:
    """The transform of a grid, its tables computed once."""
    return BoxTransform(resolution, single)


def _checked(name: str, values: npt.ArrayLike) -> Array:
    fields = np.ascontiguousarray(values, dtype=np.float64)
    if fields.ndim != 4 or len(set(fields.shape[1:])) != 1 or fields.shape[1] < 3:
        raise InvalidInput(name, "shape (B, n, n, n) with n >= 3", f"shape {fields.shape}")
    if not np.isfinite(fields).all():
        raise InvalidInput(name, "finite values", "NaN or infinity")
    return fields
