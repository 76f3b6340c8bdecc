"""Classical minimisers of the residual, which the paper compares its solvers with.

    gradient descent    u ← u − η ∇ mean(F²),     ∇ mean(F²) = (2/N) JᵀF,     J = ∂F/∂u
    Gauss-Newton        u ← u + δ,                JᵀJ δ = −JᵀF

with N the number of values of F. Both see the same residual as the networks. Newton's method is in
the library (`neuralsolver/solvers/newton.py`).

Gradient descent is stable for η < 2/L with L = 2σ²/N and σ the largest singular value of J. For a
five-point operator σ ≈ 8n², so L ≈ 128n² and the bound falls with the grid; the error in the
smoothest mode then falls by 1 − O(n⁻⁴) in every step.

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
from neuralsolver.fields.jacobian import linearisation
from neuralsolver.solvers.loop import Solve, Solver, State
from neuralsolver.solvers.newton import Newton, check_limits, solve_in_float64
from neuralsolver.solvers.sparse_newton import Vector, factorised
from neuralsolver.solvers.stopping import ResidualBelow

FIRST_SWEEPS = 30
"""Power iterations before the first step; later steps go on from there with one each."""

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

    `step_size` is η. The default is the authors', stable on fewer than about 125 × 125 points;
    None means 1/L for each sample by itself, with L from a power iteration that follows u. Works
    in float64; ends as STEP_LIMIT unless the relative residual falls below `tolerance`.
    """

    step_size: float | None = 1e-6
    steps: int = 50
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        check_limits(self.steps, self.tolerance)
        if self.step_size is not None:
            check_positive("step_size", self.step_size)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Descend from `u0`, or from zero."""
        stop = ResidualBelow(self.tolerance, self.steps)
        return solve_in_float64(_Descent(self.step_size), problem, u0, stop)


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


class _Descent:
    """The step of gradient descent; remembers the direction of the largest singular value."""

    def __init__(self, step_size: float | None) -> None:
        self.step_size = step_size
        self.direction: Tensor | None = None

    def __call__(self, now: State) -> Tensor:
        problem, u = now.problem, now.u
        slope = gradient(now) * (2 / u[0].numel())
        if self.step_size is not None:
            return problem.impose(u - self.step_size * slope)
        return problem.impose(u - slope / self._curvature(problem, u))

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        if self.direction is not None:
            self.direction = self.direction[mask]

    def _curvature(self, problem: Problem, u: Tensor) -> Tensor:
        """L = 2σ²/N per sample, by power iteration on JᵀJ.

        The iteration approaches L from below. Anything above L/2 is stable, so a few sweeps do.
        Imposed values count as if they could move, which can only make the step shorter.
        """
        sweeps = 1
        if self.direction is None:
            # the same noise for all samples: a sample does not depend on its neighbours
            noise = torch.from_numpy(generator(0).standard_normal(u.shape[1:]))
            self.direction, sweeps = noise.to(u).expand_as(u), FIRST_SWEEPS
        jacobian = linearisation(problem, u)
        with torch.enable_grad():
            point = u.detach().requires_grad_(True)
            value = problem.residual(point)
        for _ in range(sweeps):
            image = jacobian(self.direction / _squared_norm(self.direction).sqrt())
            (self.direction,) = torch.autograd.grad(value, point, image, retain_graph=True)
        return 2 * _squared_norm(image) / value[0].numel()


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


def _squared_norm(field: Tensor) -> Tensor:
    """Σ field² per sample, shaped to divide a field."""
    return field.flatten(1).square().sum(1).view(-1, *[1] * (field.dim() - 1))


def _white_noise(problem: Problem, seed: int) -> Array:
    """Standard normal values (B, 1, n, n); sample i depends on (seed, i) only."""
    shape = problem.equation.solution_shape(problem.resolution)
    return np.stack([generator(seed, i).standard_normal(shape) for i in range(problem.batch)])


def _smooth(noise: Array) -> Array:
    return np.asarray(gaussian_filter(noise, SMOOTHING_POINTS, axes=(-2, -1)))


def _wall_distance(problem: Problem) -> npt.NDArray[np.float64]:
    """Distance of every grid point from the nearest wall."""
    equation = problem.equation
    if equation.boundary != "walls":
        raise InvalidInput("equation", "a static equation between walls", equation.name)
    line = np.linspace(0.0, 1.0, problem.resolution)
    line = np.minimum(line, 1 - line)
    return np.minimum(line[:, None], line[None, :])
