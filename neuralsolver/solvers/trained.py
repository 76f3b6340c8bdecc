"""A trained neural solver, as a user meets it: a problem in, a solution out, on any grid.

How a solve is composed (`TrainedSolver.compose`), by what the problem is and what is asked for:

    precision       that of the equation, or float64 where a tolerance asks for more; the networks
                    stay in float32 (iterative refinement)
    start           the prediction; on a finer grid, nested iteration from the trained one
    step            a correction; on a finer grid a V-cycle (walls), or a correction of the modes
                    that the trained grid has (torus); a flow on fewer points is solved on the
                    trained grid and cut; a corrector that reads shapes stands under the V-cycles
                    of multigrid; what no corrector serves (`why_no_network`) is solved without,
                    and the notes of the answer say so
    acceleration    flexible conjugate gradients for linear equations with a definite J, flexible
                    GMRES for the other linear ones, Anderson mixing for the rest; none where a
                    number of steps is asked for
    stopping        steps = k          after k corrections
                    tolerance = ε      when the residual is ε times that of the first guess
                    neither            ε = 1e-6; for as long as the residual improves, where a true
                                       solution leaves a residual
    polish          what ends without the tolerance is carried on by Newton's method, unless
                    `polish` or `accelerate` is False; a flow without a tolerance is so only where
                    `polish` is True, for a few steps
    safeguard       before any polish, what did not end at a tolerance is solved again without the
                    network, and for each sample the better answer returned (`safeguard.py`); not
                    where steps or the plain iteration of a flow are asked for
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Equation, Grid, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.units import scaled
from neuralsolver.solvers.direct import LARGE, DirectStep
from neuralsolver.solvers.krylov import accelerated
from neuralsolver.solvers.loop import (
    Inverse,
    Iterations,
    Observation,
    Solve,
    Solver,
    Start,
    Stepper,
    in_natural_units,
    iterations,
)
from neuralsolver.solvers.multigrid import NOT_LINEAR, MultigridStep, as_operator
from neuralsolver.solvers.multilevel import VCycle
from neuralsolver.solvers.neural_solver import NeuralSolver, NeuralStepper
from neuralsolver.solvers.newton import NewtonStep, polished
from neuralsolver.solvers.norms import guess_norm, measured_norm
from neuralsolver.solvers.safeguard import (
    GIVEN_UP_ABOVE,
    NETWORK,
    Finish,
    Promising,
    safeguarded,
)
from neuralsolver.solvers.shapes import NeuralCoarseSolver
from neuralsolver.solvers.solution import Solution
from neuralsolver.solvers.stopping import (
    SINGLE,
    FixedSteps,
    ResidualBelow,
    ResidualPlateau,
    SolveOptions,
    StoppingRule,
)
from neuralsolver.solvers.torus import SpectralStep, cut

DEFAULT_TOLERANCE = 1e-6
MAX_STEPS = 200
PATIENCE = 40
"""Steps that may pass without halving a residual before polishing is the better bet."""
FLAT_STEPS, FLAT = 4, 0.2
"""A flow's network has done its part when so many steps improve the residual by less than this:
cheaper steps go on from there."""
FAR = 20.0
"""A start whose residual is this many times that of the first guess is dropped. A good prediction
has up to five times as much: small errors that oscillate from point to point weigh heavily."""
DIMENSIONS = {2: "two", 3: "three"}
MOST_WAVES = 3.0
"""Wavelengths across the domain above which corrections take a hundred steps or stall."""
LONGEST = 2.0
"""The longest box, in its widths, on which the corrector of a square still is worth its time."""


@dataclass(frozen=True, repr=False)
class TrainedSolver(Solver):
    """Networks with the equation and the grid they were trained for, and the record of it.

    >>> import neuralsolver as ns
    >>> solver = ns.load("helmholtz")
    >>> problem = ns.Problem.random(solver.equation, solver.resolution, count=2)
    >>> solver.solve(problem, tolerance=1e-8).good
    True
    """

    network: NeuralSolver
    equation: Equation
    resolution: int
    record: Mapping[str, Any]

    def __repr__(self) -> str:
        weights = sum(p.numel() for p in self.network.parameters())
        at = f"trained on {self.resolution} points a side, {weights:,} weights"
        return f"<{type(self).__name__} of {self.equation}, {at}>"

    def check(self, problem: Problem) -> None:
        """Raise InvalidInput for a problem these networks cannot be applied to."""
        trained, given = self.equation, problem.equation
        if self.network.reads_shape:
            if given.boundary != "dirichlet" or given.frames or not given.linear:
                raise InvalidInput("problem", "a linear equation between walls", given.name)
            return
        if given.conditioning_names != trained.conditioning_names:
            names = " and ".join(trained.input_names)
            raise InvalidInput("problem", f"an equation with {names} as input", given.name)
        if given.unknowns != trained.unknowns:
            names = " and ".join(trained.unknowns)
            raise InvalidInput("problem", f"an equation for {names}", given.name)
        if given.frames != trained.frames:
            raise InvalidInput("frames", f"{trained.frames}, as trained", given.frames)
        predicts = self.network.corrector is None and trained.boundary == "dirichlet"
        if predicts and not (problem.on_native_grid and problem.resolution == self.resolution):
            expected = f"{self.resolution} points a side of the unit square"
            raise InvalidInput("resolution", expected, problem.grid.shape)

    def why_no_network(self, problem: Problem) -> str | None:
        """Why the corrector cannot serve a problem, if so: then it is solved without."""
        grid = problem.grid
        if problem.equation.boundary == "periodic":
            return None
        if _solved_directly(problem):
            across = problem.equation.wavelengths_on(grid)
            return f"its corrector stalls where {across:.3g} wavelengths fit into the domain"
        if grid.dimension != self.equation.dimension:
            return f"its corrector knows {DIMENSIONS[self.equation.dimension]} dimensions"
        if not (grid.walled and problem.space.uniform):
            return "its corrector knows walls only"
        if problem.fixed_inside and not self.network.reads_shape:
            return (
                "its corrector knows no points held inside (that of `shapes` does, but is slower)"
            )
        if min(grid.shape) < self.resolution:
            return f"its corrector needs {self.resolution} points a side"
        if aspect(grid) > LONGEST:
            return f"its corrector knows no box {aspect(grid):.3g} times as long as wide"
        return None

    def inverse(self, problem: Problem, u: Tensor) -> Inverse:
        """An approximation of J(u)⁻¹ by the corrector, or by what does without it."""
        if self.why_no_network(problem) is not None or self.network.corrector is None:
            return super().inverse(problem, u)
        if self.network.reads_shape:
            return self._under_cycles(problem).of(problem)
        found = problem.natural()
        if found is None:
            return partial(VCycle(self.network, problem, self.resolution).inverse, u)
        inner, units = found
        cycle, u = VCycle(self.network, inner, self.resolution), scaled(u, -units.solution)
        return lambda r: scaled(cycle.inverse(u, r), units.solution - units.residual)

    def preconditioner(self, problem: Problem, *, linear: bool = False) -> Any:
        """J⁻¹ of a linear problem of one sample as a SciPy LinearOperator over its unknowns.

        That of a corrector is no linear operator: `flexible_gmres` takes it, SciPy's methods stall.
        One that reads shapes is linear, but not symmetric: GMRES takes it.
        `linear` asks for the V-cycle without a network, which is linear, and symmetric in the
        shares of the points: it serves conjugate gradients too. The J of Poisson and Helmholtz is
        negative; methods that ask for a positive one take −J, −right side and −preconditioner.
        """
        self.check(problem)
        if linear or self.why_no_network(problem) is not None:
            cycle = super().inverse(problem, problem.first_guess())
            return as_operator(problem, cycle, symmetric=problem.equation.self_adjoint)
        if not self.network.reads_shape:
            warnings.warn(NOT_LINEAR, stacklevel=2)
        problem = problem.in_precision(torch.float64)
        return as_operator(problem, self.inverse(problem, problem.first_guess()))

    def remarks(self, problem: Problem) -> list[str]:
        """What a user should know of the way a problem is solved."""
        reason = self.why_no_network(problem)
        if reason is not None:
            multigrid = problem.equation.linear and problem.space.scalar
            how = "multigrid without a network" if multigrid else "Newton's method"
            how = "a direct solver" if _solved_directly(problem) else how
            return [f"solved by {how}: {reason}"]
        if aspect(problem.grid) > 1.0 + 1e-9:
            return [f"aspect ratio {aspect(problem.grid):.3g}: its corrector has only seen squares"]
        return []

    def run(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The solve that `compose` describes, in natural units."""
        problem, given, asked, stop = self._asked(problem, u0, options)
        compose = partial(self._composed, asked=asked, stop=stop)
        solution = yield from in_natural_units(compose, problem, given)
        solution = solution.judged(stop.tolerance if isinstance(stop, ResidualBelow) else None)
        remarks = self.remarks(problem)
        if not remarks:
            return solution
        remarks = [*remarks, *solution.notes.get("remarks", ())]
        return replace(solution, notes={**solution.notes, "remarks": remarks})

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """A solve with the options `steps` or `tolerance`, `accelerate`, `polish`, `precision`."""
        return self._composed(*self._asked(problem, u0, options))

    def _asked(
        self, problem: Problem, u0: Tensor | None, options: Mapping[str, Any]
    ) -> tuple[Problem, Tensor | None, SolveOptions, StoppingRule]:
        """What is asked for, checked: the problem and the start in their working precision."""
        asked = SolveOptions(**options)
        self.check(problem)
        fine = asked.tolerance is not None and asked.tolerance < SINGLE
        precision = asked.precision or (torch.float64 if fine else problem.equation.precision)
        problem = problem.in_precision(precision)
        given = None if u0 is None else torch.as_tensor(u0).to(problem.inputs)
        return problem, given, asked, self._rule(asked)

    def _composed(
        self, problem: Problem, u0: Tensor | None, asked: SolveOptions, stop: StoppingRule
    ) -> Solve:
        """The solve of a problem that is checked and in its working precision."""
        u0 = None if u0 is None else problem.impose(u0)
        if problem.equation.boundary == "periodic" and problem.resolution < self.resolution:
            return self._elsewhere(problem, u0, asked, stop)
        step = self._stepper(problem)
        start = self._start(problem, step, asked, stop) if u0 is None else u0
        if asked.steps is None:
            start = _near(problem, start)
        accelerated = self._accelerated(step, problem, asked)
        guard, polish = self._guard(problem, u0, asked, stop), self._polish(problem, asked, stop)
        return Solve(problem, start, accelerated, stop, [*guard, *polish])

    @property
    def has_alternative(self) -> bool:
        """Whether the answers of a network are compared with those of the same solver without."""
        return self.network.corrector is not None

    def _guard(
        self, problem: Problem, u0: Tensor | None, asked: SolveOptions, stop: StoppingRule
    ) -> list[Finish]:
        """A second solve without the network, unless its bare iteration is what is asked for."""
        flow = problem.equation.boundary == "periodic"
        bare = isinstance(stop, FixedSteps) or (flow and asked.accelerate is False)
        if bare or not self.has_alternative or self.why_no_network(problem):
            return []

        def alternative(samples: Tensor, start: Tensor | None) -> Solve:
            from neuralsolver.solvers.network_free import FEW_POINTS, without_network

            walls = self.equation.boundary == "dirichlet"
            other = without_network(self, FEW_POINTS if walls else None)
            options = {**vars(asked), "polish": False}
            return other.compose(problem.select(samples), start, **options)

        def without(samples: Tensor, found: Solution) -> Solve:
            solve = alternative(samples, None if u0 is None else u0[samples])
            if not isinstance(solve.stop, ResidualPlateau):
                return solve
            worst = float(found.relative_residual[samples].max())
            return replace(solve, stop=Promising(solve.stop, part=max(GIVEN_UP_ABOVE, worst)))

        def onward(samples: Tensor, found: Solution) -> Solve:
            return alternative(samples, found.tensor[samples])

        guard: list[Finish] = [partial(safeguarded, alternative=without)]
        if isinstance(stop, ResidualPlateau):
            guard.append(partial(safeguarded, alternative=onward, label=NETWORK))
        return guard

    def _polish(self, problem: Problem, asked: SolveOptions, stop: StoppingRule) -> list[Finish]:
        """Newton's method, where it is asked for; between walls it needs a tolerance to reach."""
        best = asked.tolerance is None and not problem.equation.residual_vanishes
        wanted = asked.accelerate is not False and not best
        wanted = wanted if asked.polish is None else asked.polish
        if not wanted or isinstance(stop, FixedSteps):
            return []
        tolerance = stop.tolerance if isinstance(stop, ResidualBelow) else None
        return [partial(polished, tolerance=tolerance)]

    def _stepper(self, problem: Problem) -> Stepper:
        """Corrections on the trained grid or a finer one, or what does without."""
        if problem.equation.boundary == "periodic":
            return SpectralStep(self.network, self.resolution)
        if _solved_directly(problem):
            return DirectStep.of(problem)
        if self.why_no_network(problem) is not None:
            multigrid = problem.equation.linear and problem.space.scalar
            return MultigridStep(problem) if multigrid else NewtonStep()
        if problem.on_native_grid and problem.resolution == self.resolution:
            return NeuralStepper(self.network)
        if self.network.reads_shape:
            return self._under_cycles(problem)
        return VCycle(self.network, problem, self.resolution)

    def _under_cycles(self, problem: Problem) -> MultigridStep:
        """Cycles with the corrector on the trained grid."""
        return MultigridStep(problem, NeuralCoarseSolver(self.network, self.resolution))

    def _start(
        self, problem: Problem, step: Stepper, asked: SolveOptions, stop: StoppingRule
    ) -> Tensor | Start:
        """The prediction, or on a finer grid what the trained one has come to."""
        if isinstance(step, VCycle):
            return step.start()
        if isinstance(step, MultigridStep | NewtonStep | DirectStep):
            return problem.first_guess()
        if problem.resolution > self.resolution:
            return self._resampled_start(problem, asked, stop)
        return self.network.predict(problem)

    def _accelerated(self, step: Stepper, problem: Problem, asked: SolveOptions) -> Stepper:
        wanted = asked.steps is None if asked.accelerate is None else asked.accelerate
        if (
            not wanted
            or self.network.corrector is None
            or isinstance(step, NewtonStep | DirectStep)
        ):
            return step
        return accelerated(step, problem)

    def _rule(self, asked: SolveOptions) -> StoppingRule:
        if self.network.corrector is None:
            if asked.steps:
                raise InvalidInput("steps", "0, because this model has no corrector", asked.steps)
            return FixedSteps(0) if asked.tolerance is None else ResidualBelow(asked.tolerance, 0)
        if asked.steps is not None:
            return FixedSteps(asked.steps)
        if asked.tolerance is None and not self.equation.residual_vanishes:
            stop = self.network.stop
            guarded = asked.accelerate is not False and self.has_alternative
            if guarded and isinstance(stop, ResidualPlateau):
                stop = replace(stop, window=FLAT_STEPS, rtol=FLAT)
            return stop
        tolerance = DEFAULT_TOLERANCE if asked.tolerance is None else asked.tolerance
        return ResidualBelow(tolerance, MAX_STEPS, PATIENCE)

    def _resampled_start(self, problem: Problem, asked: SolveOptions, stop: StoppingRule) -> Start:
        """The answer of the trained grid, on the finer one of the problem."""
        trained = problem.resampled(problem.equation.grid(self.resolution))
        step = self._accelerated(self._stepper(trained), trained, asked)
        u = self.network.predict(trained)
        solved = yield from iterations(step, trained, u, stop, stage="start")
        return trained.grid.resample(solved.tensor, problem.grid)

    def _elsewhere(
        self, problem: Problem, u0: Tensor | None, asked: SolveOptions, stop: StoppingRule
    ) -> Solve:
        """A flow on fewer points than trained: solved on the trained grid, and cut."""
        trained = problem.resampled(problem.equation.grid(self.resolution))
        given = None if u0 is None else trained.impose(problem.grid.resample(u0, trained.grid))
        start = self.network.predict(trained) if given is None else given
        step = self._accelerated(self._stepper(trained), trained, asked)

        def cut_to_grid(solved: Solution) -> Iterations:
            answer = cut(solved, problem, stop)
            residual = problem.residual(answer.tensor)
            samples, norms = torch.arange(problem.batch), answer.residual_norms[-1]
            at = (int(solved.steps.max()), samples, answer.tensor, residual, norms)
            yield Observation("solve", *at, answer.residual_scale)
            return answer

        guard, polish = self._guard(trained, given, asked, stop), self._polish(trained, asked, stop)
        finishes = [*guard, *polish, cut_to_grid]
        return Solve(trained, start, step, stop, finishes, stage="start")


def _solved_directly(problem: Problem) -> bool:
    """Whether J is so far from definite that only a direct solve ends: few points a wavelength."""
    equation = problem.equation
    large = problem.grid.size > LARGE[problem.grid.dimension]
    return equation.linear and not large and equation.wavelengths_on(problem.grid) > MOST_WAVES


def aspect(grid: Grid) -> float:
    """How many times as long as wide a box is."""
    return max(grid.lengths) / min(grid.lengths)


def _near(problem: Problem, start: Tensor | Start) -> Start:
    """A start, or the first guess for the samples that it would lead astray."""
    u = start if isinstance(start, Tensor) else (yield from start)
    # written so that NaN counts as far
    near = (measured_norm(problem, u).cpu() <= FAR * guess_norm(problem)).to(u.device)
    return torch.where(near.view(-1, *[1] * (u.dim() - 1)), u, problem.first_guess())
