"""Error signals: what the corrector reads, and the scale in which its answer is meant.

Definition 1 leaves e⁽ᵏ⁾ open. An error signal maps an iterate, u with its residual r = F(u; f),
to a pair (e, ρ); the corrector reads e and its output is multiplied by ρ.

    residual             e = r,         ρ = 1           the paper's ENS
    scaled_residual      e = r / ρ,     ρ = RMS(r)      the answer shrinks with the residual
    integrated_residual  e = L⁻¹r / ρ,  ρ = RMS(L⁻¹r)   flows: in the units of the error
    jacobi_residual      e = D⁻¹r / ρ,  ρ = RMS(D⁻¹r)   D = diag J: the same for αF as for F
    zero_field           e = 0,         ρ = 1           ablation: no error feedback
    residual_gradient    e = h²Jᵀr,     ρ = 1           ablation: conditioning on ∇ ½‖r‖²

With the scaled residual, r = 0 gives a zero correction whatever the network: the exact solution is
a fixed point by construction, and the network always sees an input of unit size, so that it
corrects an error of 1e-8 as well as one of 1e-1. Scaling lives here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.iterate import Iterate

ErrorSignal = Callable[[Iterate], tuple[Tensor, Tensor]]


def residual(now: Iterate) -> tuple[Tensor, Tensor]:
    """The residual as it is."""
    return now.residual, _ones(now.u)


def scaled_residual(now: Iterate) -> tuple[Tensor, Tensor]:
    """The residual divided by its root mean square per sample."""
    return _scaled(now.residual)


def jacobi_residual(now: Iterate) -> tuple[Tensor, Tensor]:
    """The residual in the units of the error at each point by itself, scaled.

    Sign, units and mean coefficient of an equation cancel: Δu − f and −∇·(a∇u) + af are alike.
    """
    return _scaled(now.residual / now.diagonal)


def integrated_residual(now: Iterate) -> tuple[Tensor, Tensor]:
    """What the residual would mean without advection, scaled: L = ∂ₜ − νΔ is inverted exactly."""
    if now.measured is now.residual:
        known = "one with a linear part that is easily inverted"
        raise InvalidInput("equation", known, now.problem.equation.name)
    return _scaled(now.measured)


def zero_field(now: Iterate) -> tuple[Tensor, Tensor]:
    """Nothing: the corrector works blind."""
    return torch.zeros_like(now.u), _ones(now.u)


def residual_gradient(now: Iterate) -> tuple[Tensor, Tensor]:
    """The gradient of half the squared residual with respect to u, in the units of the residual.

    J is a second derivative: without the h² inputs would be of size 1e5, on which nothing trains.
    """
    return max(now.problem.grid.spacing) ** 2 * gradient(now), _ones(now.u)


def gradient(now: Iterate) -> Tensor:
    """Jᵀr, the gradient of half the squared residual with respect to u."""
    with torch.enable_grad():
        variable = now.u.detach().requires_grad_(True)
        loss = 0.5 * now.problem.residual(variable).square().sum()
        return torch.autograd.grad(loss, variable)[0]


ERROR_SIGNALS: dict[str, ErrorSignal] = {
    "residual": residual,
    "scaled_residual": scaled_residual,
    "jacobi_residual": jacobi_residual,
    "integrated_residual": integrated_residual,
    "zero_field": zero_field,
    "residual_gradient": residual_gradient,
}


def _scaled(r: Tensor) -> tuple[Tensor, Tensor]:
    rms = r.flatten(1).square().mean(1).sqrt().view(_ones(r).shape)
    # a residual of exactly zero stays zero
    return r / rms.clamp_min(torch.finfo(r.dtype).tiny), rms


def _ones(r: Tensor) -> Tensor:
    return r.new_ones((r.shape[0],) + (1,) * (r.dim() - 1))
