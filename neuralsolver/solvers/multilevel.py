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

Nested iteration supplies the start: solve on the trained grid, interpolate, a cycle, and so on up
to the grid wanted.

A cycle need only be roughly right, so it runs in float32 whatever the precision of the problem;
iterate and residual keep theirs (iterative refinement). The residual enters divided by its size ρ,
since float32 has no very small numbers, and only the corrector sees it in its own units.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.base import zero_ring
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.grids import coarse_problem, coarsen, ladder, prolong, restrict
from neuralsolver.solvers.iterate import FixedSteps
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.smoothing import Stencil, chebyshev_weights, stencil

SINGLE_PRECISION_LIMIT = 2048
"""Beyond this resolution the rounding of float32, about n²ε of the residual, would slow cycles."""

ORDINARY_SIZES = (1e-12, 1e12)
"""Inputs outside would come near the ends of float32."""

LEAST_MULTIPLE, LARGEST_MULTIPLE = 0.5, 2.0
"""Bounds on α, for operators that are not definite."""


class VCycle:
    """One V-cycle as a step of `iterate`."""

    def __init__(
        self, solver: NeuralSolver, trained: int, *, sweeps: int = 3, coarse_steps: int = 1
    ) -> None:
        self.solver, self.trained = solver, trained
        self.coarse_steps = coarse_steps
        self.weights = chebyshev_weights(sweeps)

    def __call__(self, problem: Problem, u: Tensor, residual: Tensor) -> Tensor:
        return problem.impose(u + self.correction(hierarchy(problem, self.trained), u, residual))

    def correction(self, levels: list[Level], u: Tensor, residual: Tensor) -> Tensor:
        """An approximation of −J⁻¹ residual on the first level, in the residual's precision."""
        dtype = levels[0].problem.inputs.dtype
        tiny = torch.finfo(residual.dtype).tiny
        rho: Tensor = torch.linalg.vector_norm(residual, dim=(1, 2, 3), keepdim=True)
        rho = rho.clamp_min(tiny)
        return rho * self._cycle(levels, u.to(dtype), (residual / rho).to(dtype), rho)

    def _cycle(self, levels: list[Level], u: Tensor, residual: Tensor, rho: Tensor) -> Tensor:
        """An approximation of −J⁻¹ residual on the first of some levels."""
        if len(levels) == 1:
            return self._coarsest(levels[0], u, residual, rho)
        jacobian, below = levels[0].jacobian(u), levels[1].problem
        e = jacobian.sweep(residual, self.weights)
        left = residual + jacobian.apply(e)
        reads_u = not below.equation.linear or "solution" in self.solver.corrector_reads
        u_below = below.impose(coarsen(u, below.resolution)) if reads_u else below.zeros()
        c = self._cycle(levels[1:], u_below, restrict(left, below.resolution), rho)
        c = prolong(c, u.shape[-1])
        e = e + _best_multiple(left, c, jacobian.apply(c)) * c
        return jacobian.sweep(residual, self.weights[::-1], e)

    def _coarsest(self, level: Level, u: Tensor, residual: Tensor, rho: Tensor) -> Tensor:
        """The corrector on its own grid, after sweeps if it was trained with them."""
        e, jacobian = torch.zeros_like(u), level.jacobian(u)
        for _ in range(self.coarse_steps):
            if self.solver.smoothing:
                e = jacobian.sweep(residual, self.weights, e)
            left = rho * (residual + jacobian.apply(e))
            answer = self.solver.correction(level.problem, u.to(rho.dtype), left) / rho
            e = e + zero_ring(answer).to(e.dtype)
        return e


def _best_multiple(residual: Tensor, c: Tensor, image: Tensor) -> Tensor:
    """α = −⟨r, c⟩ / ⟨c, Jc⟩ per sample, within bounds."""
    along = (residual * c).flatten(1).sum(1)
    curvature = (image * c).flatten(1).sum(1)
    # no correction, no curvature: any multiple will do
    alpha = torch.where(curvature == 0, 1.0, -along / curvature)
    return alpha.clamp(LEAST_MULTIPLE, LARGEST_MULTIPLE).view(-1, *[1] * (c.dim() - 1))


@dataclass
class Level:
    """A problem on one grid, and its J once that is known and does not change with u."""

    problem: Problem
    constant: Stencil | None = None

    def jacobian(self, u: Tensor) -> Stencil:
        """J(u)."""
        if self.constant is not None:
            return self.constant
        found = stencil(self.problem, u)
        if self.problem.equation.linear:
            self.constant = found
        return found


_HIERARCHIES: WeakKeyDictionary[Problem, list[Level]] = WeakKeyDictionary()


def hierarchy(problem: Problem, trained: int) -> list[Level]:
    """The problem on every grid down to the trained one, made once as long as the problem lives."""
    levels = _HIERARCHIES.get(problem)
    if levels is None or levels[-1].problem.resolution != trained:
        finest = (
            problem.in_precision(torch.float32)
            if _fits_single(problem)
            else problem.select(slice(None))
        )
        sizes = ladder(problem.resolution, trained)[1:]
        levels = [Level(finest), *(Level(coarse_problem(finest, size)) for size in sizes)]
        _HIERARCHIES[problem] = levels
    return levels


def _fits_single(problem: Problem) -> bool:
    """Whether a cycle may run in float32: a grid that is not too fine, inputs in ordinary units."""
    least, largest = ORDINARY_SIZES
    size = float(problem.inputs.abs().max())
    return problem.resolution <= SINGLE_PRECISION_LIMIT and (size == 0 or least < size < largest)


START_STEPS = 3
"""Corrections on the trained grid before its answer is carried up; interpolation loses more."""


@torch.no_grad()
def nested_iteration(solver: NeuralSolver, trained: int, problem: Problem) -> Tensor:
    """A start on any grid: the trained grid's answer, carried up with a cycle per grid between."""
    if problem.resolution < trained:
        raise InvalidInput("resolution", f"at least {trained}", problem.resolution)
    if problem.resolution == trained:
        return solver.predict(problem)
    levels, cycle = hierarchy(problem, trained), VCycle(solver, trained)
    u = solver.solve(levels[-1].problem, stop=FixedSteps(START_STEPS)).tensor
    for index in range(len(levels) - 2, 0, -1):
        level = levels[index].problem
        u = level.impose(prolong(u, level.resolution))
        u = level.impose(u + cycle.correction(levels[index:], u, level.residual(u)))
    return problem.impose(prolong(u, problem.resolution).to(problem.inputs.dtype))
