"""Vorticity on the unit torus.

    ∂w/∂t + v·∇w = νΔw + f,     v = (∂ψ/∂y, −∂ψ/∂x),   −Δψ = w

Pseudo-spectral and 2/3-dealiased in space (`torus`), integrating-factor Runge-Kutta 4 or the
paper's Euler/Crank-Nicolson scheme in time (`time_stepping`). The initial field is projected onto
the dealiased modes. Both schemes share the discretisation in space, so their difference is an error
in time only. Samples are integrated one by one: the same bits alone and in any batch.
Arrays are indexed [x, y].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neuralsolver.errors import InvalidInput
from neuralsolver.reference.time_stepping import Scheme, advancing
from neuralsolver.reference.torus import Array, Flow


def diagonal_forcing(resolution: int, amplitude: float = 0.1, wavenumber: int = 1) -> Array:
    """A (sin 2πk(x + y) + cos 2πk(x + y)) on the torus grid, (n, n)."""
    x = np.arange(resolution) / resolution
    phase = 2.0 * np.pi * wavenumber * (x[:, None] + x)
    forcing: Array = amplitude * (np.sin(phase) + np.cos(phase))
    return forcing


def kolmogorov_forcing(resolution: int, amplitude: float = 4.0, wavenumber: int = 4) -> Array:
    """−A cos(2πk y) on the torus grid, (n, n); y is the second axis."""
    y = np.arange(resolution) / resolution
    profile = -amplitude * np.cos(2.0 * np.pi * wavenumber * y)
    return np.tile(profile, (resolution, 1))


def integrate(
    initial: npt.ArrayLike,
    forcing: npt.ArrayLike,
    viscosity: float,
    times: Sequence[float] | Array,
    *,
    start: float = 0.0,
    tolerance: float = 1e-8,
    step: float | None = None,
    scheme: Scheme = "ifrk4",
) -> Array:
    """Vorticity at the given `times` from `initial` (B, n, n) at time `start`: (B, T, n, n).

    `times` increase and none precedes `start`. For "ifrk4", `tolerance` is the relative
    error in time, ‖error‖₂ / ‖w‖₂, aimed at over the whole run; a `step` fixes the step instead.
    For "paper" the step is 10⁻⁴ unless given. Every step is shortened, never lengthened, to land
    exactly on the recording times. `ReferenceFailure` when the field ceases to be finite.
    """
    fields, force = _checked_fields(initial, forcing)
    moments = _checked_times(times, start)
    for name, number in (("viscosity", viscosity), ("tolerance", tolerance), ("step", step)):
        if number is not None and not (np.isfinite(number) and number > 0.0):
            raise InvalidInput(name, "a finite number > 0", number)
    if scheme not in ("ifrk4", "paper"):
        raise InvalidInput("scheme", "'ifrk4' or 'paper'", repr(scheme))
    flow = Flow(fields.shape[-1], viscosity, force)
    frames = np.empty((len(fields), len(moments), *force.shape))
    for sample, recorded in zip(fields, frames, strict=True):
        state = flow.to_modes(sample)
        advance = advancing(flow, scheme, tolerance, step)
        moment = start
        for frame, target in zip(recorded, moments, strict=True):
            if target > moment:
                state = advance(state, moment, float(target))
            moment = float(target)
            frame[...] = flow.to_points(state)
    return frames


def _checked_fields(initial: npt.ArrayLike, forcing: npt.ArrayLike) -> tuple[Array, Array]:
    fields = np.ascontiguousarray(initial, dtype=np.float64)
    if fields.ndim != 3 or fields.shape[1] != fields.shape[2]:
        raise InvalidInput("initial", "shape (B, n, n)", f"shape {fields.shape}")
    n = fields.shape[-1]
    if n < 8 or n % 2:
        raise InvalidInput("resolution", "an even number of points per side, at least 8", n)
    force = np.ascontiguousarray(forcing, dtype=np.float64)
    if force.shape != (n, n):
        raise InvalidInput("forcing", f"shape ({n}, {n})", f"shape {force.shape}")
    for name, values in (("initial", fields), ("forcing", force)):
        if not np.isfinite(values).all():
            raise InvalidInput(name, "finite values", "NaN or infinity")
    return fields, force


def _checked_times(times: Sequence[float] | Array, start: float) -> Array:
    moments = np.asarray(times, dtype=np.float64)
    increasing = moments.ndim == 1 and len(moments) > 0 and bool((np.diff(moments) > 0.0).all())
    if not (increasing and np.isfinite(moments).all() and moments[0] >= start):
        raise InvalidInput("times", f"increasing finite times from start = {start:g} on", times)
    return moments
