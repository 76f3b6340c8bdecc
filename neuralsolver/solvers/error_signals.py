"""Error signals: what the corrector reads, and the scale in which its answer is meant.

Definition 1 leaves e⁽ᵏ⁾ open. An error signal maps an iterate, u with its residual r = F(u; f),
to a pair (e, ρ); the corrector reads e and its output is multiplied by ρ.

    residual             e = r,         ρ = γ           the paper's ENS
    scaled_residual      e = r / ρ,     ρ = γ RMS(r)    the answer shrinks with the residual
    integrated_residual  e = L⁻¹r / ρ,  ρ = RMS(L⁻¹r)   flows: in the units of the error
    jacobi_residual      e = D⁻¹r / ρ,  ρ = RMS(D⁻¹r)   D = diag J: the same for αF as for F

γ is how much larger J⁻¹ is than in training (`Problem.network_unit`), 1 for the problems of it.

With the scaled residual, r = 0 gives a zero correction whatever the network: the exact solution is
a fixed point by construction, and the network always sees an input of unit size, so that it
corrects an error of 1e-8 as well as one of 1e-1. Scaling lives here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import State

ErrorSignal = Callable[[State], tuple[Tensor, Tensor]]


def residual(now: State) -> tuple[Tensor, Tensor]:
    """The residual as it is."""
    return now.residual, unit(now)


def scaled_residual(now: State) -> tuple[Tensor, Tensor]:
    """The residual divided by its root mean square per sample, each field in its own unit."""
    error, rms = _scaled(now.problem.in_field_units(now.residual))
    return error, rms * now.problem.network_unit


def jacobi_residual(now: State) -> tuple[Tensor, Tensor]:
    """The residual in the units of the error at each point by itself, scaled.

    Sign, units and mean coefficient of an equation cancel: Δu − f and −∇·(a∇u) + af are alike.
    """
    return _scaled(now.residual / now.diagonal)


def integrated_residual(now: State) -> tuple[Tensor, Tensor]:
    """What the residual would mean without advection, scaled: L = ∂ₜ − νΔ is inverted exactly."""
    if now.preconditioned_residual is now.residual:
        known = "one with a linear part that is easily inverted"
        raise InvalidInput("equation", known, now.problem.equation.name)
    return _scaled(now.preconditioned_residual)


ERROR_SIGNALS: dict[str, ErrorSignal] = {
    "residual": residual,
    "scaled_residual": scaled_residual,
    "jacobi_residual": jacobi_residual,
    "integrated_residual": integrated_residual,
}
"""Error signals by the name on a card. Add an entry to make one of yours known."""


def _scaled(r: Tensor) -> tuple[Tensor, Tensor]:
    rms = r.flatten(1).square().mean(1).sqrt().view(-1, *[1] * (r.dim() - 1))
    # a residual of exactly zero stays zero
    return r / rms.clamp_min(torch.finfo(r.dtype).tiny), rms


def unit(now: State) -> Tensor:
    """ρ = γ for each sample."""
    return now.u.new_ones(len(now.u), *[1] * (now.u.dim() - 1)) * now.problem.network_unit
