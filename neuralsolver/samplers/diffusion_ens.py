"""Diffusion ENS: a denoiser that sees the residual of another one (the paper's extension).

A frozen denoiser estimates the clean pair, (f̂, û) = D_base(x; σ, y). Its residual F(û; f̂) and the
estimate itself are read, beside noisy pair and sensors, by a second network that corrects it,

    D_ENS(x; σ, y) = D_base + c_out N(c_in x, y, D_base, r̃, e; c_noise)

and takes its place in every step of the sampler. The paper feeds the residual as it is. Here it is
scaled, as in our contractive solver, in two ways: r̃ = r / rms r shows its shape however small it
is; e = J_diag⁻¹ r / c_out, the change of û that one Jacobi sweep proposes, has the units of the
answer of N, which learns to take the part of it that is right. N starts as a copy of the base
network with a last layer of zeros: D_ENS begins as D_base.

Its samples leave a residual, which a solver removes afterwards (`finish`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from scipy.fft import dstn
from torch import Tensor, nn

from neuralsolver.equations import Darcy, Equation, Problem
from neuralsolver.equations.sensors import Observed
from neuralsolver.fields.jacobian import jacobian_diagonal
from neuralsolver.fields.stencils import from_interior, interior, laplacian_eigenvalues
from neuralsolver.samplers.conditions import Conditions, Sizes, decode_inputs
from neuralsolver.samplers.edm import SIGMA_DATA, Schedule, precondition
from neuralsolver.samplers.exact import linear_map
from neuralsolver.samplers.palette import PALETTE_CHANNELS, Denoiser, Palette
from neuralsolver.samplers.samples import Samples, Told
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.norms import residual_norm

ERROR_CHANNELS = PALETTE_CHANNELS + 4
SOLVED = 1e-10
"""The relative residual of finished samples."""
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


class DiffusionENS(Palette):
    """The sampler.

    Args:
        denoiser: A network that reads the residual.
        schedule: The noise levels; EDM's with 50 steps unless given.
        solver: Makes input and solution of every sample agree (`finish`); none leaves a residual.
    """

    name = "diffusion-ens"

    def __init__(
        self,
        denoiser: ErrorConditionedDenoiser,
        schedule: Schedule | None = None,
        solver: Solver | None = None,
    ) -> None:
        super().__init__(denoiser, schedule)
        self.solver = solver

    def sample_each(
        self,
        observed: Sequence[Observed],
        count: int,
        seeds: Sequence[int],
        told: Told | None = None,
    ) -> list[Samples]:
        drawn = super().sample_each(observed, count, seeds, told)
        return drawn if self.solver is None else finish(drawn, self.denoiser.sizes, self.solver)


def finish(samples: Sequence[Samples], sizes: Sizes, solver: Solver) -> list[Samples]:
    """Samples of several problems of one equation and grid, solved to 1e-10 in one batch.

    A denoiser knows the smooth part of a solution better than that of the input, which it has to
    find under the rough one. Where the input enters linearly, both are therefore first moved by the
    least amount, in the units of the denoiser, that makes them agree: u keeps its smooth part and f
    its rough one.
    """
    begin = time.perf_counter()
    counts = [len(sample) for sample in samples]
    inputs = torch.cat([sample.inputs for sample in samples])
    u = torch.cat([sample.solutions for sample in samples])
    first = samples[0].observed
    scale = [sizes.of(len(s.observed.sensors)) for s in samples for _ in range(len(s))]
    inputs, u = nearest_pair(first.equation, inputs, u, torch.tensor(scale, dtype=u.dtype))
    solution = solver.solve(first.complete(inputs), u0=u, tolerance=SOLVED)
    notes = {}
    if solution.error_bound is not None:
        notes["error_bound"] = float(solution.error_bound.max())
    seconds = (time.perf_counter() - begin) / len(samples)
    return [
        replace(
            sample,
            inputs=part,
            solutions=solved,
            seconds=sample.seconds + seconds,
            method=f"{sample.method}+ens",
            notes={**sample.notes, **notes},
        )
        for sample, part, solved in zip(
            samples, torch.split(inputs, counts), torch.split(solution.tensor, counts), strict=True
        )
    ]


def nearest_pair(
    equation: Equation, inputs: Tensor, u: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """The nearest pair with (Δ + s)u = c f, distances in units of `scale` (B, 2).

    With L = Δ + s, which the sine transform makes diagonal, and the multiplier μ,

        (s_u² L² + s_f² c²) μ = Lu − c f,      u ← u − s_u² L μ,      f ← f + s_f² c μ

    An input of two phases cannot move by a little: that pair is returned as it is.
    """
    if isinstance(equation, Darcy):
        return inputs, u
    solution, n = linear_map(equation), u.shape[-1]
    variance_f, variance_u = (scale[:, i, None, None, None].square() for i in (0, 1))
    symbol = solution.shift - laplacian_eigenvalues(n).to(u)

    def transform(field: Tensor) -> Tensor:
        # this transform is its own inverse
        return torch.from_numpy(dstn(field.numpy(), type=1, axes=(-2, -1), norm="ortho"))

    missed = symbol * transform(interior(u)) - solution.factor * transform(interior(inputs))
    multiplier = missed / (variance_u * symbol**2 + variance_f * solution.factor**2)
    u = u - from_interior(transform(variance_u * symbol * multiplier))
    return inputs + from_interior(transform(variance_f * solution.factor * multiplier)), u
