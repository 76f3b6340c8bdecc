"""The classical minimisers of the residual, which the paper compares its solvers with.

    gradient descent    u ← u − η ∇ mean(F²),     ∇ mean(F²) = (2/N) JᵀF,     J = ∂F/∂u
    Newton              u ← u + δ,                J δ = −F
    Gauss-Newton        u ← u + δ,                JᵀJ δ = −JᵀF

with N the number of values of F. All three see the same residual as the networks.

Gradient descent is stable for η < 2/L with L = 2σ²/N and σ the largest singular value of J. For a
five-point operator σ ≈ 8n², so L ≈ 128n² and the bound falls with the grid; the error in the
smoothest mode then falls by 1 − O(n⁻⁴) in every step.

Since J is square here, the step of Gauss-Newton is that of Newton in exact arithmetic. In floating
point it is worse: the condition of JᵀJ is the square of that of J.

The two Newton methods take full steps, as in the paper, and full steps may lead anywhere from a bad
start. With `damped`, a step is halved until the residual falls.
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
from neuralsolver.equations.jacobian import linearisation
from neuralsolver.errors import InvalidInput
from neuralsolver.reference.newton import Vector, direct, normal
from neuralsolver.solvers.error_signals import gradient
from neuralsolver.solvers.iterate import Iterate, Solve, Solver, Stepper
from neuralsolver.solvers.newton import newton_correction
from neuralsolver.solvers.norms import residual_norm
from neuralsolver.solvers.stopping import ResidualBelow

FIRST_SWEEPS = 30
"""Power iterations before the first step; later steps go on from there with one each."""

SUFFICIENT_DECREASE = 1e-4
HALVINGS = 12

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
        _check_limits(self.steps, self.tolerance)
        if self.step_size is not None:
            check_positive("step_size", self.step_size)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Descend from `u0`, or from zero."""
        stop = ResidualBelow(self.tolerance, self.steps)
        return _composed(_Descent(self.step_size), problem, u0, stop)


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method by sparse LU, for static equations between walls; one sample at a time.

    A Jacobian that is singular to the last digit gives no step: the sample ends as DIVERGED. Works
    in float64; ends as TOLERANCE when the relative residual falls below `tolerance`.
    """

    steps: int = 50
    tolerance: float = 1e-5
    damped: bool = False

    def __post_init__(self) -> None:
        _check_limits(self.steps, self.tolerance)

    @staticmethod
    def direction(jacobian: Any, residual: Vector) -> Vector:
        """δ with J δ = −F."""
        return direct(jacobian, residual)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Iterate from `u0`, or from zero."""
        return _composed(self._step, problem, u0, ResidualBelow(self.tolerance, self.steps))

    def _step(self, now: Iterate) -> Tensor:
        """u + αδ for each sample, α = 1 unless damped."""
        change = newton_correction(now.problem, now.u, now.residual, self.direction)
        return _backtrack(now, change) if self.damped else now.u + change


class GaussNewton(Newton):
    """Gauss-Newton by sparse LU of the normal equations; otherwise as `Newton`."""

    @staticmethod
    def direction(jacobian: Any, residual: Vector) -> Vector:
        """δ with JᵀJ δ = −JᵀF."""
        return normal(jacobian, residual)


class _Descent:
    """The step of gradient descent; remembers the direction of the largest singular value."""

    def __init__(self, step_size: float | None) -> None:
        self.step_size = step_size
        self.direction: Tensor | None = None

    def __call__(self, now: Iterate) -> Tensor:
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


def _check_limits(steps: int, tolerance: float) -> None:
    if steps < 0:
        raise InvalidInput("steps", "zero or more", steps)
    check_positive("tolerance", tolerance)


def _composed(step: Stepper, problem: Problem, u0: Tensor | None, stop: ResidualBelow) -> Solve:
    """A solve in float64, in which a tolerance can be reached on every grid."""
    problem = problem.in_precision(torch.float64)
    start = problem.zeros() if u0 is None else problem.impose(u0.to(problem.inputs))
    return Solve(problem, start, step, stop)


def _backtrack(now: Iterate, direction: Tensor) -> Tensor:
    """u + αδ with the largest α = 1, ½, ¼ … by which the residual falls; u itself if none does."""
    problem, u, before = now.problem, now.u, residual_norm(now.residual)
    # a direction that is not finite is passed on: the loop calls that divergence
    waiting = torch.isfinite(direction).flatten(1).all(1)
    result = torch.where(_column(waiting, u), u, u + direction)
    for halvings in range(HALVINGS):
        length = 0.5**halvings
        trial = u + length * direction
        after = residual_norm(problem.residual(trial))
        accepted = waiting & (after <= (1 - SUFFICIENT_DECREASE * length) * before)
        result = torch.where(_column(accepted, u), trial, result)
        waiting = waiting & ~accepted
        if not bool(waiting.any()):
            break
    return result


def _squared_norm(field: Tensor) -> Tensor:
    """Σ field² per sample, shaped to divide a field."""
    return _column(field.flatten(1).square().sum(1), field)


def _column(values: Tensor, field: Tensor) -> Tensor:
    """One value per sample, shaped to meet a field."""
    return values.view(-1, *[1] * (field.dim() - 1))


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
