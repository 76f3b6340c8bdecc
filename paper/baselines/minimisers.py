"""Classical minimisers of the residual, which the paper compares its solvers with.

    gradient descent    u ← u − η ∇ mean(F²),     ∇ mean(F²) = (2/N) JᵀF,     J = ∂F/∂u
    Gauss-Newton        u ← u + δ,                JᵀJ δ = −JᵀF

with N the number of values of F. Both see the same residual as the networks. Newton's method is in
the library (`neuralsolver/solvers/newton.py`).

Gradient descent is stable for η < 2/L with L = 2σ²/N and σ the largest singular value of J. For a
five-point operator σ ≈ 8n², so the bound falls with the grid: the authors' η = 10⁻⁶ is stable on
fewer than about 125 × 125 points.

Since J is square here, the step of Gauss-Newton is that of Newton in exact arithmetic. In floating
point it is worse: the condition of JᵀJ is the square of that of J.

`noise_start` and `noised` are the bad starts from which the paper begins Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from neuralsolver.equations import Problem, generator
from neuralsolver.equations.base import Array, check_positive
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import Solve, Solver, State
from neuralsolver.solvers.newton import Newton, check_limits, solve_in_float64
from neuralsolver.solvers.sparse_newton import Vector, factorised
from neuralsolver.solvers.stopping import ResidualBelow

NOISE_AMPLITUDE = 6.0
PREDICTION_FACTOR = 4.0
HIGH_PASS_AMPLITUDE = 3.0
SMOOTHING_POINTS = 2.0
"""Standard deviation, in grid points, of the Gaussian that tells smooth noise from rough noise."""
WALL_LAYER = 0.125
"""How far from the walls `noise_start` is still smoothed."""


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Gradient descent on the mean square residual, without momentum; for every equation.

    `step_size` is η. Works in float64; ends as STEP_LIMIT unless the relative residual falls below
    `tolerance`.
    """

    step_size: float = 1e-6
    steps: int = 50
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        check_limits(self.steps, self.tolerance)
        check_positive("step_size", self.step_size)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Descend from `u0`, or from zero."""

        def step(now: State) -> Tensor:
            slope = gradient(now) * (2 / now.u[0].numel())
            return now.problem.impose(now.u - self.step_size * slope)

        return solve_in_float64(step, problem, u0, ResidualBelow(self.tolerance, self.steps))


class GaussNewton(Newton):
    """Gauss-Newton by sparse LU of the normal equations; otherwise as `Newton`."""

    @staticmethod
    def direction(jacobian: Any, residual: Vector) -> Vector:
        """δ with JᵀJ δ = −JᵀF."""
        return factorised(jacobian.T @ jacobian)(-(jacobian.T @ residual))


def gradient(now: State) -> Tensor:
    """Jᵀr, the gradient of half the squared residual with respect to u."""
    with torch.enable_grad():
        variable = now.u.detach().requires_grad_(True)
        loss = 0.5 * now.problem.residual(variable).square().sum()
        return torch.autograd.grad(loss, variable)[0]


def noise_start(problem: Problem, seed: int) -> Tensor:
    """White noise of standard deviation 6 that turns into smooth noise towards the walls, where it
    is zero. Sample i depends on (seed, i) only."""
    distance = _wall_distance(problem)
    ramp = np.clip(distance / WALL_LAYER, 0.0, 1.0)
    inside = ramp**2 * (3 - 2 * ramp)
    noise = _white_noise(problem, seed)
    field = NOISE_AMPLITUDE * (inside * noise + (1 - inside) * _smooth(noise))
    return problem.impose(torch.from_numpy(field).to(problem.inputs))


def noised(u: Tensor, problem: Problem, seed: int) -> Tensor:
    """A prediction spoilt: 4u + 3 × high-pass noise under a bump that vanishes on the walls."""
    _wall_distance(problem)
    line = np.linspace(-1.0, 1.0, problem.resolution)[1:-1]
    bump = np.pad(np.exp(1 - 1 / (1 - line**2)), 1)
    noise = _white_noise(problem, seed)
    rough = HIGH_PASS_AMPLITUDE * np.outer(bump, bump) * (noise - _smooth(noise))
    return problem.impose(PREDICTION_FACTOR * u + torch.from_numpy(rough).to(u))


def _white_noise(problem: Problem, seed: int) -> Array:
    """Standard normal values (B, 1, n, n); sample i depends on (seed, i) only."""
    shape = problem.equation.solution_shape(problem.resolution)
    return np.stack([generator(seed, i).standard_normal(shape) for i in range(problem.batch)])


def _smooth(noise: Array) -> Array:
    return np.asarray(gaussian_filter(noise, SMOOTHING_POINTS, axes=(-2, -1)))


def _wall_distance(problem: Problem) -> npt.NDArray[np.float64]:
    """Distance of every grid point from the nearest wall."""
    equation = problem.equation
    if equation.boundary != "dirichlet":
        raise InvalidInput("equation", "a static equation between walls", equation.name)
    line = np.linspace(0.0, 1.0, problem.resolution)
    line = np.minimum(line, 1 - line)
    return np.minimum(line[:, None], line[None, :])
