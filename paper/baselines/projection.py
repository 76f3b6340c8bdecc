"""Projection on constraints without ever forming a Jacobian.

One Gauss-Newton step of least norm towards h(x) = 0 is

    x ← x − Jᵀλ,      (JJᵀ + ε) λ = h(x)

with J = ∂h/∂x. Products with J and Jᵀ are taken by automatic differentiation and the system is
solved by conjugate gradients, preconditioned by a guess at (JJᵀ)⁻¹: for a residual of second order
the sine transform inverts (Δ + κ²)² (`inverse_square`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import torch
from torch import Tensor

from neuralsolver.equations import Helmholtz, Problem
from neuralsolver.equations.sensors import Observed
from neuralsolver.fields.stencils import from_interior, interior, laplacian_eigenvalues
from neuralsolver.samplers.diffusion_ens import DiffusionENS
from neuralsolver.samplers.samples import Samples, Told

EPSILON = 1e-6
"""The paper's, on a system whose eigenvalues start at 400."""
MOST_ITERATIONS = 200

Linear = Callable[[Tensor], Tensor]


def least_norm_step(problem: Problem, u: Tensor, epsilon: float = EPSILON) -> Tensor:
    """u after one least-norm step towards F(u) = 0, the input fixed."""
    # known values are no variables: a step that moved the walls would not be one of the equation
    equation = problem.equation
    shift = equation.wavenumber**2 if isinstance(equation, Helmholtz) else 0.0
    precondition = partial(inverse_square, shift=shift)
    change = project(lambda v: problem.residual(problem.impose(v)), u, precondition, epsilon)
    return problem.impose(u - change)


def finish_by_least_norm(samples: Sequence[Samples]) -> list[Samples]:
    """Samples after one least-norm step, the input fixed: the paper's DiffENS+GN."""
    finished = []
    for sample in samples:
        begin = time.perf_counter()
        u = least_norm_step(sample.problem, sample.solutions)
        seconds = sample.seconds + time.perf_counter() - begin
        method = f"{sample.method}+gn"
        finished.append(replace(sample, solutions=u, seconds=seconds, method=method))
    return finished


class LeastNormENS(DiffusionENS):
    """Diffusion ENS and one least-norm step."""

    def sample_each(
        self,
        observed: Sequence[Observed],
        count: int,
        seeds: Sequence[int],
        told: Told | None = None,
    ) -> list[Samples]:
        return finish_by_least_norm(super().sample_each(observed, count, seeds, told))


def project(
    constraint: Linear,
    x: Tensor,
    precondition: Linear,
    epsilon: float = EPSILON,
    *,
    iterations: int = MOST_ITERATIONS,
    tolerance: float = 1e-10,
) -> Tensor:
    """Jᵀ(JJᵀ + ε)⁻¹ h(x) for every sample of a batch."""
    x = x.detach()
    with torch.enable_grad():
        variable = x.requires_grad_(True)
        value = constraint(variable)
        # Jᵀλ is linear in λ: its own derivative with respect to λ is J
        dual = torch.zeros_like(value, requires_grad=True)
        pulled = torch.autograd.grad(value, variable, dual, create_graph=True)[0]

    def transposed(vector: Tensor) -> Tensor:
        return torch.autograd.grad(value, variable, vector, retain_graph=True)[0]

    def forward(vector: Tensor) -> Tensor:
        return torch.autograd.grad(pulled, dual, vector, retain_graph=True)[0]

    def product(vector: Tensor) -> Tensor:
        return forward(transposed(vector)) + epsilon * vector

    multiplier = conjugate_gradients(product, value.detach(), precondition, iterations, tolerance)
    return transposed(multiplier)


def conjugate_gradients(
    product: Linear, right: Tensor, precondition: Linear, iterations: int, tolerance: float
) -> Tensor:
    """The solution of a batch of positive definite systems, each sample with its own steps."""
    solution, residual = torch.zeros_like(right), right.clone()
    direction = torch.zeros_like(right)
    goal = tolerance**2 * _dot(right, right)
    energy = torch.ones_like(goal)
    for iteration in range(iterations):
        if bool((_dot(residual, residual) <= goal).all()):
            break
        preconditioned = precondition(residual)
        fresh = _dot(residual, preconditioned)
        direction = preconditioned + (fresh / energy if iteration else 0.0) * direction
        image = product(direction)
        step = fresh / _dot(direction, image).clamp_min(1e-300)
        step = torch.where(fresh > 0, step, torch.zeros_like(step))
        solution = solution + step * direction
        residual = residual - step * image
        energy = fresh.clamp_min(1e-300)
    return solution


def least_residual(product: Linear, right: Tensor, steps: int, tolerance: float) -> Tensor:
    """v (B, N) of which ‖right − product(v)‖ is least after as many steps, for each sample.

    Generalised conjugate residuals: the product may be indefinite, or symmetric only nearly.
    """
    solution, missed = torch.zeros_like(right), right
    directions: list[Tensor] = []
    images: list[Tensor] = []
    goal = tolerance**2 * _dot(right, right)
    for _ in range(steps):
        if bool((_dot(missed, missed) <= goal).all()):
            break
        direction, image = missed, product(missed)
        for before, moved in zip(directions, images, strict=True):
            share = _dot(moved, image)
            direction, image = direction - share * before, image - share * moved
        size = _dot(image, image).sqrt()
        # a product that leads nowhere new is no step
        inverse = torch.where(size > 0, 1 / size.clamp_min(1e-300), torch.zeros_like(size))
        directions.append(inverse * direction)
        images.append(inverse * image)
        length = _dot(images[-1], missed)
        solution = solution + length * directions[-1]
        missed = missed - length * images[-1]
    return solution


def inverse_square(field: Tensor, shift: float = 0.0) -> Tensor:
    """(Δ + shift)⁻²r between zero walls, where r (B, 1, n, n) is not on them."""
    n = field.shape[-1]
    sines, symbol = sine_table(n, field.dtype)
    modes = sines @ interior(field) @ sines / (symbol - shift) ** 2
    return from_interior(sines @ modes @ sines)


@lru_cache(maxsize=8)
def sine_table(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The orthonormal sine transform of the interior points, and the eigenvalues of −Δ."""
    count = torch.arange(1, n - 1, dtype=torch.float64)
    table = math.sqrt(2 / (n - 1)) * torch.sin(math.pi * torch.outer(count, count) / (n - 1))
    return table.to(dtype), laplacian_eigenvalues(n).to(dtype)


def _dot(first: Tensor, second: Tensor) -> Tensor:
    """Σ per sample, shaped to multiply a batch."""
    total = (first * second).flatten(1).sum(1)
    return total.view(-1, *[1] * (first.dim() - 1))
