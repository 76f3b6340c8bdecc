"""Diffusion ENS: a denoiser that sees the residual of another one (the paper's extension).

A frozen denoiser estimates the clean pair, (f̂, û) = D_base(x; σ, y). Its residual F(û; f̂) and the
estimate itself are read, beside noisy pair and sensors, by a second network that corrects it,

    D_ENS(x; σ, y) = D_base + c_out N(c_in x, y, D_base, r̃, e; c_noise)

and takes its place in every step of the sampler. The paper feeds the residual as it is. Here it is
scaled, as in our contractive solver, in two ways: r̃ = r / rms r shows its shape however small it
is; e = J_diag⁻¹ r / c_out, the change of û that one Jacobi sweep proposes, has the units of the
answer of N, which learns to take the part of it that is right. N starts as a copy of the base
network with a last layer of zeros: D_ENS begins as D_base.

What may be done to its samples afterwards is in `finish`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import jacobian_diagonal
from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.samplers.conditions import Conditions, decode_inputs
from neuralsolver.samplers.denoiser import PALETTE_CHANNELS, Denoiser
from neuralsolver.samplers.edm import SIGMA_DATA, Schedule, precondition
from neuralsolver.samplers.finish import finished
from neuralsolver.samplers.palette import Palette
from neuralsolver.samplers.samples import Samples, Told
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.norms import residual_norm

ERROR_CHANNELS = PALETTE_CHANNELS + 4
LARGEST_SIGNAL = 5.0
"""Early estimates are far from any solution; what their residual proposes is cut off here."""


class ErrorConditionedDenoiser(nn.Module):
    """D_ENS over a frozen base, which is stored under `base_name` in a folder beside it."""

    def __init__(self, base: Denoiser, network: nn.Module, base_name: str = "") -> None:
        super().__init__()
        self.base_name = base_name
        self.base = base.requires_grad_(False)
        self.network = network
        self.sizes = base.sizes

    def forward(self, x: Tensor, sigma: Tensor, told: Conditions) -> Tensor:
        """The corrected mean of x before noise of size σ was added, in the type of x."""
        # the base is frozen; who wants the derivative with respect to x gets it through both
        with torch.set_grad_enabled(x.requires_grad and torch.is_grad_enabled()):
            estimate = self.base(x, sigma, told)
            level = sigma.to(x).expand(x.shape[0]).view(-1, 1, 1, 1)
            _, out, scale, noise = precondition(level)
            shape, proposed = error_signal(estimate, told)
            proposed = (proposed / out).clamp(-LARGEST_SIGNAL, LARGEST_SIGNAL)
            parts = [scale * x, told.channels(), 2 * estimate, shape, proposed]
        parameter = next(self.network.parameters())
        read = torch.cat(parts, 1).to(parameter)
        answer: Tensor = self.network(read, noise.flatten().to(parameter))
        corrected: Tensor = estimate + out * answer.to(x)
        return corrected


def error_signal(estimate: Tensor, told: Conditions) -> tuple[Tensor, Tensor]:
    """The residual of an estimate over its RMS, and the change of û it proposes in units of x."""
    encoded, u = told.decode(estimate)
    inputs = decode_inputs(told.equation, encoded, False)
    problem = Problem(told.equation, inputs)
    residual = problem.residual(u)
    size = residual_norm(residual).view(-1, 1, 1, 1).clamp_min(torch.finfo(u.dtype).tiny)
    proposed = residual / jacobian_diagonal(problem, u)
    return residual / size, SIGMA_DATA * proposed / told.scale[:, 1:]


def widen(network: Any, wider: Any) -> None:
    """Copy a trained network into one that reads more channels, which it ignores at first, and
    whose last layer is zero."""
    state, target = network.state_dict(), wider.state_dict()
    patches = network.patch**2
    old, new = network.in_channels * patches, wider.in_channels * patches
    name = "lifting.convolution.weight"
    weight = torch.zeros_like(target[name])
    weight[:, :old] = state[name][:, :old]
    weight[:, new:] = state[name][:, old:]
    state[name] = weight
    for part in ("weight", "bias"):
        state[f"projection.convolution.{part}"] = torch.zeros_like(
            state[f"projection.convolution.{part}"]
        )
    wider.load_state_dict(state)


class DiffusionENS(Palette):
    """The sampler; `finish` is "", "gauss-newton", or "ens" with a solver (see `finish`)."""

    name = "diffusion-ens"

    def __init__(
        self,
        denoiser: ErrorConditionedDenoiser,
        schedule: Schedule | None = None,
        *,
        finish: str = "",
        solver: Solver | None = None,
    ) -> None:
        if (finish == "ens") != (solver is not None):
            raise InvalidInput("solver", "one for the finish ens, and only for it", solver)
        super().__init__(denoiser, schedule)
        self.finish, self.solver = finish, solver

    def sample_each(
        self,
        observed: Sequence[Observed],
        count: int,
        seeds: Sequence[int],
        told: Told | None = None,
    ) -> list[Samples]:
        drawn = super().sample_each(observed, count, seeds, told)
        if not self.finish:
            return drawn
        return finished(drawn, self.finish, self.denoiser.sizes, self.solver)
