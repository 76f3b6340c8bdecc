"""Darcy flow between zero walls.

    −∇·(a ∇u) = f  in Ω = (0, 1)²,   u = 0 on ∂Ω

in flux form on n × n vertices, h = 1/(n − 1): the flux through the face between two neighbouring
vertices P and Q is ½(a_P + a_Q)(u_P − u_Q)/h, and fluxes out of a vertex sum to h f.

Solved by conjugate gradients preconditioned with the sine-transform solve of −Δ. The spectrum of
(−Δ)⁻¹A lies in [min a, max a] at every resolution, so contrast 4 needs about 23 iterations for
ten digits and contrast 100 about 60, whatever the grid. The preconditioner runs in float32: it only
shapes the search, the recurrence and the reported residual are float64. Coefficients scaled into
the preconditioner (√a on both sides) look natural and are far worse: across a jump they leave an
h⁻² potential, 103 iterations instead of 23 at 128 × 128.

Samples are solved one by one: the same bits alone and in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuralsolver.cancellation import checkpoint
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.reference.elliptic import checked_fields
from neuralsolver.reference.products import dot, norm
from neuralsolver.reference.sine_transform import laplacian_symbol, sine_transform

Array = npt.NDArray[np.float64]

MAX_ITERATIONS = 2000
"""Enough for ten digits up to contrast 10⁴ by the Chebyshev bound √contrast · ln(2·10¹⁰) / 2."""

RESTARTS = 4
"""Fresh starts from the true residual allowed when round-off made the recurrence drift from it."""


@dataclass(frozen=True)
class DarcySolution:
    """Heads u (B, n, n) with, per sample, the CG iterations spent and ‖f − Au‖₂ / ‖f‖₂ reached."""

    u: Array
    iterations: npt.NDArray[np.int64]
    relative_residual: Array


def solve_darcy(
    permeability: npt.ArrayLike, source: npt.ArrayLike, *, tolerance: float = 1e-10
) -> DarcySolution:
    """u with −∇·(a∇u) = source; permeability (B, n, n), source a number or (B, n, n).

    `tolerance` bounds the true relative residual; `ReferenceFailure` when it is not reached.
    """
    a = checked_fields("permeability", permeability)
    if not (a > 0.0).all():
        raise InvalidInput("permeability", "positive values", f"minimum {a.min():g}")
    if not 0.0 < tolerance < 1.0:
        raise InvalidInput("tolerance", "a number between 0 and 1", tolerance)
    f = _checked_source(source, a.shape)
    u = np.zeros_like(a)
    iterations = np.zeros(len(a), dtype=np.int64)
    residual = np.zeros(len(a))
    for i in range(len(a)):
        iterations[i], residual[i] = _solve_one(FluxForm(a[i]), f[i], u[i], tolerance)
    return DarcySolution(u, iterations, residual)


class FluxForm:
    """The operator −∇·(a∇·) on full (n, n) grids whose ring is zero, before and after.

    Faces are flat arrays as long as the grid, so that a product is a few contiguous sweeps; a face
    that joins two ring vertices, or the end of a row to the start of the next, has weight 0.
    """

    def __init__(self, permeability: Array) -> None:
        n = len(permeability)
        scale = 0.5 * (n - 1) ** 2
        self.resolution = n
        across = np.zeros((n, n))
        across[:-1, 1:-1] = scale * (permeability[:-1, 1:-1] + permeability[1:, 1:-1])
        along = np.zeros((n, n))
        along[1:-1, :-1] = scale * (permeability[1:-1, :-1] + permeability[1:-1, 1:])
        self._across = across.ravel()[:-n].copy()
        self._along = along.ravel()[:-1].copy()
        self._flux = np.empty(n * n)

    def apply(self, u: Array, out: Array) -> Array:
        """−∇·(a∇u) into `out`."""
        n, x, y = self.resolution, u.ravel(), out.reshape(-1)
        flux = self._flux[: n * n - n]
        np.subtract(x[:-n], x[n:], out=flux)
        flux *= self._across
        y[:-n] = flux
        y[-n:] = 0.0
        y[n:] -= flux
        flux = self._flux[: n * n - 1]
        np.subtract(x[:-1], x[1:], out=flux)
        flux *= self._along
        y[:-1] += flux
        y[1:] -= flux
        out[0] = out[-1] = 0.0
        out[:, 0] = out[:, -1] = 0.0
        return out


def _solve_one(operator: FluxForm, source: Array, u: Array, tolerance: float) -> tuple[int, float]:
    """Solves for `u` in place; returns the iterations and the true relative residual."""
    right = np.zeros_like(u)
    right[1:-1, 1:-1] = source[1:-1, 1:-1]
    size = norm(right)
    if size == 0.0:
        return 0, 0.0
    residual, product = right.copy(), np.empty_like(u)
    reached, iterations = 1.0, 0
    for _ in range(1 + RESTARTS):
        iterations += _conjugate_gradients(operator, u, residual, 0.9 * tolerance * size)
        np.subtract(right, operator.apply(u, product), out=residual)
        reached = norm(residual) / size
        if reached <= tolerance:
            return iterations, reached
    raise ReferenceFailure(
        f"Darcy: relative residual {reached:.2e} after {iterations} iterations, "
        f"not the requested {tolerance:.2e}"
    )


def _conjugate_gradients(operator: FluxForm, u: Array, residual: Array, target: float) -> int:
    """Improves `u` until the recurrence puts ‖residual‖ below `target`; both change in place."""
    direction, product = np.zeros_like(u), np.empty_like(u)
    preconditioned, previous = np.zeros_like(u), np.empty_like(u)
    symbol = -laplacian_symbol(operator.resolution).astype(np.float32)
    transform = sine_transform(operator.resolution, single=True)
    energy = 1.0
    for iteration in range(MAX_ITERATIONS):
        checkpoint()
        size = norm(residual)
        if not size > target:
            return iteration
        # Scaled to 1 so that float32 neither overflows nor underflows, whatever the units of f.
        interior = (residual[1:-1, 1:-1] / size).astype(np.float32)
        interior = transform.forward(interior)
        interior /= symbol
        np.multiply(transform.inverse(interior), size, out=preconditioned[1:-1, 1:-1])
        new_energy = dot(residual, preconditioned)
        # Polak-Ribière: keeps the directions conjugate under a preconditioner that is only
        # linear and symmetric to seven digits.
        coupling = (new_energy - dot(previous, preconditioned)) / energy if iteration else 0.0
        energy = new_energy
        direction *= coupling
        direction += preconditioned
        operator.apply(direction, product)
        step = energy / dot(direction, product)
        np.copyto(previous, residual)
        np.multiply(direction, step, out=preconditioned)
        u += preconditioned
        product *= step
        residual -= product
    return MAX_ITERATIONS


def _checked_source(source: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    values = np.asarray(source, dtype=np.float64)
    if values.ndim != 0 and values.shape != shape:
        raise InvalidInput("source", f"a number or shape {shape}", f"shape {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidInput("source", "finite values", "NaN or infinity")
    return np.broadcast_to(values, shape)
