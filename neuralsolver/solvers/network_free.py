"""The same solver without its network: what is left shows what the network adds.

Everything else stays: the loop, the sweeps, the acceleration, the stopping rule, the precision. In
place of the corrector stands what a classical iteration would do with the same residual,

    between walls    nothing: sweeps, with flexible GMRES or Anderson mixing around them
    flows            u ← u − L⁻¹F(u)      Picard, L = ∂ₜ − νΔ inverted mode by mode

and the start is the first guess of the equation. On a finer grid between walls the corrector is the
coarsest solver of a V-cycle, and classical ones are at hand for its place: sparse factors of J on
the trained grid, or more halvings of the grid and factors on a few points. With these the cycle is
ordinary geometric multigrid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver.equations import Problem
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers.direct import Inverse, lu_inverse, solve_samples
from neuralsolver.solvers.loop import State, Stepper
from neuralsolver.solvers.multigrid import MultigridStep
from neuralsolver.solvers.multilevel import START_STEPS, Level, VCycle
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.stopping import FixedSteps
from neuralsolver.solvers.trained import TrainedSolver

SWEEPS = 2
FEW_POINTS = 8
"""Points a side at which a plain hierarchy of grids ends."""


class ScaledIdentity(nn.Module):
    """A number of times what is read: −1 for Picard's correction, 0 for none.

    Of many fields that are read the last `channels` count; all of them if that is zero.
    """

    def __init__(self, factor: float, channels: int = 0) -> None:
        super().__init__()
        self.channels = channels
        # what is read is converted to the precision of the weights
        self.factor = nn.Parameter(torch.tensor(factor, dtype=torch.float64), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """factor · x."""
        return self.factor * x[:, -self.channels :]


class FactorCycle(VCycle):
    """V-cycles with sparse factors of J on the coarsest grid."""

    factors: list[Inverse] | None = None

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        super().keep(mask)
        if self.factors is not None and len(self.factors) > 1:
            pairs = zip(self.factors, mask.tolist(), strict=True)
            self.factors = [factor for factor, kept in pairs if kept]

    def _first_steps(self) -> tuple[Stepper, FixedSteps]:
        def newton(now: State) -> Tensor:
            delta = self.correction(self.levels[-1:], now.u, now.residual)
            return now.problem.impose(now.u + delta)

        return newton, FixedSteps(1 if self.problem.equation.linear else START_STEPS)

    def _coarsest(self, level: Level, u: Tensor, residual: Tensor, rho: Tensor) -> Tensor:
        problem = level.problem
        factors = self._factors(problem, u)
        found = solve_samples(factors, problem.space.flatten(residual))
        return problem.space.unflatten(-found, residual)

    def _factors(self, problem: Problem, u: Tensor) -> list[Inverse]:
        """J⁻¹ of every sample, or one for all; once where J does not change."""
        if self.factors is not None:
            return self.factors
        shared = not problem.equation.jacobian_depends_on
        problem = problem.select([0]) if shared else problem
        asked = problem.in_precision(torch.float64), u[: problem.batch].double()
        factors = [lu_inverse(matrix, problem.space) for matrix in sparse_jacobian(*asked)]
        if problem.equation.linear:
            self.factors = factors
        return factors


@dataclass(frozen=True, repr=False)
class NetworkFree(TrainedSolver):
    """A trained solver after its networks were removed; `coarsest` as in `without_network`."""

    coarsest: int | None = None

    has_alternative = False

    def _stepper(self, problem: Problem) -> Stepper:
        if problem.equation.boundary == "periodic":
            return self.network.stepper()  # what inverts L mode by mode is at home on any grid
        if self.coarsest is None or self.why_no_network(problem) is not None:
            return super()._stepper(problem)
        if problem.fixed_inside:
            return MultigridStep(problem)  # which coarsens shapes, where halving a grid does not
        return FactorCycle(self.network, problem, self.coarsest)


def without_network(solver: TrainedSolver, coarsest: int | None = None) -> NetworkFree:
    """The solver with its networks removed.

    Between walls, V-cycles down to `coarsest` points a side stand in their place where it is given,
    with sparse factors there; otherwise nothing does.
    """
    network, flow = solver.network, solver.equation.boundary == "periodic"
    channels = int(network.reads_shape)
    free = _classical_steps(
        flow,
        channels=channels,
        corrector_reads=network.corrector_reads if channels else ("error",),
        smoothing=0 if flow else network.smoothing or SWEEPS,
        stop=network.stop,
    )
    return NetworkFree(**{**vars(replace(solver, network=free, record={})), "coarsest": coarsest})


def picard(problem: Problem) -> NetworkFree:
    """The solver of a flow that needs no network: Picard's steps, mixed, and Newton-Krylov."""
    return NetworkFree(_classical_steps(flow=True), problem.equation, problem.resolution, {})


def _classical_steps(flow: bool, channels: int = 0, **options: Any) -> NeuralSolver:
    """Picard's corrections of a flow, and none between walls, in the place of a network."""
    error = "integrated_residual" if flow else "scaled_residual"
    corrector = ScaledIdentity(-1.0 if flow else 0.0, channels)
    options = {"corrector_reads": ("error",), **options}
    return NeuralSolver(None, corrector, step_size=1.0, error=error, **options)
