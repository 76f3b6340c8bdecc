"""The true solution of a drawn input, by the reference solver that belongs to the equation.

    Poisson, linear Helmholtz     sine transform, exact for the five-point stencil
    nonlinear Helmholtz           Newton on the branch continued from zero; no branch, no sample
    Darcy                         flux form with arithmetic face means; in the cube as well
    Navier-Stokes                 pseudo-spectral from t = 0; recorded from `start_time` on
    any other static equation     damped Newton on its own residual

The last one checks nothing: it solves the residual that it was given. Register a solver of your own
where you have one:

    @solve_reference.register
    def _(equation: MyEquation, drawn: Array) -> ReferenceSolution: ...

`ReferenceSolver` is the same as a solver, judged by the residual. A given initial state of a flow
is integrated on a grid whose products keep all of its modes, and from time zero: the forcing is the
same at all times, so that the clock may start with the state. For accuracies that networks reach,
that is too careful: `CoarseIntegrator`, on a coarser grid with the longest step that is stable
there, is what they have to be compared with.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
import numpy.typing as npt
import torch
from scipy import fft
from torch import Tensor

from neuralsolver import reference
from neuralsolver.data.dataset import canonical
from neuralsolver.equations import (
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
)
from neuralsolver.equations.base import Array
from neuralsolver.equations.navier_stokes import with_initial_frame
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.fields.fourier import resample, vorticity_derivatives
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers import ResidualBelow, Solution, Status
from neuralsolver.solvers.sparse_newton import Point, Solve, Vector, factorised, newton
from neuralsolver.solvers.trained import DEFAULT_TOLERANCE
from neuralsolver.solvers.wrappers import Answer

FLOW_RESOLUTION = 64
"""A flow is never integrated on a coarser grid than this: its spectrum is cut afterwards, so that
a trajectory on 32 × 32 points shows the same flow as one on 64 × 64."""

NEWTON_STEPS = 50
NEWTON_TOLERANCE = 1e-9
"""Relative to the residual of the zero guess; iteration goes on below it, to round-off."""


@dataclass(frozen=True)
class ReferenceSolution:
    """Inputs (B, C, n, n), solutions, and which of them (B,) the solver vouches for."""

    inputs: Array
    solution: Array
    solved: npt.NDArray[np.bool_]


@singledispatch
def solve_reference(equation: Equation, drawn: Array) -> ReferenceSolution:
    """The solutions for the drawn fields (B, C, n, n); by default damped Newton from zero."""
    if equation.boundary != "dirichlet" or equation.frames:
        expected = "an equation with a solver registered in neuralsolver.data.reference_solution"
        raise InvalidInput("equation", expected, equation.name)
    # one sample at a time, so that no sample depends on its neighbours
    steps = _factors(equation)
    answers = [_newton(Problem(equation, torch.from_numpy(field[None])), steps) for field in drawn]
    solution = np.concatenate([u for u, _ in answers])
    return ReferenceSolution(drawn, solution, np.array([solved for _, solved in answers]))


@solve_reference.register
def _poisson(equation: Poisson, drawn: Array) -> ReferenceSolution:
    solution = reference.solve_shifted_laplacian(equation.scale * drawn[:, 0], 0.0)
    return _all_solved(drawn, solution)


@solve_reference.register
def _helmholtz(equation: Helmholtz, drawn: Array) -> ReferenceSolution:
    if equation.linear:
        solution = reference.solve_shifted_laplacian(drawn[:, 0], equation.wavenumber**2)
        return _all_solved(drawn, solution)
    result = reference.solve_semilinear_helmholtz(
        drawn[:, 0], equation.wavenumber, equation.nonlinearity
    )
    return ReferenceSolution(drawn, result.u[:, None], np.asarray(result.converged, dtype=bool))


@solve_reference.register
def _darcy(equation: Darcy, drawn: Array) -> ReferenceSolution:
    forced = len(equation.input_names) == 2
    source = drawn[:, 1] if forced else equation.constant_source
    if forced:
        return _all_solved(drawn, reference.solve_darcy(drawn[:, 0], source, tolerance=1e-11).u)
    # near the round-off of the residual, which grows with n² and the contrast
    each = drawn.reshape(len(drawn), -1)
    contrasts = each.max(1) / each.min(1)
    tolerances = np.clip(2.5e-17 * contrasts * drawn.shape[-1] ** 2, 1e-12, 1e-9)
    found = [
        reference.solve_darcy(a, source, tolerance=float(tolerance)).u
        for a, tolerance in zip(drawn, tolerances, strict=True)
    ]
    return _all_solved(drawn, np.concatenate(found))


@solve_reference.register
def _navier_stokes(equation: NavierStokes, drawn: Array) -> ReferenceSolution:
    solution = trajectories(equation, drawn)
    return ReferenceSolution(solution[:, :, 0], solution, np.ones(len(drawn), dtype=bool))


def trajectories(equation: NavierStokes, initial: Array, step: float | None = None) -> Array:
    """The frames (B, 1, T, n, n) from fields (B, 1, n, n) at t = 0; a `step` fixes that of time."""
    wave = {
        "diagonal": reference.diagonal_forcing,
        "kolmogorov": reference.kolmogorov_forcing,
    }[equation.forcing]
    n, times = initial.shape[-1], equation.frame_times
    forcing = wave(n, equation.forcing_amplitude, equation.forcing_wavenumber)
    frames = reference.integrate(initial[:, 0], forcing, equation.viscosity, times, step=step)
    return frames[:, None]


def _all_solved(drawn: Array, solution: Array) -> ReferenceSolution:
    return ReferenceSolution(drawn, solution[:, None], np.ones(len(drawn), dtype=bool))


def _newton(problem: Problem, steps: Callable[[Problem, Tensor], Solve]) -> tuple[Array, bool]:
    """u with F(u) = 0 to round-off from the zero guess, and whether it was reached."""
    space, zero = problem.space, problem.zeros()

    def field(x: Vector) -> Tensor:
        return problem.impose(space.unflatten(torch.from_numpy(x)[None], zero))

    def function(x: Vector) -> Vector:
        residual = problem.preconditioned_residual(problem.residual(field(x)))
        return np.asarray(space.flatten(residual)[0].numpy())

    def step(point: Point) -> tuple[Vector, int]:
        inverse = steps(problem, field(point.x))
        return inverse(-point.residual * units), 0

    units = np.ones(space.size)
    if not space.scalar:
        units = space.flatten(problem.field_units.expand_as(zero))[0].numpy()
    first, *others = newton(
        function, step, space.flatten(zero)[0].numpy(), target=0.0, steps=NEWTON_STEPS
    )
    last = others[-1] if others else first
    return field(last.x).numpy(), bool(last.norm <= NEWTON_TOLERANCE * first.norm)


def _factors(equation: Equation) -> Callable[[Problem, Tensor], Solve]:
    """J(u) → J⁻¹, which is one and the same for all samples where J depends on nothing."""

    def fresh(problem: Problem, u: Tensor) -> Solve:
        return factorised(sparse_jacobian(problem, u)[0])

    if not equation.linear or equation.jacobian_depends_on:
        return fresh
    which = (type(equation), str(canonical(equation)))

    def once(problem: Problem, u: Tensor) -> Solve:
        key = (*which, problem.resolution)
        if key not in _KEPT:
            _KEPT.clear()  # those of one grid are large enough
            _KEPT[key] = fresh(problem, u)
        return _KEPT[key]

    return once


_KEPT: dict[tuple[type, str, int], Solve] = {}
"""The latest factorisation, which the blocks of a dataset share."""


def working_resolution(equation: Equation, resolution: int) -> int:
    """The grid on which the truth is computed before it is brought to `resolution`."""
    return max(resolution, FLOW_RESOLUTION) if isinstance(equation, NavierStokes) else resolution


def truncate_spectrum(field: Array, resolution: int) -> Array:
    """A periodic field (..., m, m) on n × n points, without the waves that do not fit there."""
    m, n = field.shape[-1], resolution
    if m == n:
        return field
    half = n // 2
    spectrum = fft.rfft2(field)[..., :half]
    kept = np.zeros((*field.shape[:-2], n, half + 1), dtype=np.complex128)
    kept[..., :half, :half] = spectrum[..., :half, :]
    kept[..., n - half + 1 :, :half] = spectrum[..., m - half + 1 :, :]
    return np.asarray(fft.irfft2(kept, s=(n, n)) * (n / m) ** 2)


class ReferenceSolver(Answer):
    """The classical solver, without steps; `seconds` are those of its answer alone.

    Without a `tolerance` it is content with what it vouches for, a flow among them, whose residual
    is not zero.
    """

    def __init__(self, tolerance: float | None = None) -> None:
        super().__init__(self.judged)
        self.tolerance = tolerance

    def judged(self, problem: Problem) -> Solution:
        """The solution in float64."""
        problem = problem.in_precision(torch.float64)
        begin = time.perf_counter()
        answer = _answer(problem)
        u = torch.from_numpy(truncate_spectrum(answer.solution, problem.resolution))
        if problem.equation.frames:
            u = with_initial_frame(u, problem.inputs)
        seconds = time.perf_counter() - begin
        tolerance = DEFAULT_TOLERANCE if self.tolerance is None else self.tolerance
        rule = ResidualBelow(tolerance, max_steps=0)
        judged = Solution.of(problem, u, seconds=seconds, stop=rule, method="reference")
        status = tuple(
            # its own discretisation is solved, which is all that was asked for
            Status.FINISHED if self.tolerance is None and solved and not was.good else was
            for was, solved in zip(judged.status, answer.solved, strict=True)
        )
        return replace(judged, status=status)


def _answer(problem: Problem) -> ReferenceSolution:
    equation, n = problem.equation, problem.resolution
    if not isinstance(equation, NavierStokes):
        return solve_reference(equation, problem.inputs.numpy())
    fine = max(working_resolution(equation, n), 2 * math.ceil(3 * n / 4))
    return solve_reference(
        replace(equation, start_time=0.0), resample(problem.inputs, fine).numpy()
    )


COURANT = 0.8
"""Step times speed over spacing. A wave of the dealiased grid, k ≤ 2πn/3, is stable in Runge-Kutta
4 up to 2.8 / (2π/3) = 1.3; the rest is for eddies that grow faster with time."""
HALVINGS = 4


class CoarseIntegrator(Answer):
    """The reference integrator of flows on a grid of `points`, with the longest stable step."""

    def __init__(self, points: int) -> None:
        super().__init__(self.judged)
        self.points = points

    def judged(self, problem: Problem) -> Solution:
        """The flow of the modes that the coarser grid has, in float64."""
        problem = problem.in_precision(torch.float64)
        begin = time.perf_counter()
        answer = torch.cat([self._flow(problem.select([i])) for i in range(problem.batch)])
        u = with_initial_frame(resample(answer, problem.resolution), problem.inputs)
        seconds = time.perf_counter() - begin
        return Solution.of(problem, u, seconds=seconds, method="reference", grid=self.points)

    def _flow(self, problem: Problem) -> Tensor:
        equation = problem.equation
        if not isinstance(equation, NavierStokes):
            raise InvalidInput("equation", "a flow", equation.name)
        equation = replace(equation, start_time=0.0)
        initial = resample(problem.inputs, self.points)
        v1, v2, *_ = vorticity_derivatives(initial)
        speed = float((v1.square() + v2.square()).sqrt().max())
        step = COURANT / (self.points * max(speed, 1e-12))
        for _ in range(HALVINGS):
            try:
                frames = trajectories(equation, initial.numpy(), min(step, equation.frame_spacing))
            except ReferenceFailure:
                step /= 2
                continue
            return torch.from_numpy(frames)
        raise ReferenceFailure(f"{equation.name}: no stable step on {self.points} points")
