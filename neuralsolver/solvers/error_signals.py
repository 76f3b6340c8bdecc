"""Error signals: what the corrector reads, and the scale in which its answer is meant.

Definition 1 leaves e⁽ᵏ⁾ open. An error signal maps (problem, u, r = F(u; f)) to a pair (e, ρ); the
corrector reads e and its output is multiplied by ρ.

    residual             e = r,         ρ = 1           the paper's ENS
    scaled_residual      e = r / ρ,     ρ = RMS(r)      the answer shrinks with the residual
    integrated_residual  e = L⁻¹r / ρ,  ρ = RMS(L⁻¹r)   flows: in the units of the error
    zero_field           e = 0,         ρ = 1           ablation: no error feedback
    residual_gradient    e = Jᵀr,       ρ = 1           ablation: conditioning on ∇ ½‖r‖²

With the scaled residual, r = 0 gives a zero correction whatever the network: the exact solution is
a fixed point by construction, and the network always sees an input of unit size, so that it
corrects an error of 1e-8 as well as one of 1e-1. Scaling lives here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput

ErrorSignal = Callable[[Problem, Tensor, Tensor], tuple[Tensor, Tensor]]


def residual(problem: Problem, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """The residual as it is."""
    return r, _ones(r)


def scaled_residual(problem: Problem, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """The residual divided by its root mean square per sample."""
    rms = r.flatten(1).square().mean(1).sqrt().view(_ones(r).shape)
    # a residual of exactly zero stays zero
    return r / rms.clamp_min(torch.finfo(r.dtype).tiny), rms


def integrated_residual(problem: Problem, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """What the residual would mean without advection, scaled: L = ∂ₜ − νΔ is inverted exactly."""
    integrated = problem.equation.invert_linear_part(r)
    if integrated is None:
        known = "one with a linear part that is easily inverted"
        raise InvalidInput("equation", known, problem.equation.name)
    return scaled_residual(problem, u, integrated)


def zero_field(problem: Problem, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Nothing: the corrector works blind."""
    return torch.zeros_like(r), _ones(r)


def residual_gradient(problem: Problem, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of half the squared residual with respect to u."""
    with torch.enable_grad():
        variable = u.detach().requires_grad_(True)
        loss = 0.5 * problem.residual(variable).square().sum()
        return torch.autograd.grad(loss, variable)[0], _ones(r)


ERROR_SIGNALS: dict[str, ErrorSignal] = {
    "residual": residual,
    "scaled_residual": scaled_residual,
    "integrated_residual": integrated_residual,
    "zero_field": zero_field,
    "residual_gradient": residual_gradient,
}


def _ones(r: Tensor) -> Tensor:
    return r.new_ones((r.shape[0],) + (1,) * (r.dim() - 1))
