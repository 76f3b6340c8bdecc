"""The methods: the rows of every table, each a `Solver` made for one setting.

bound        the true solution, the zero field, the flow that is still: to compare residuals with
learned      one call of a network, or a network that reads its residual (ENS)
optimised    the weights of a network are fitted to each instance (PINO-TTOP, PINN)
classical    the reference solver, the minimisers of the residual, and every ENS with its network
             taken out and all the rest kept: the row to read before crediting a network
generative   one sample of a denoiser that is led to the input and to the equation

A method is one row of `METHODS`: everything else that lists methods is derived from the rows, so a
new baseline is a file with its solver and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.paper import EXPERIMENTS, Experiment, Regime
from neuralsolver.experiments.reference_solver import CoarseIntegrator, ReferenceSolver
from neuralsolver.experiments.trainings import BACKBONES, Backbone, backbone, moving, static
from neuralsolver.samplers import Forward, Sampler
from neuralsolver.solvers import FixedSteps, ResidualPlateau, Solver, TrainedSolver
from neuralsolver.solvers.network_free import FEW_POINTS, without_network
from neuralsolver.solvers.optimisation import (
    GaussNewton,
    GradientDescent,
    Newton,
    noise_start,
    noised,
)
from neuralsolver.solvers.physics_informed import PINN, TestTimeOptimisation
from neuralsolver.solvers.step_size import search_step_size, with_step_size
from neuralsolver.solvers.stopping import StoppingRule
from neuralsolver.solvers.wrappers import Answer, With
from neuralsolver.training.library import shipped_denoisers

TOLERANCE = 1e-10
"""Relative residual at which the contractive solver stops."""
FLOW_OPTIMISATION: dict[str, Any] = {
    "steps": 1000,
    "learning_rate": 1e-3,
    "milestones": (400, 800),
}
"""PINO's schedule for an instance of Kolmogorov flow."""
HELD_OUT, HELD_OUT_KEY = 4, 8
"""Instances on which the paper's step size for a finer grid is searched, and their random key."""


@dataclass(frozen=True)
class Setting:
    """What a method may know before it is given a problem; the solution is not among it.

    `effort` is the share of the official optimisation steps per instance; `model` gives the trained
    model of one of the method's recipes, `sampler` a sampler by its name and number of steps.
    """

    regime: Regime
    seed: int
    effort: float
    model: Callable[[str], TrainedSolver]
    sampler: Callable[[str, int], Sampler]


Prepare = Callable[[Setting], Solver]


@dataclass(frozen=True)
class Method:
    """One row: its name, its looks, where it is compared, and how it is made ready to solve.

    `recipes` are the models it uses, `denoisers` those of its shipped denoisers, and with their
    weights a new `version` makes its rows stale.
    `samples` limits the instances of a method that solves or optimises each by itself. On
    trajectories, which take longer, the networks are others, and so may be limit and label.
    `printed` is what the paper calls it, `table` the kind of table that it belongs to. What is not
    prepared, the truth, is measured by the evaluation itself.
    """

    key: str
    kind: str
    label: str
    colour: str
    marker: str
    line: str = "-"
    prepare: Prepare | None = None
    where: Callable[[Experiment], bool] = lambda experiment: not experiment.ablation
    recipes: tuple[str, ...] = ()
    samples: int | None = None
    moving_samples: int | None = None
    moving_label: str = ""
    printed: str = ""
    table: str = "forward"
    version: int = 1
    denoisers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"kind of {self.key}", f"one of {', '.join(KINDS)}", self.kind)

    def label_in(self, experiment: Experiment) -> str:
        """What it is called there."""
        return (
            self.moving_label if moving(experiment.equation) and self.moving_label else self.label
        )

    def samples_in(self, experiment: Experiment) -> int | None:
        """How many instances it is given there at most."""
        return (self.moving_samples if moving(experiment.equation) else None) or self.samples


Start = Callable[[Problem], Tensor]


def _operator(recipe: str, setting: Setting) -> Solver:
    return With(setting.model(recipe).network, {"stop": FixedSteps(0)})


def _unrolled(recipe: str, setting: Setting, stop: StoppingRule | None = None) -> Solver:
    solver = setting.model(recipe)
    regime = setting.regime
    if regime.refinement > 1 and regime.equation.boundary == "torus":
        return With(solver, {"steps": regime.corrections})
    if regime.refinement > 1:
        grid = solver.resolution * regime.refinement
        held_out = Problem.random(regime.equation, grid, HELD_OUT, setting.seed, key=HELD_OUT_KEY)
        smaller = with_step_size(solver.network, search_step_size(solver.network, held_out))
        solver = replace(solver, network=smaller)
    return With(solver.network, {"stop": stop or FixedSteps(regime.corrections)})


def _contractive(recipe: str, accelerate: bool, setting: Setting) -> Solver:
    # the residual of a flow has a floor; it is corrected for as long as its residual falls
    tolerance = None if setting.regime.equation.has_floor else TOLERANCE
    return With(setting.model(recipe), {"tolerance": tolerance, "accelerate": accelerate})


def _carried_on(setting: Setting, network: bool = True) -> Solver:
    trained = setting.model("contractive")
    return With(trained if network else without_network(trained), {"polish": True})


def _without_network(setting: Setting, accelerate: bool = True, coarsest: str = "") -> Solver:
    trained = setting.model("contractive")
    points = {"": None, "trained": trained.resolution, "few": FEW_POINTS}[coarsest]
    tolerance = None if setting.regime.equation.has_floor else TOLERANCE
    options = {"tolerance": tolerance, "accelerate": accelerate}
    return With(without_network(trained, points), options)


def _optimised(recipe: str, setting: Setting) -> Solver:
    flow = FLOW_OPTIMISATION if moving(setting.regime.equation) else {}
    official = TestTimeOptimisation(setting.model(recipe).network, **flow)
    return replace(
        official,
        steps=round(setting.effort * official.steps),
        milestones=tuple(round(setting.effort * step) for step in official.milestones),
    )


def _generated(method: str, steps: int, setting: Setting) -> Solver:
    steps = max(FEWEST_STEPS, round(setting.effort * steps))
    return Forward(setting.sampler(method, steps), setting.seed)


def _integrator(points: int, setting: Setting) -> Solver:
    return CoarseIntegrator(points)


def _pinn(setting: Setting) -> Solver:
    return PINN(seed=setting.seed, steps=round(setting.effort * PINN().steps))


def _noise(setting: Setting) -> Start:
    return partial(noise_start, seed=setting.seed)


def _prediction(setting: Setting) -> Start:
    # loaded once, before anything is timed
    network = setting.model("paper").network

    @torch.no_grad()
    def predict(problem: Problem) -> Tensor:
        return network.predict(problem)

    return predict


def _noised_prediction(setting: Setting) -> Start:
    predict = _prediction(setting)
    return lambda problem: noised(predict(problem), problem, setting.seed)


STARTS: dict[str, Callable[[Setting], Start]] = {
    "noise": _noise,
    "prediction": _prediction,
    "noised-prediction": _noised_prediction,
}


def _from(solver: Solver, start: str, setting: Setting) -> Solver:
    return With(solver, start=STARTS[start](setting))


KINDS = ("bound", "learned", "classical", "optimised", "generative")
PER_INSTANCE, PER_NETWORK, PER_SAMPLE = 8, 16, 2
"""Instances of the methods that solve, optimise or sample each by itself; a row says how many it
has, and a trajectory takes longer."""
GUIDED_STEPS, FEWEST_STEPS = 300, 2
"""Steps of DiffusionPDE, whose authors take 2,000; of PCFM there are the paper's 50."""
COARSE_GRIDS = (16, 24, 32, 48, 64)
"""Grids of the reference integrator with the longest stable step: the front of the flows."""

# Okabe and Ito's colours and some of Tol's, which differ for every kind of colour vision
BLACK, GREY, BROWN, SAND = "#000000", "#7F7F7F", "#8C564B", "#C9B35B"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
INDIGO, TEAL, OLIVE, WINE, STEEL = "#332288", "#44AA99", "#999933", "#882255", "#6699CC"
SILVER, RUST, FOREST, VIOLET, STRAW = "#BBBBBB", "#661100", "#117733", "#AA4499", "#DDCC77"


def _on_flows(experiment: Experiment) -> bool:
    return moving(experiment.equation)


def _static(experiment: Experiment) -> bool:
    return static(experiment.equation) and not experiment.ablation


def _denoised(experiment: Experiment) -> bool:
    return _static(experiment) and f"{experiment.equation.name}-palette" in shipped_denoisers()


def _matched(experiment: Experiment) -> bool:
    return _on_flows(experiment) or experiment.name == "helmholtz"


def _nonlinear(experiment: Experiment) -> bool:
    return _static(experiment) and not experiment.equation.linear


def _everywhere(experiment: Experiment) -> bool:
    return True


def _ablated(experiment: Experiment) -> bool:
    return experiment.ablation


def _ablation(row: Backbone) -> Method:
    recipe = f"paper-{row.key}"
    prepare = partial(_unrolled, recipe)
    name, looks = f"ENS, {row.label}", (row.colour, row.marker, row.line)
    return Method(f"ens-{row.key}", "learned", name, *looks, prepare, _ablated, (recipe,))


METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known to every command, table and figure."""
    METHODS[method.key] = method
    return method


# fmt: off
for _method in (
    Method("ens", "learned", "ENS (paper's recipe)", BLUE, "o", "-", partial(_unrolled, "paper"),
           _everywhere, ("paper",), moving_label="ENS (paper's recipe), transformer",
           printed="ENS"),
    Method("ens-brief", "learned", "ENS (paper's recipe), equal minutes", TEAL, "o", ":",
           partial(_unrolled, "paper-brief"), _static, ("paper-brief",)),
    Method("ens-plateau", "learned", "ENS, stopped by its residual", STEEL, "x", ":",
           partial(_unrolled, "paper", stop=ResidualPlateau()), _static, ("paper",)),
    Method("ens-contractive", "learned", "ENS, contractive", VERMILION, "s", "-",
           partial(_contractive, "contractive", False), recipes=("contractive",),
           moving_label="ENS, contractive, transformer"),
    Method("ens-accelerated", "learned", "ENS, accelerated", PURPLE, "D", "-.",
           partial(_contractive, "contractive", True), recipes=("contractive",),
           moving_label="ENS, accelerated, transformer"),
    Method("ens-contractive-cnn", "learned", "ENS, contractive, CNN-FNO-CNN", WINE, "d", "--",
           partial(_contractive, "contractive-cnn", False), _on_flows, ("contractive-cnn",)),
    Method("without-network", "classical", "without network", SILVER, "D", "-.", _without_network,
           recipes=("contractive",), moving_label="without network (Picard + Anderson)"),
    Method("without-network-plain", "classical", "without network, plain", RUST, "s", "--",
           partial(_without_network, accelerate=False), _on_flows, ("contractive",),
           moving_label="without network (Picard)"),
    Method("ens-newton", "learned", "ENS, then Newton-Krylov", VIOLET, "p", "-", _carried_on,
           _on_flows, ("contractive",)),
    Method("without-network-newton", "classical", "without network, then Newton-Krylov", FOREST,
           "p", "--", partial(_carried_on, network=False), _on_flows, ("contractive",)),
    Method("without-network-lu", "classical", "without network, coarsest LU", FOREST, "D", "--",
           partial(_without_network, coarsest="trained"), _static, ("contractive",)),
    Method("without-network-multigrid", "classical", "without network, multigrid", RUST, "P",
           "-.", partial(_without_network, coarsest="few"), _static, ("contractive",)),
    Method("ens-zero-field", "learned", "ENS without the residual", ORANGE, "v", "--",
           partial(_unrolled, "paper-zero-field"), _ablated, ("paper-zero-field",)),
    Method("ens-gradient", "learned", "ENS on the gradient", PURPLE, "^", "--",
           partial(_unrolled, "paper-gradient"), _ablated, ("paper-gradient",)),
    Method("ens-residual-loss", "learned", "ENS, residual loss", GREEN, "<", ":",
           partial(_unrolled, "paper-residual-loss"), _ablated, ("paper-residual-loss",)),
    *map(_ablation, BACKBONES.values()),
    Method("fno", "learned", "FNO", GREEN, "^", "--", partial(_operator, "fno"), recipes=("fno",),
           moving_label="FNO-3D", printed="FNO"),
    Method("fno-h1", "learned", "FNO-3D, H¹ loss", STRAW, "^", ":", partial(_operator, "fno-h1"),
           _on_flows, ("fno-h1",)),
    Method("pino", "learned", "PINO", ORANGE, "s", "--", partial(_operator, "pino"),
           recipes=("pino",), moving_label="PINO-3D", printed="PINO"),
    Method("pino-ttop", "optimised", "PINO(TTOP)", BROWN, "X", "-.", partial(_optimised, "pino"),
           recipes=("pino",), samples=PER_NETWORK, moving_samples=PER_SAMPLE,
           moving_label="PINO-3D(TTOP)", printed="PINO(TTOP)"),
    Method("poseidon", "learned", "POSEIDON", FOREST, "h", ":", partial(_operator, "poseidon"),
           recipes=("poseidon",), printed="POSEIDON"),
    Method("operator", "learned", "CNN-FNO-CNN", SKY, "^", "--", partial(_operator, "operator"),
           _matched, ("operator",), moving_label="transformer", table="matched"),
    Method("operator-pino", "learned", "CNN-FNO-CNN(PINO)", INDIGO, "v", ":",
           partial(_operator, "operator-pino"), _matched, ("operator-pino",),
           moving_label="transformer(PINO)", table="matched"),
    Method("operator-ttop", "optimised", "CNN-FNO-CNN(TTOP)", OLIVE, "X", "-.",
           partial(_optimised, "operator-pino"), _matched, ("operator-pino",), PER_SAMPLE,
           None, "transformer(TTOP)", table="matched"),
    Method("operator-cnn", "learned", "CNN-FNO-CNN", YELLOW, "s", "--",
           partial(_operator, "operator-cnn"), _on_flows, ("operator-cnn",), table="matched"),
    Method("diffusion-pde", "generative", "DiffusionPDE", SKY, "p", "--",
           partial(_generated, "diffusion-pde", GUIDED_STEPS), _denoised, samples=PER_SAMPLE,
           printed="DiffusionPDE", denoisers=("palette",)),
    Method("pcfm", "generative", "PCFM", INDIGO, "h", "-.", partial(_generated, "pcfm", 50),
           _denoised, samples=PER_SAMPLE, printed="PCFM", denoisers=("palette",)),
    Method("pinn", "optimised", "PINN", GREY, "P", "--", _pinn, _nonlinear, samples=PER_SAMPLE),
    Method("gradient-descent", "classical", "gradient descent", TEAL, ">", ":",
           lambda setting: GradientDescent(), _static, table="newton"),
    Method("newton", "classical", "Newton", WINE, "8", "-.", lambda setting: Newton(), _static,
           samples=PER_INSTANCE, table="newton"),
    *(Method(f"newton-from-{start}", "classical", f"Newton{words}", WINE, marker, line,
             partial(_from, Newton(), start), _nonlinear, recipes, PER_INSTANCE,
             table="newton")
      for start, words, marker, line, recipes in (
          ("noise", " from noise", "P", ":", ()),
          ("prediction", " from the prediction", "s", "-", ("paper",)),
          ("noised-prediction", ", noised prediction", "p", "--", ("paper",)))),
    Method("gauss-newton", "classical", "Gauss-Newton", SAND, "<", ":",
           lambda setting: GaussNewton(), _static, samples=PER_INSTANCE, table="newton"),
    *(Method(f"gauss-newton-from-{start}", "classical", f"Gauss-Newton{words}", SAND, marker, line,
             partial(_from, GaussNewton(), start), _nonlinear, recipes, PER_INSTANCE,
             table="newton")
      for start, words, marker, line, recipes in (
          ("noise", " from noise", "P", ":", ()),
          ("prediction", " from the prediction", "D", "-", ("paper",)),
          ("noised-prediction", ", noised prediction", "h", "--", ("paper",)))),
    *(Method(f"integrator-{n}", "classical", f"classical solver, {n} × {n}", BLACK, f"${n}$", "-",
             partial(_integrator, n), _on_flows) for n in COARSE_GRIDS),
    Method("reference", "classical", "classical solver", BLACK, "*", ":",
           lambda setting: ReferenceSolver()),
    Method("still", "bound", "still flow", GREY, "1", ":",
           lambda setting: Answer(lambda problem: problem.first_guess()), _on_flows),
    Method("truth", "bound", "ground truth (floor)", GREY, "_", ":", None, _everywhere),
    Method("zero", "bound", "zero field", GREY, "|", ":",
           lambda setting: Answer(lambda problem: problem.zeros()), _everywhere),
):
    register(_method)
# fmt: on


def register_backbone(row: Backbone, model: str, **sizes: Mapping[str, Any]) -> Method:
    """Make a backbone known: a recipe that trains ENS with it, and the method that compares it."""
    backbone(row, model, **sizes)
    return register(_ablation(row))


def methods_of(experiment: Experiment) -> list[Method]:
    """The methods that are compared in an experiment, in the order of every legend."""
    return [method for method in METHODS.values() if method.where(experiment)]


def official_steps(method: str, experiment: str) -> int | None:
    """The steps per instance of the official schedule, of a method that optimises each."""
    if method not in METHODS or METHODS[method].kind != "optimised":
        return None
    if method == "pinn":
        return PINN.steps
    flow = experiment in EXPERIMENTS and moving(EXPERIMENTS[experiment].equation)
    return int(FLOW_OPTIMISATION["steps"]) if flow else TestTimeOptimisation.steps


def method_named(key: str) -> Method:
    """The method called `key`."""
    if key not in METHODS:
        raise InvalidInput("method", f"one of {', '.join(METHODS)}", key)
    return METHODS[key]
