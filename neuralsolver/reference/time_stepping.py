"""Vorticity in time: dw/dt = νΔw + N(w) on Fourier modes, where Δ is diagonal.

"ifrk4", fourth order: with E = exp(νΔ h/2) exact,

    k₁ = N(w)                  k₂ = N(E(w + h/2 k₁))      k₃ = N(Ew + h/2 k₂)
    k₄ = N(E²w + hE k₃)        w⁺ = E²w + h/6 (E²k₁ + 2E(k₂ + k₃) + k₄).

Under a tolerance every step is taken once with h and twice with h/2: their difference / 15
estimates the error of the pair, sets the step, and is added to the result.

"paper", first order: explicit Euler for advection and forcing, Crank-Nicolson for diffusion,

    w⁺ = [(1 + h/2 νΔ) w + h N(w)] / (1 − h/2 νΔ),     h = 10⁻⁴
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from neuralsolver.errors import ReferenceFailure
from neuralsolver.reference.torus import Array, Flow, Spectrum, norm

Scheme = Literal["ifrk4", "paper"]

PAPER_STEP = 1e-4
"""The step of the paper's data (Sec. C)."""

FIRST_STEP = 0.02
"""The first step tried under a tolerance; the estimate corrects it at once."""

SMALLEST_STEP = 1e-7
"""A tolerance that asks for shorter steps than this cannot be met in double precision."""

Advance = Callable[[Spectrum, float, float], Spectrum]


def advancing(flow: Flow, scheme: Scheme, tolerance: float, step: float | None) -> Advance:
    """The function that carries a state from one recording time to the next."""
    if scheme == "paper":
        return _fixed(flow, _paper_stepper, PAPER_STEP if step is None else step)
    if step is not None:
        return _fixed(flow, _runge_kutta_stepper, step)
    return Adaptive(flow, tolerance)


def _fixed(
    flow: Flow, stepper: Callable[[Flow, float], Callable[[Spectrum], Spectrum]], step: float
) -> Advance:
    def advance(state: Spectrum, moment: float, target: float) -> Spectrum:
        count = _steps(target - moment, step)
        one_step = stepper(flow, (target - moment) / count)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(count):
                state = one_step(state)
        if not np.isfinite(state).all():
            raise ReferenceFailure(
                f"vorticity: not finite at t = {target:g} with step {step:g}; use a shorter step"
            )
        return state

    return advance


def _steps(duration: float, step: float) -> int:
    """How many equal steps, none longer than `step` up to round-off, cover `duration`."""
    return max(1, int(np.ceil(duration / step * (1.0 - 1e-12))))


def _paper_stepper(flow: Flow, step: float) -> Callable[[Spectrum], Spectrum]:
    explicit = (1.0 - 0.5 * step * flow.decay) / (1.0 + 0.5 * step * flow.decay)
    implicit = step / (1.0 + 0.5 * step * flow.decay)

    def one_step(state: Spectrum) -> Spectrum:
        change = flow.tendency(state)
        change *= implicit
        change += explicit * state
        return change

    return one_step


def _runge_kutta_stepper(flow: Flow, step: float) -> Callable[[Spectrum], Spectrum]:
    half = np.exp(-0.5 * step * flow.decay)

    def one_step(state: Spectrum) -> Spectrum:
        return runge_kutta(flow, state, flow.tendency(state), step, half)

    return one_step


def runge_kutta(flow: Flow, state: Spectrum, first: Spectrum, step: float, half: Array) -> Spectrum:
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


class Adaptive:
    """Integrating-factor Runge-Kutta 4 with the step set by step doubling.

    The estimated error of a step, before it is extrapolated away, may be half the tolerance. What
    is left after extrapolation is a power of h smaller, so that it adds up over the whole run to
    the tolerance or less (measured: about half of it), in proportion to it.
    """

    def __init__(self, flow: Flow, tolerance: float) -> None:
        self.flow, self.tolerance = flow, tolerance
        self.step = FIRST_STEP

    def __call__(self, state: Spectrum, moment: float, target: float) -> Spectrum:
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
        once = runge_kutta(flow, state, first, step, half)
        middle = runge_kutta(flow, state, first, 0.5 * step, quarter)
        twice = runge_kutta(flow, middle, flow.tendency(middle), 0.5 * step, quarter)
        correction = (twice - once) / 15.0
        allowed = 0.5 * self.tolerance * max(norm(twice), 1e-12)
        error = norm(correction)
        twice += correction
        return twice, error / allowed if np.isfinite(error) else np.inf
