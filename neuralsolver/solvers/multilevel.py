"""Any resolution: a V-cycle whose coarsest solver is a corrector on the grid it was trained on.

A corrector is bound to its grid: its local filters act on points, not on lengths. On a finer grid
the error splits. What the trained grid can carry is restricted to it and removed there by the
corrector; the rest oscillates from point to point and is damped by smoothing on the finer grids,

    e ← e − ω D⁻¹(r + Je),    D = diag J,

with the weights ω of `smoothing`. J is the derivative of the residual at the current iterate, so
that the cycle also serves nonlinear equations. What a coarse grid answers, c, is a little too
long or too short, since its coefficients are means; of its multiples the best one makes the energy
½⟨e, Je⟩ + ⟨r, e⟩ stationary:

    e ← e + αc,    α = −⟨r + Je, c⟩ / ⟨c, Jc⟩

Several fields have no such energy: there α makes ‖r + J(e + αc)‖ smallest.

Nested iteration supplies the start: solve on the trained grid, interpolate, a cycle, and so on up
to the grid wanted.

A cycle need only be roughly right, so it runs in float32 whatever the precision of the problem;
iterate and residual keep theirs (iterative refinement). The residual enters divided by its size ρ,
since float32 has no very small numbers, and only the corrector sees it in its own units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import Start, State, Stepper, iterations
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.norms import guess_norm
from neuralsolver.solvers.smoothing import BlockStencil, Stencil, chebyshev_weights, stencil
from neuralsolver.solvers.stopping import FixedSteps

SINGLE_PRECISION_LIMIT = 2048
"""Beyond this resolution the rounding of float32, about n²ε of the residual, would slow cycles."""

ORDINARY_SIZES = (1e-12, 1e12)
"""Inputs and fixed values outside would come near the ends of float32."""

LARGEST_RESIDUAL = 1e24
"""Residuals above, of nonlinear equations, would come near its end."""

LEAST_MULTIPLE, LARGEST_MULTIPLE = 0.5, 2.0
"""Bounds on α, for operators that are not definite."""

START_STEPS = 3
"""Corrections on the trained grid before its answer is carried up; interpolation loses more."""


class VCycle:
    """V-cycles as the steps of one solve, down to the grid of `trained` points."""

    def __init__(
        self, solver: NeuralSolver, problem: Problem, trained: int, *, sweeps: int = 3
    ) -> None:
        if min(problem.grid.shape) < trained or not problem.grid.walled or problem.fixed_inside:
            expected = f"at least {trained} points between walls, none known inside"
            raise InvalidInput("grid", expected, problem.grid)
        self.solver, self.problem = solver, problem
        self.weights = chebyshev_weights(sweeps, problem.grid.dimension)
        self.levels = hierarchy(problem, trained)

    def __call__(self, now: State) -> Tensor:
        return now.problem.impose(now.u + self.correction(self.levels, now.u, now.residual))

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.levels = [level.select(mask) for level in self.levels]

    def start(self) -> Start:
        """Nested iteration: the trained grid's answer, carried up with a cycle per grid between."""
        coarsest = self.levels[-1].problem
        step, stop = self._first_steps()
        predicted = self.solver.predict(coarsest)
        solution = yield from iterations(step, coarsest, predicted, stop, stage="start")
        u, below = solution.tensor, coarsest
        for index in range(len(self.levels) - 2, 0, -1):
            level = self.levels[index].problem
            u = level.impose(below.grid.prolong(u, level.grid))
            u = level.impose(u + self.correction(self.levels[index:], u, level.residual(u)))
            below = level
        finest = self.problem
        return finest.impose(below.grid.prolong(u, finest.grid).to(finest.inputs))

    def _first_steps(self) -> tuple[Stepper, FixedSteps]:
        """What is done on the coarsest grid before its answer is carried up."""
        return self.solver.stepper(), FixedSteps(START_STEPS)

    def inverse(self, u: Tensor, r: Tensor) -> Tensor:
        """An approximation of J(u)⁻¹r for any r, however little it looks like a residual.

        A corrector answers r and −r differently; half the difference is odd, as J⁻¹ is. Sweeps
        after it remove what oscillates in the answer.
        """
        twice = self.correction(self.levels, u, -r) - self.correction(self.levels, u, r)
        dtype = self.levels[0].problem.inputs.dtype
        size = _length(r)
        jacobian = self.levels[0].jacobian(u.to(dtype))
        e = (0.5 * twice / size).to(dtype)
        return size * jacobian.sweep((-r / size).to(dtype), self.weights[::-1], e)

    def correction(self, levels: Sequence[Level], u: Tensor, residual: Tensor) -> Tensor:
        """An approximation of −J⁻¹ residual on the first level, in the residual's precision."""
        dtype = levels[0].problem.inputs.dtype
        rho = _length(residual)
        return rho * self._cycle(levels, u.to(dtype), (residual / rho).to(dtype), rho)

    def _cycle(self, levels: Sequence[Level], u: Tensor, residual: Tensor, rho: Tensor) -> Tensor:
        """An approximation of −J⁻¹ residual on the first of some levels."""
        if len(levels) == 1:
            return self._coarsest(levels[0], u, residual, rho)
        jacobian, below = levels[0].jacobian(u), levels[1].problem
        grid = levels[0].problem.grid
        e = jacobian.sweep(residual, self.weights)
        left = residual + jacobian.apply(e)
        reads_u = not below.equation.linear or "solution" in self.solver.corrector_reads
        u_below = below.impose(grid.coarsen(u, below.grid)) if reads_u else below.zeros()
        c = self._cycle(levels[1:], u_below, grid.restrict(left, below.grid), rho)
        c = below.grid.prolong(c, grid)
        e = e + _best_multiple(levels[0].problem, left, c, jacobian.apply(c)) * c
        return jacobian.sweep(residual, self.weights[::-1], e)

    def _coarsest(self, level: Level, u: Tensor, residual: Tensor, rho: Tensor) -> Tensor:
        """The corrector on its own grid, after sweeps if it was trained with them."""
        e, jacobian = torch.zeros_like(u), level.jacobian(u)
        if self.solver.smoothing:
            e = jacobian.sweep(residual, self.weights, e)
        left = rho * (residual + jacobian.apply(e))
        now = State(level.problem, u.to(rho.dtype), left)
        answer = self.solver.correction(now) / rho
        return e + level.problem.space.zero_boundary(answer).to(e.dtype)


def _length(r: Tensor) -> Tensor:
    """‖r‖ of each sample, shaped to divide it by, never zero."""
    length: Tensor = torch.linalg.vector_norm(r, dim=tuple(range(1, r.dim())), keepdim=True)
    return length.clamp_min(torch.finfo(r.dtype).tiny)


def _best_multiple(problem: Problem, residual: Tensor, c: Tensor, image: Tensor) -> Tensor:
    """α per sample, within bounds; for several fields that of the smallest residual."""
    tested = c
    if not problem.space.scalar:
        residual, image = problem.in_field_units(residual), problem.in_field_units(image)
        tested = image
    along = (residual * tested).flatten(1).sum(1)
    curvature = (image * tested).flatten(1).sum(1)
    # no correction, no curvature: any multiple will do
    alpha = torch.where(curvature == 0, 1.0, -along / curvature)
    return alpha.clamp(LEAST_MULTIPLE, LARGEST_MULTIPLE).view(-1, *[1] * (c.dim() - 1))


@dataclass
class Level:
    """A problem on one grid, and its J once that is known and does not change with u."""

    problem: Problem
    constant: Stencil | BlockStencil | None = None

    def jacobian(self, u: Tensor) -> Stencil | BlockStencil:
        """J(u)."""
        if self.constant is not None:
            return self.constant
        found = stencil(self.problem, u)
        if self.problem.equation.linear:
            self.constant = found
        return found

    def select(self, mask: Tensor) -> Level:
        """Some of the samples."""
        constant = None if self.constant is None else self.constant.select(mask)
        return Level(self.problem.select(mask), constant)


def hierarchy(problem: Problem, trained: int) -> list[Level]:
    """The problem on every grid down to the trained one, the finest first."""
    finest = problem.in_precision(torch.float32) if _fits_single(problem) else problem
    grids = problem.grid.ladder(replace(problem.grid, shape=(trained,) * problem.grid.dimension))
    return [Level(finest), *(Level(finest.coarsened(grid)) for grid in grids[1:])]


def _fits_single(problem: Problem) -> bool:
    """Whether a cycle may run in float32: a grid that is not too fine, and ordinary numbers."""
    if max(problem.grid.shape) > SINGLE_PRECISION_LIMIT:
        return False
    least, largest = ORDINARY_SIZES
    fields = [problem.inputs] if problem.fixed is None else [problem.inputs, problem.fixed.values]
    sizes = (float(field.abs().max()) for field in fields)
    if not all(size == 0 or least < size < largest for size in sizes):
        return False
    # λ of λu³ may be large where u is ordinary
    return problem.equation.linear or bool((guess_norm(problem) < LARGEST_RESIDUAL).all())
