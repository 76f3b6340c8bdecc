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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers import ResidualPlateau, Solver
from neuralsolver.solvers.newton import Newton
from neuralsolver.solvers.wrappers import Answer
from neuralsolver.training.library import shipped_denoisers
from neuralsolver.training.presets import moving, static
from paper.baselines.minimisers import GaussNewton, GradientDescent
from paper.physics_informed import PINN, TestTimeOptimisation
from paper.prepare import (
    FLOAT32,
    FLOW_OPTIMISATION,
    Prepare,
    Setting,
    carried_on,
    classical_counterpart,
    contractive,
    generated,
    integrator,
    operator,
    optimised,
    pinn,
    started_from,
    unrolled,
)
from paper.regimes import EXPERIMENTS, Experiment
from paper.table_recipes import BACKBONES, backbone
from paper.versions import version_of

__all__ = ["METHODS", "Method", "Setting", "method_named", "methods_of", "register"]
"""What a method of yours needs."""


@dataclass(frozen=True)
class Method:
    """One row: its name, where it is compared, and how it is made ready to solve.

    `recipes` are the models it uses, `denoisers` those of its shipped denoisers; other weights of
    theirs, or another `version`, make its rows stale.
    `samples` limits the instances of a method that solves or optimises each by itself. On
    trajectories, which take longer, the networks are others, and so may be limit and label.
    `printed` is what the paper calls it, `table` the kind of table that it belongs to. What is not
    prepared, the truth, is measured by the evaluation itself.
    """

    key: str
    kind: str
    label: str
    prepare: Prepare | None = None
    where: Callable[[Experiment], bool] = lambda experiment: not experiment.ablation
    recipes: tuple[str, ...] = ()
    samples: int | None = None
    moving_samples: int | None = None
    moving_label: str = ""
    printed: str = ""
    table: str = "forward"
    denoisers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"kind of {self.key}", f"one of {', '.join(KINDS)}", self.kind)

    @property
    def version(self) -> str:
        """The code that computes its rows, as a hash."""
        return version_of(self.prepare)

    def label_in(self, experiment: Experiment) -> str:
        """What it is called there."""
        return (self.moving_label if moving(experiment.equation) else "") or self.label

    def samples_in(self, experiment: Experiment) -> int | None:
        """How many instances it is given there at most."""
        return (self.moving_samples if moving(experiment.equation) else None) or self.samples


LEARNED = ("learned", "optimised", "generative")
KINDS = ("bound", "classical", *LEARNED)
PER_INSTANCE, PER_NETWORK, PER_SAMPLE = 8, 16, 2
"""Instances of the methods that solve, optimise or sample each by itself; a row says how many it
has, and a trajectory takes longer."""
GUIDED_STEPS = 300
"""Steps of DiffusionPDE, whose authors take 2,000; of PCFM there are the paper's 50."""
COARSE_GRIDS = (16, 24, 32, 48, 64)
"""Grids of the reference integrator with the longest stable step: the front of the flows."""


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


def _ablation(key: str, label: str) -> Method:
    recipe = f"paper-{key}"
    prepare = partial(unrolled, recipe)
    return Method(f"ens-{key}", "learned", f"ENS, {label}", prepare, _ablated, (recipe,))


def _newton(key: str, label: str, solver: Solver) -> Iterator[Method]:
    """A minimiser from the zero field, and on nonlinear equations from its other starts."""
    starts = {"": "", "noise": " from noise", "prediction": " from the prediction"}
    starts["noised-prediction"] = ", noised prediction"
    for start, words in starts.items():
        name = f"{key}-from-{start}" if start else key
        prepare, where = partial(started_from, solver, start), _nonlinear if start else _static
        recipes = ("paper",) if "prediction" in start else ()
        about = (prepare, where, recipes, PER_INSTANCE)
        yield Method(name, "classical", f"{label}{words}", *about, table="newton")


METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known to every command, table and figure."""
    METHODS[method.key] = method
    return method


# fmt: off
for _method in (
    Method("ens", "learned", "ENS (paper's recipe)", partial(unrolled, "paper"), _everywhere,
           ("paper",), moving_label="ENS (paper's recipe), transformer", printed="ENS"),
    Method("ens-brief", "learned", "ENS (paper's recipe), equal minutes",
           partial(unrolled, "paper-brief"), _static, ("paper-brief",)),
    Method("ens-plateau", "learned", "ENS, stopped by its residual",
           partial(unrolled, "paper", stop=ResidualPlateau()), _static, ("paper",)),
    Method("ens-contractive", "learned", "ENS, contractive",
           partial(contractive, "contractive", False), recipes=("contractive",),
           moving_label="ENS, contractive, transformer"),
    Method("ens-accelerated", "learned", "ENS, accelerated",
           partial(contractive, "contractive", True), recipes=("contractive",),
           moving_label="ENS, accelerated, transformer"),
    Method("ens-contractive-cnn", "learned", "ENS, contractive, CNN-FNO-CNN",
           partial(contractive, "contractive-cnn", False), _on_flows, ("contractive-cnn",)),
    Method("without-network", "classical", "without network", classical_counterpart,
           recipes=("contractive",), moving_label="without network (Picard + Anderson)"),
    Method("without-network-plain", "classical", "without network, plain",
           partial(classical_counterpart, accelerate=False), _on_flows, ("contractive",),
           moving_label="without network (Picard)"),
    Method("ens-newton", "learned", "ENS, then Newton-Krylov", carried_on, _on_flows,
           ("contractive",)),
    Method("without-network-newton", "classical", "without network, then Newton-Krylov",
           partial(carried_on, network=False), _on_flows, ("contractive",)),
    Method("without-network-newton-long", "classical", "without network, Newton-Krylov to its end",
           partial(carried_on, network=False, tolerance=FLOAT32), _on_flows, ("contractive",),
           moving_samples=PER_INSTANCE),
    Method("without-network-lu", "classical", "without network, coarsest LU",
           partial(classical_counterpart, coarsest="trained"), _static, ("contractive",)),
    Method("without-network-multigrid", "classical", "without network, multigrid",
           partial(classical_counterpart, coarsest="few"), _static, ("contractive",)),
    Method("ens-zero-field", "learned", "ENS without the residual",
           partial(unrolled, "paper-zero-field"), _ablated, ("paper-zero-field",)),
    Method("ens-gradient", "learned", "ENS on the gradient",
           partial(unrolled, "paper-gradient"), _ablated, ("paper-gradient",)),
    Method("ens-residual-loss", "learned", "ENS, residual loss",
           partial(unrolled, "paper-residual-loss"), _ablated, ("paper-residual-loss",)),
    *(_ablation(key, label) for key, label in BACKBONES.items()),
    Method("fno", "learned", "FNO", partial(operator, "fno"), recipes=("fno",),
           moving_label="FNO-3D", printed="FNO"),
    Method("fno-h1", "learned", "FNO-3D, H¹ loss", partial(operator, "fno-h1"), _on_flows,
           ("fno-h1",)),
    Method("pino", "learned", "PINO", partial(operator, "pino"), recipes=("pino",),
           moving_label="PINO-3D", printed="PINO"),
    Method("pino-ttop", "optimised", "PINO(TTOP)", partial(optimised, "pino"), recipes=("pino",),
           samples=PER_NETWORK, moving_samples=PER_SAMPLE, moving_label="PINO-3D(TTOP)",
           printed="PINO(TTOP)"),
    Method("poseidon", "learned", "POSEIDON", partial(operator, "poseidon"),
           recipes=("poseidon",), printed="POSEIDON"),
    Method("operator", "learned", "CNN-FNO-CNN", partial(operator, "operator"), _matched,
           ("operator",), moving_label="transformer", table="matched"),
    Method("operator-pino", "learned", "CNN-FNO-CNN(PINO)", partial(operator, "operator-pino"),
           _matched, ("operator-pino",), moving_label="transformer(PINO)", table="matched"),
    Method("operator-ttop", "optimised", "CNN-FNO-CNN(TTOP)", partial(optimised, "operator-pino"),
           _matched, ("operator-pino",), PER_SAMPLE, moving_label="transformer(TTOP)",
           table="matched"),
    Method("operator-cnn", "learned", "CNN-FNO-CNN", partial(operator, "operator-cnn"), _on_flows,
           ("operator-cnn",), table="matched"),
    Method("diffusion-pde", "generative", "DiffusionPDE",
           partial(generated, "diffusion-pde", GUIDED_STEPS), _denoised, samples=PER_SAMPLE,
           printed="DiffusionPDE", denoisers=("palette",)),
    Method("pcfm", "generative", "PCFM", partial(generated, "pcfm", 50), _denoised,
           samples=PER_SAMPLE, printed="PCFM", denoisers=("palette",)),
    Method("pinn", "optimised", "PINN", pinn, _nonlinear, samples=PER_SAMPLE),
    Method("gradient-descent", "classical", "gradient descent", lambda setting: GradientDescent(),
           _static, table="newton"),
    *_newton("newton", "Newton", Newton()),
    *_newton("gauss-newton", "Gauss-Newton", GaussNewton()),
    *(Method(f"integrator-{n}", "classical", f"classical solver, {n} × {n}",
             partial(integrator, n), _on_flows) for n in COARSE_GRIDS),
    Method("reference", "classical", "classical solver", lambda setting: ReferenceSolver()),
    Method("still", "bound", "still flow",
           lambda setting: Answer(lambda problem: problem.first_guess()), _on_flows),
    Method("truth", "bound", "ground truth (floor)", None, _everywhere),
    Method("zero", "bound", "zero field",
           lambda setting: Answer(lambda problem: problem.zeros()), _everywhere),
):
    register(_method)
# fmt: on


def register_backbone(key: str, label: str, model: str, **sizes: Mapping[str, Any]) -> Method:
    """Make a backbone known: a recipe that trains ENS with it, and the method that compares it."""
    backbone(key, label, model, **sizes)
    return register(_ablation(key, label))


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
