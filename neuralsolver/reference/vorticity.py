"""Vorticity on the unit torus.

    ∂w/∂t + v·∇w = νΔw + f,     v = (a, b) = (∂ψ/∂y, −∂ψ/∂x),   −Δψ = w

In space: Fourier modes |k_x|, |k_y| ≤ K with 3K < n (the 2/3 rule: products are free of aliasing),
stored as a (2K + 1, K + 1) half spectrum. With zero mean flow

    v·∇w = (∂²/∂x² − ∂²/∂y²)(a b) − ∂²/∂x∂y (a² − b²),

which costs four real transforms instead of the five of v·∇w itself. In time: dw/dt = νΔw + N(w) by
the integrating-factor Runge-Kutta method of fourth order, with E = exp(νΔ h/2) exact,

    k₁ = N(w)                  k₂ = N(E(w + h/2 k₁))      k₃ = N(Ew + h/2 k₂)
    k₄ = N(E²w + hE k₃)        w⁺ = E²w + h/6 (E²k₁ + 2E(k₂ + k₃) + k₄).

Under a tolerance every step is taken once with h and twice with h/2: their difference / 15
estimates the error of the pair, sets the step, and is added to the result.

The initial field is projected onto the dealiased modes. Samples are integrated one by one: the same
bits alone and in any batch. Arrays are indexed [x, y].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neuralsolver.cancellation import checkpoint
from neuralsolver.errors import InvalidInput, ReferenceFailure

Array = npt.NDArray[np.float64]
Spectrum = npt.NDArray[np.complex128]

FIRST_STEP = 0.02
"""The first step tried under a tolerance; the estimate corrects it at once."""

SMALLEST_STEP = 1e-7
"""A tolerance that asks for shorter steps than this cannot be met in double precision."""


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
    tolerance: float = 1e-8,
    step: float | None = None,
) -> Array:
    """The vorticity at some times.

    Args:
        initial: The vorticity at t = 0, (B, n, n).
        forcing: f, (n, n).
        viscosity: ν.
        times: Increasing times from 0 on. Steps are shortened to land on them exactly.
        tolerance: Relative error in time, ‖error‖₂ / ‖w‖₂, aimed at over the whole run.
        step: Fixes the step instead.

    Returns:
        The frames, (B, T, n, n).

    Raises:
        ReferenceFailure: The field ceased to be finite, or the tolerance cannot be met.
    """
    fields, force = _checked_fields(initial, forcing)
    moments = _checked_times(times)
    for name, number in (("viscosity", viscosity), ("tolerance", tolerance), ("step", step)):
        if number is not None and not (np.isfinite(number) and number > 0.0):
            raise InvalidInput(name, "a finite number > 0", number)
    flow = Flow(fields.shape[-1], viscosity, force)
    frames = np.empty((len(fields), len(moments), *force.shape))
    for sample, recorded in zip(fields, frames, strict=True):
        state = flow.to_modes(sample)
        adaptive = _Adaptive(flow, tolerance)
        moment = 0.0
        for frame, target in zip(recorded, moments.tolist(), strict=True):
            if target > moment and step is None:
                state = adaptive.advance(state, moment, target)
            elif target > moment and step is not None:
                state = _fixed_steps(flow, state, moment, target, step)
            moment = target
            frame[...] = flow.to_points(state)
    return frames


class Flow:
    """The semi-discrete equation dw/dt = νΔw + N(w) on the kept modes, (2K + 1, K + 1) complex."""

    def __init__(self, resolution: int, viscosity: float, forcing: Array) -> None:
        self.resolution = resolution
        self.kept = (resolution - 1) // 3
        one_sided = np.arange(self.kept + 1)
        two_sided = np.concatenate([one_sided, np.arange(-self.kept, 0)])
        k_x, k_y = 2.0 * np.pi * two_sided[:, None], 2.0 * np.pi * one_sided
        squared = k_x**2 + k_y**2
        self.decay = viscosity * squared
        inverse = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0.0)
        self._velocity = np.stack([1j * k_y * inverse, -1j * k_x * inverse])
        self._advection = np.stack([-k_x * k_y, k_x**2 - k_y**2])
        # Work space. Fresh arrays of this size come from the operating system page by page, which
        # costs three times the transforms themselves.
        columns = resolution // 2 + 1
        self._wide = np.zeros((2, resolution, self.kept + 1), dtype=np.complex128)
        self._half = np.zeros((2, resolution, columns), dtype=np.complex128)
        self._spectra = np.empty((2, resolution, columns), dtype=np.complex128)
        self._points = np.empty((2, resolution, resolution))
        # zero, because one field alone is transformed together with whatever is in the other half
        self._products = np.zeros((2, resolution, resolution))
        self.forcing = self.to_modes(forcing)

    def to_modes(self, points: Array) -> Spectrum:
        """The kept modes of one real field (n, n)."""
        self._products[0] = points
        modes: Spectrum = self._modes_of_products()[0]
        return modes

    def to_points(self, modes: Spectrum) -> Array:
        """The real field (n, n) of the kept modes."""
        points: Array = self._points_of(modes)[0].copy()
        return points

    def tendency(self, modes: Spectrum) -> Spectrum:
        """N(w) = f − v·∇w."""
        checkpoint()
        a, b = self._points_of(self._velocity * modes)
        product, difference = self._products[1], self._products[0]
        np.multiply(a, b, out=product)
        np.add(a, b, out=difference)
        a -= b
        difference *= a
        stresses = self._modes_of_products()
        stresses *= self._advection
        result: Spectrum = stresses[0]
        result += stresses[1]
        result += self.forcing
        return result

    def _points_of(self, modes: Spectrum) -> Array:
        kept, wide = self.kept, self._wide
        wide[:, : kept + 1] = modes[..., : kept + 1, :]
        wide[:, -kept:] = modes[..., kept + 1 :, :]
        np.fft.ifft(wide, axis=1, norm="forward", out=self._half[..., : kept + 1])
        np.fft.irfft(self._half, self.resolution, axis=2, norm="forward", out=self._points)
        return self._points

    def _modes_of_products(self) -> Spectrum:
        kept = self.kept
        np.fft.rfft(self._products, axis=2, norm="forward", out=self._spectra)
        full = np.fft.fft(self._spectra[..., : kept + 1], axis=1, norm="forward", out=self._wide)
        modes: Spectrum = np.concatenate([full[:, : kept + 1], full[:, -kept:]], axis=1)
        self._wide[:, kept + 1 : -kept] = 0.0
        return modes


class _Adaptive:
    """Steps set by step doubling.

    The estimated error of a step, before it is extrapolated away, may be half the tolerance. What
    is left after extrapolation is a power of h smaller, so that it adds up over the whole run to
    the tolerance or less (measured: about half of it), in proportion to it.
    """

    def __init__(self, flow: Flow, tolerance: float) -> None:
        self.flow, self.tolerance = flow, tolerance
        self.step = FIRST_STEP

    def advance(self, state: Spectrum, moment: float, target: float) -> Spectrum:
        """The state at the next recording time."""
        while moment < target:
            count = _steps(target - moment, self.step)
            step = (target - moment) / count
            if step < min(SMALLEST_STEP, 0.5 * (target - moment)):
                raise ReferenceFailure(
                    f"vorticity: tolerance {self.tolerance:g} needs steps below {step:.1e} "
                    f"at t = {moment:g}"
                )
            with np.errstate(over="ignore", invalid="ignore"):
                result, excess = self._pair(state, step)
            # The error of a step scales like h⁵; 0.9 is the usual safety factor.
            factor = 0.9 * max(excess, 1e-12) ** -0.2 if np.isfinite(excess) else 0.2
            if excess <= 1.0:
                state = result
                moment = target if count == 1 else moment + step
                # A step shortened only to land on a recording time must not shorten the next.
                self.step = max(self.step if factor >= 1.0 else 0.0, step * min(factor, 2.0))
            else:
                self.step = step * min(max(factor, 0.2), 0.9)
        return state

    def _pair(self, state: Spectrum, step: float) -> tuple[Spectrum, float]:
        """The extrapolated result after `step`, and the error in units of what is allowed."""
        flow = self.flow
        half = np.exp(-0.5 * step * flow.decay)
        quarter = np.exp(-0.25 * step * flow.decay)
        first = flow.tendency(state)
        once = _runge_kutta(flow, state, first, step, half)
        middle = _runge_kutta(flow, state, first, 0.5 * step, quarter)
        twice = _runge_kutta(flow, middle, flow.tendency(middle), 0.5 * step, quarter)
        correction = (twice - once) / 15.0
        allowed = 0.5 * self.tolerance * max(_norm(twice), 1e-12)
        error = _norm(correction)
        twice += correction
        return twice, error / allowed if np.isfinite(error) else np.inf


def _fixed_steps(
    flow: Flow, state: Spectrum, moment: float, target: float, longest: float
) -> Spectrum:
    count = _steps(target - moment, longest)
    step = (target - moment) / count
    half = np.exp(-0.5 * step * flow.decay)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(count):
            state = _runge_kutta(flow, state, flow.tendency(state), step, half)
    if not np.isfinite(state).all():
        raise ReferenceFailure(
            f"vorticity: not finite at t = {target:g} with step {longest:g}; use a shorter step"
        )
    return state


def _runge_kutta(
    flow: Flow, state: Spectrum, first: Spectrum, step: float, half: Array
) -> Spectrum:
    """One step of the module's formula; `first` is k₁ and `half` is E."""
    decayed = half * state
    carried = half * first
    second = flow.tendency(decayed + 0.5 * step * carried)
    third = flow.tendency(decayed + 0.5 * step * second)
    fourth = flow.tendency(half * (decayed + step * third))
    second += third
    second *= 2.0
    second += carried
    second *= step / 6.0
    second += decayed
    second *= half
    fourth *= step / 6.0
    second += fourth
    return second


def _steps(duration: float, step: float) -> int:
    """How many equal steps, none longer than `step` up to round-off, cover `duration`."""
    return max(1, int(np.ceil(duration / step * (1.0 - 1e-12))))


def _norm(modes: Spectrum) -> float:
    """The L² norm of the field, columns 1 … K counting twice for their mirror images."""
    energy = 2.0 * np.sum(modes.real**2 + modes.imag**2, axis=0)
    return float(np.sqrt(np.sum(energy) - 0.5 * energy[0]))


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


def _checked_times(times: Sequence[float] | Array) -> Array:
    moments = np.asarray(times, dtype=np.float64)
    increasing = moments.ndim == 1 and len(moments) > 0 and bool((np.diff(moments) > 0.0).all())
    if not (increasing and np.isfinite(moments).all() and moments[0] >= 0.0):
        raise InvalidInput("times", "increasing finite times from 0 on", times)
    return moments
