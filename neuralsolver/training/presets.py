"""Every training as flat tables: the scales, the networks and their sizes, the plans, the presets.

A preset says for one recipe and the equations it suits which networks make the solver, what they
read, what is minimised and for how long. The first row whose `where` is true of an equation counts,
so an equation of your own trains like those that declare the same.

contractive      scaled residual, contraction objective on replayed iterates; the corrector reads
                 the error and what the Jacobian depends on
paper            raw residual, reconstruction objective, K = 5, everything is read   (Sec. 4, B)
shapes           contractive on random shapes: the corrector reads which points are solved for,
                 and serves every equation −∇·(a∇u) = f
fno, pino        a plain Fourier neural operator with the relative H¹ loss, and with data and
                 residual loss                                                       (Sec. C.4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.training.plan import Plan

Where = Callable[[Equation], bool]


def anywhere(equation: Equation) -> bool:
    """Every equation."""
    return True


def static(equation: Equation) -> bool:
    """One field, no frames."""
    return not equation.frames


def moving(equation: Equation) -> bool:
    """Trajectories, whose frames are the channels of a network."""
    return equation.frames > 0


def boxed(equation: Equation) -> bool:
    """One field in three dimensions."""
    return static(equation) and equation.dimension == 3


def varying(equation: Equation) -> bool:
    """Coefficients that vary in space."""
    return static(equation) and "inputs" in equation.jacobian_depends_on


def kolmogorov(equation: Equation) -> bool:
    """The paper gives this flow a step size of its own; it has twice the frames of the other."""
    return equation.name == "kolmogorov"


OLD_NAME = "desk"
"""What the scale "small" is called in cards, rows and folders that were written earlier."""


@dataclass(frozen=True)
class Scale:
    """How large everything is. Compute is `batches`, or the same `minutes` of a core for every
    recipe that has no number of its own.

    A `warm_resolution` is the coarser grid of warm starts. `ablation_batches` are those of every
    model that trains on a coarsened grid. `effort` is the share of its official steps that a method
    which optimises each instance is given; a trajectory takes longer.
    """

    name: str
    resolution: int
    samples: int
    batch_size: int
    moving_batch_size: int
    batches: int | None = None
    minutes: float | None = None
    warm_resolution: int | None = None
    ablation_batches: int = 20
    effort: float = 1.0
    moving_effort: float = 1.0

    @property
    def written(self) -> str:
        """Its name in the names of folders: runs and results of "small" are called "desk"."""
        return OLD_NAME if self.name == "small" else self.name

    def effort_on(self, equation: Equation) -> float:
        """The share of the official optimisation steps per instance."""
        return self.moving_effort if moving(equation) else self.effort


SCALES = {
    scale.name: scale
    for scale in (
        Scale("paper", 128, 1000, 32, 24, batches=160_000, ablation_batches=160_000),
        Scale(
            "small",
            64,
            1000,
            8,
            8,
            minutes=10.0,
            warm_resolution=32,
            ablation_batches=600,
            moving_effort=0.2,
        ),
        Scale("box", 32, 240, 2, 2, minutes=7.0, warm_resolution=16),
        Scale("tiny", 16, 64, 8, 8, batches=20, effort=0.02, moving_effort=0.02),
    )
}


@dataclass(frozen=True)
class Network:
    """A model of `models` and its arguments; those that an equation determines are added."""

    model: str
    arguments: dict[str, Any]
    where: Where = anywhere


NETWORKS: dict[tuple[str, str], tuple[Network, ...]] = {}


def network(name: str, scale: str, model: str, where: Where = anywhere, **arguments: Any) -> None:
    """Add a row; of several rows of a name and scale the first that suits an equation counts."""
    NETWORKS[name, scale] = (
        *NETWORKS.get((name, scale), ()),
        Network(model, arguments, where),
    )


# fmt: off
CNN: dict[str, Any] = {"lifting": "cnn", "projection": "cnn"}
# what a contractive solver corrects with, and starts from: the latter may be smaller
network("corrector", "tiny", "fno", boxed, width=4, layers=2, max_wavenumber=[2, 2, 2], **CNN,
        cnn_layers=2)
network("corrector", "paper", "fno", width=64, layers=4, max_wavenumber=[10, 10], **CNN)
network("corrector", "small", "fno", width=24, layers=4, max_wavenumber=[10, 10], **CNN)
network("corrector", "tiny", "fno", width=8, layers=2, max_wavenumber=[4, 4], **CNN)
# in three dimensions, where it begins from nothing
network("corrector", "box", "fno", boxed, width=12, layers=4, max_wavenumber=[6, 6, 6], **CNN,
        cnn_layers=2)
network("starter", "paper", "fno", width=64, layers=4, max_wavenumber=[10, 10], **CNN)
network("starter", "small", "fno", width=16, layers=4, max_wavenumber=[8, 8], **CNN)
network("starter", "tiny", "fno", width=8, layers=2, max_wavenumber=[4, 4], **CNN)
# what reads a shape
network("gated", "paper", "gated-unet", widths=[32, 48, 64, 64, 64, 64, 64])
network("gated", "small", "gated-unet", widths=[12, 16, 24, 32, 32, 32])
network("gated", "tiny", "gated-unet", widths=[8, 8, 8])
# plain operators: "20 modes" are of each sign here, of both signs together in the ENS networks
network("fno", "paper", "fno", width=64, layers=4, max_wavenumber=[20, 19])
network("fno", "small", "fno", width=32, layers=4, max_wavenumber=[10, 10])
network("fno", "tiny", "fno", width=8, layers=2, max_wavenumber=[4, 4])
network("fno-3d", "paper", "fno", width=64, layers=4, max_wavenumber=[8, 8, 8], time_padding=3)
network("fno-3d", "small", "fno", width=16, layers=4, max_wavenumber=[6, 8, 8], time_padding=3)
network("fno-3d", "tiny", "fno", width=8, layers=2, max_wavenumber=[2, 4, 4], time_padding=1)
# the paper's ENS networks, first that of coefficients which vary in space
network("cnn", "paper", "fno", varying, width=64, layers=4, max_wavenumber=[10, 10], **CNN,
        kernel_size=5, cnn_layers=5)
network("cnn", "paper", "fno", width=64, layers=4, max_wavenumber=[10, 10], **CNN)
network("cnn", "small", "fno", static, width=24, layers=4, max_wavenumber=[8, 8], **CNN)
network("cnn", "small", "fno", width=24, layers=4, max_wavenumber=[10, 10], **CNN)
network("cnn", "tiny", "fno", width=8, layers=2, max_wavenumber=[4, 4], **CNN)
network("transformer", "paper", "hdit", patch=8, widths=[384, 768], depths=[2, 11], head_width=64,
        mapping_width=768)
network("transformer", "small", "hdit")
# without seams between patches, in fixed units: fields of size 4 and 0.4, residuals of predictions
_KOLMOGOROV: dict[str, Any] = {"units": {"inputs": 4.0, "solution": 4.0, "error": 1.0}}
_DIAGONAL: dict[str, Any] = {"units": {"inputs": 0.4, "solution": 0.4, "error": 0.02}}
for _where, _units in ((kolmogorov, _KOLMOGOROV), (moving, _DIAGONAL)):
    network("refined", "paper", "hdit", _where, patch=8, widths=[384, 768], depths=[2, 11],
            head_width=64, mapping_width=768, refinement=64, **_units)
    network("refined", "small", "hdit", _where, refinement=48, **_units)
    network("refined", "tiny", "hdit", _where, patch=2, widths=[16, 16], head_width=8,
            mapping_width=8, refinement=8, **_units)
network("transformer", "tiny", "hdit", patch=2, widths=[16, 16], head_width=8, mapping_width=8)

STATE: dict[str, Any] = {"checkpoint_seconds": 240.0, "validate_seconds": 120.0}
"""A state with the replayed trajectories is some hundred megabytes."""
PLANS: dict[str, Plan] = {
    "contract": Plan("contraction", 1, unroll=1, shortest_unroll=1, replay=True),
    "contract-box": Plan("contraction", 1, unroll=1, shortest_unroll=1, replay=True,
                         checkpoint_seconds=120.0, validate_seconds=400.0),
    "contract-shapes": Plan("contraction", 1, unroll=1, shortest_unroll=1, replay=True,
                            learning_rate=3e-3, ema=0.995),
    "unroll": Plan("reconstruction", 1, learning_rate=4e-3),
    "data": Plan("relative_h1", 1, unroll=0, shortest_unroll=0, learning_rate=4e-3),
    "physics": Plan("physics_informed", 1, unroll=0, shortest_unroll=0, learning_rate=4e-3),
    "contract-moving": Plan("contraction", 1, unroll=1, shortest_unroll=1, replay=True,
                            learning_rate=1.5e-3, **STATE),
    # a remembered trajectory was corrected by many networks, each a little different from the last:
    # together they come to errors at which one of them alone stands still; here one makes them all
    "finish-moving": Plan("contraction", 1, unroll=12, shortest_unroll=12, learning_rate=4e-4,
                          warmup=20, **STATE),
    "unroll-moving": Plan("reconstruction", 1, learning_rate=1.5e-3, **STATE),
    "unroll-refined": Plan("reconstruction", 1, batch_size=4, learning_rate=1.5e-3, ema=0.99,
                           symmetries=True, bfloat16=True, checkpoint_seconds=120.0,
                           validate_seconds=90.0),
    # of two, as PINO: an FNO in space and time takes ten times as long as the others
    "data-space-time": Plan("relative_l2", 1, batch_size=2, unroll=0, shortest_unroll=0,
                            learning_rate=2e-3, **STATE),
    "physics-space-time": Plan("physics_informed", 1, batch_size=2, unroll=0, shortest_unroll=0,
                               learning_rate=2e-3, **STATE),
}
# fmt: on
"""How each stage trains; its batches, and unless they are two its batch size, are added."""
OWN_BATCHES = (2, 4)
COMPUTE = ("batches", "budget_minutes")
FINISH_SHARE = 1 / 16
"""Batches of a last stage for each of the first; they cost as much more as they unroll."""


@dataclass(frozen=True)
class Preset:
    """One training: its recipe, where it suits, its networks, and its stages.

    Networks of a corrector and the predictor before it begin by answering zero, so that the first
    iterates are no worse than the guess: raw residuals are of size 1e2, and a corrector that
    answers them with noise leads its own training astray.

    `reads` is "everything", or "jacobian": no more than the error and what ∂F/∂u depends on, or
    "shape": the error, its coefficient and the points that are solved for. The examples of the
    last are problems on random shapes (`data.random_shapes`). A
    corrector without `places` has no coordinates: what it knows of a vortex it knows everywhere,
    and the forcing reaches it through the residual. The default `step_size` β is the paper's; it is
    close to 1/2π², the largest value the inverse of the Laplacian takes, and so the natural unit of
    a correction to a residual of unit size. `smoothing` are classical sweeps before each
    correction, a few stencils beside a network call; Darcy hardly trained without them. A clock
    shows 1 after `clock_steps` corrections.

    `warm` is the share of the compute that is spent on the coarser grid of a scale that has one;
    `finish` is the plan of a last stage. At small scale a preset may have a number of `batches`.
    `examples` multiplies the samples of a scale, for what has more to vary.
    """

    recipe: str
    where: Where
    predictor: str | None
    corrector: str | None
    plan: str
    batches: int | None = None
    error: str = "residual"
    reads: str = "everything"
    step_size: float = 0.05
    smoothing: int = 0
    places: bool = True
    clock_steps: int | None = None
    warm: float = 0.0
    finish: str | None = None
    predictor_share: float = 0.0
    examples: int = 1


# fmt: off
PRESETS: list[Preset] = [
    #      recipe         where   predictor  corrector  plan        small batches
    Preset("contractive", boxed, None, "corrector", "contract-box",
           error="scaled_residual", reads="jacobian", smoothing=2, warm=0.25),
    Preset("contractive", static, "starter", "corrector", "contract",
           error="scaled_residual", reads="jacobian", smoothing=2, warm=0.3),
    # three quarters of the batches, which on the coarser grid cost a quarter
    Preset("paper", static, "cnn", "cnn", "unroll", 4800, warm=0.75),
    Preset("fno", static, "fno", None, "data"),
    Preset("pino", static, "fno", None, "physics"),
    Preset("shapes", varying, None, "gated", "contract-shapes", 1600, error="jacobi_residual",
           reads="shape", step_size=5.0, smoothing=3, places=False, examples=2),
    Preset("contractive", moving, None, "transformer", "contract-moving", 3200,
           error="integrated_residual", reads="jacobian", step_size=1.0, places=False,
           finish="finish-moving"),
    Preset("paper", kolmogorov, "refined", "refined", "unroll-refined",
           places=False, clock_steps=5, predictor_share=0.2),
    Preset("paper", moving, "refined", "refined", "unroll-refined",
           step_size=0.1, places=False, clock_steps=5, predictor_share=0.2),
    Preset("fno", moving, "fno-3d", None, "data-space-time"),
    Preset("pino", moving, "fno-3d", None, "physics-space-time"),
]
# fmt: on


def recipes_for(equation: Equation | None = None) -> list[str]:
    """The recipes that suit an equation, or all of them."""
    suit = (row.recipe for row in PRESETS if equation is None or row.where(equation))
    return list(dict.fromkeys(suit))


def preset(recipe: str, equation: Equation) -> Preset:
    """The row of a recipe that suits an equation."""
    for row in PRESETS:
        if row.recipe == recipe and row.where(equation):
            return row
    known = ", ".join(recipes_for(equation))
    raise InvalidInput("recipe", f"one of {known} for {equation.name}", recipe)


def network_row(name: str, scale: Scale, equation: Equation) -> Network:
    """The network called `name` at a scale, as it suits an equation."""
    rows = [row for row in NETWORKS.get((name, scale.name), ()) if row.where(equation)]
    if equation.dimension == 3:
        rows = [row for row in rows if row.where is boxed]
    if not rows:
        raise InvalidInput("scale", f"one with a {name} for {equation.name}", scale.name)
    return rows[0]


def scale_named(name: str) -> Scale:
    """The scale called `name`."""
    if name not in SCALES:
        raise InvalidInput("scale", f"one of {', '.join(SCALES)}", name)
    return SCALES[name]
