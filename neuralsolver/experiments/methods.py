"""The methods: the rows of every table, each a `Solver` made for one setting.

learned      one call of a network, or a network that reads its residual (ENS)
optimised    a network or a field is optimised for each instance (PINO-TTOP, PINN, descent, Newton)
classical    the reference solver
bounds       the true solution and the zero field: what any residual has to be compared with
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from neuralsolver.data.truth import truth
from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.paper import Regime
from neuralsolver.solvers import ResidualPlateau, Solution, TrainedSolver
from neuralsolver.solvers.iterate import FixedSteps, Observer, Solver, StoppingRule, iterate
from neuralsolver.solvers.optimisation import (
    GaussNewton,
    GradientDescent,
    Newton,
    noise_start,
    noised,
)
from neuralsolver.solvers.physics_informed import PINN, TestTimeOptimisation
from neuralsolver.solvers.step_size import search_step_size, with_step_size

TOLERANCE = 1e-10
"""Relative residual at which the contractive solver stops."""
HELD_OUT, HELD_OUT_KEY = 4, 8
"""Instances on which the paper's step size for a finer grid is searched, and their random key."""


@dataclass(frozen=True)
class Setting:
    """What a method may know: the regime, the instances, and trained models.

    `effort` is the share of the official optimisation steps per instance. The solutions are there
    for the row of the ground truth only.
    """

    regime: Regime
    problem: Problem
    exact: Tensor
    seed: int
    effort: float
    model: Callable[[str], TrainedSolver]


@dataclass(frozen=True)
class Method:
    """One row. `samples` limits the instances of a method that optimises each of them."""

    key: str
    label: str
    kind: str
    prepare: Callable[[Setting], Solver]
    samples: int | None = None


@dataclass(frozen=True)
class Applied:
    """Networks applied to whatever grid they are given, until a rule stops them."""

    solver: TrainedSolver
    stop: StoppingRule

    def solve(
        self, problem: Problem, u0: Tensor | None = None, observe: Observer | None = None
    ) -> Solution:
        """Predict and correct."""
        return self.solver.network.solve(problem, u0, observe, stop=self.stop)


@dataclass(frozen=True)
class Converged:
    """A contractive solver run to a small residual, plain or accelerated."""

    solver: TrainedSolver
    accelerate: bool

    def solve(
        self, problem: Problem, u0: Tensor | None = None, observe: Observer | None = None
    ) -> Solution:
        """Correct until the residual is `TOLERANCE` times that of the zero field."""
        return self.solver.solve(
            problem, u0, observe, tolerance=TOLERANCE, accelerate=self.accelerate
        )


@dataclass(frozen=True)
class Answered:
    """A solver without steps: a function from the problem to its answer."""

    answer: Callable[[Problem], Tensor]

    def solve(
        self, problem: Problem, u0: Tensor | None = None, observe: Observer | None = None
    ) -> Solution:
        """The answer, and the time it took."""
        begin = time.perf_counter()
        u = self.answer(problem)
        seconds = time.perf_counter() - begin
        solution = iterate(lambda problem, u, residual: u, problem, u, FixedSteps(0), observe)
        return replace(solution, seconds=seconds)


@dataclass(frozen=True)
class Started:
    """A solver that is given a start."""

    solver: Solver
    start: Callable[[Problem], Tensor]

    def solve(
        self, problem: Problem, u0: Tensor | None = None, observe: Observer | None = None
    ) -> Solution:
        """Solve from the start."""
        return self.solver.solve(problem, self.start(problem) if u0 is None else u0, observe)


def _operator(recipe: str, setting: Setting) -> Solver:
    return Applied(setting.model(recipe), FixedSteps(0))


def _unrolled(recipe: str, setting: Setting, stop: StoppingRule | None = None) -> Solver:
    solver = setting.model(recipe)
    regime = setting.regime
    if regime.refinement > 1:
        grid = solver.resolution * regime.refinement
        held_out = Problem.random(regime.equation, grid, HELD_OUT, setting.seed, key=HELD_OUT_KEY)
        smaller = with_step_size(solver.network, search_step_size(solver.network, held_out))
        solver = replace(solver, network=smaller)
    return Applied(solver, stop or FixedSteps(regime.corrections))


def _contractive(accelerate: bool, setting: Setting) -> Solver:
    return Converged(setting.model("contractive"), accelerate)


def _optimised(recipe: str, setting: Setting) -> Solver:
    official = TestTimeOptimisation(setting.model(recipe).network)
    return replace(
        official,
        steps=round(setting.effort * official.steps),
        milestones=tuple(round(setting.effort * step) for step in official.milestones),
    )


def _pinn(setting: Setting) -> Solver:
    return PINN(seed=setting.seed, steps=round(setting.effort * PINN().steps))


def _prediction(setting: Setting, problem: Problem) -> Tensor:
    with torch.no_grad():
        return setting.model("paper").network.predict(problem)


STARTS: dict[str, Callable[[Setting, Problem], Tensor]] = {
    "noise": lambda setting, problem: noise_start(problem, setting.seed),
    "prediction": _prediction,
    "noised-prediction": lambda setting, problem: noised(
        _prediction(setting, problem), problem, setting.seed
    ),
}


def _from(solver: Solver, start: str, setting: Setting) -> Solver:
    return Started(solver, partial(STARTS[start], setting))


def _reference(setting: Setting) -> Solver:
    def answer(problem: Problem) -> Tensor:
        found = truth(problem.equation, problem.inputs.double().numpy())
        return torch.from_numpy(found.solution).to(problem.inputs)

    return Answered(answer)


def _truth(setting: Setting) -> Solver:
    known = dict(zip(map(_bytes, setting.problem.inputs), setting.exact, strict=True))
    return Answered(lambda problem: torch.stack([known[_bytes(f)] for f in problem.inputs]))


def _bytes(field: Tensor) -> bytes:
    return field.numpy().tobytes()


ABLATIONS = {
    "zero-field": "ENS reading zeros",
    "gradient": "ENS reading the residual's gradient",
    "residual-loss": "ENS with a residual loss",
    "fno": "ENS on FNO",
    "cnn-fno": "ENS on CNN-FNO",
    "fno-cnn": "ENS on FNO-CNN",
    "unet": "ENS on U-Net",
}
PER_INSTANCE, PER_NETWORK = 8, 2
"""Instances of the methods that solve or optimise each by itself; a row says how many it has."""

METHODS: dict[str, Method] = {
    method.key: method
    for method in (
        Method("truth", "ground truth", "bounds", _truth),
        Method("zero", "zero field", "bounds", lambda s: Answered(lambda p: p.zeros())),
        Method("reference", "classical reference", "classical", _reference),
        Method("fno", "FNO", "learned", partial(_operator, "fno")),
        Method("pino", "PINO", "learned", partial(_operator, "pino")),
        Method("pino-ttop", "PINO (TTOP)", "optimised", partial(_optimised, "pino"), PER_NETWORK),
        Method("operator", "CNN-FNO-CNN", "learned", partial(_operator, "operator")),
        Method(
            "operator-pino", "CNN-FNO-CNN (PINO)", "learned", partial(_operator, "operator-pino")
        ),
        Method(
            "operator-ttop",
            "CNN-FNO-CNN (TTOP)",
            "optimised",
            partial(_optimised, "operator-pino"),
            PER_NETWORK,
        ),
        Method("ens", "ENS", "learned", partial(_unrolled, "paper")),
        Method(
            "ens-plateau",
            "ENS, stopped by its residual",
            "learned",
            partial(_unrolled, "paper", stop=ResidualPlateau()),
        ),
        *(
            Method(f"ens-{key}", label, "learned", partial(_unrolled, f"paper-{key}"))
            for key, label in ABLATIONS.items()
        ),
        Method("ens-contractive", "ENS contractive", "learned", partial(_contractive, False)),
        Method("ens-accelerated", "ENS accelerated", "learned", partial(_contractive, True)),
        Method("pinn", "PINN", "optimised", _pinn, 2),
        Method("gradient-descent", "gradient descent", "optimised", lambda s: GradientDescent()),
        Method("newton", "Newton", "optimised", lambda s: Newton(), PER_INSTANCE),
        Method("gauss-newton", "Gauss-Newton", "optimised", lambda s: GaussNewton(), PER_INSTANCE),
        *(
            Method(
                f"{key}-from-{start}",
                f"{label} from {start.replace('-', ' ')}",
                "optimised",
                partial(_from, solver, start),
                PER_INSTANCE,
            )
            for key, label, solver in (
                ("newton", "Newton", Newton()),
                ("gauss-newton", "Gauss-Newton", GaussNewton()),
            )
            for start in STARTS
        ),
    )
}


def method_named(key: str) -> Method:
    """The method called `key`."""
    if key not in METHODS:
        raise InvalidInput("method", f"one of {', '.join(METHODS)}", key)
    return METHODS[key]
