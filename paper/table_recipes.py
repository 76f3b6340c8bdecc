"""Trainings that only the tables of the paper compare, registered with the library on import.

paper-brief      the paper's recipe for no longer than every baseline beside it
paper-…          the paper's ablations: another error signal, another backbone, a residual term in
                 the loss                                                            (App. D)
fno-h1           on trajectories, where fno has the relative L² loss, the H¹ loss of its authors
operator, …      the network of ENS trained as such: the matched-backbone rows       (Tab. 9)
poseidon         scOT from the beginning with the relative L¹ loss, on trajectories for pairs of
                 frames; fine-tuned where published weights are given                (Sec. C.4)
…-cnn            on trajectories, the convolutional network in the transformer's place

Their error signals and their loss:

    zero_field           e = 0,         ρ = γ           no error feedback
    residual_gradient    e = h²Jᵀr,     ρ = γ           conditioning on ∇ ½‖r‖²
    reconstruction_and_residual         reconstruction + 10⁻² ‖F(û⁽ᵏ⁾)‖²/‖F(g)‖²
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from neuralsolver.models import MODELS
from neuralsolver.solvers.error_signals import ERROR_SIGNALS, unit
from neuralsolver.solvers.loop import State
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.objectives import OBJECTIVES, Batch, squared_norm
from neuralsolver.training.plan import Plan
from neuralsolver.training.presets import (
    PLANS,
    PRESETS,
    STATE,
    Preset,
    kolmogorov,
    moving,
    network,
    static,
    varying,
)
from neuralsolver.training.warm_start import BEGINNINGS
from paper.baselines.minimisers import gradient
from paper.baselines.poseidon import Poseidon
from paper.baselines.poseidon_training import PublishedWeights, all_to_all, relative_l1
from paper.baselines.scot import SIZES

RESIDUAL_WEIGHT = 1e-2
"""Relative residuals are of order one when errors are of order 1e-2: the two terms weigh alike."""


def reconstruction_and_residual(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """The reconstruction loss with the residual of every prediction as a second aim."""
    problem, weight = batch.problem, RESIDUAL_WEIGHT / (batch.steps + 1)
    size = squared_norm(problem.residual(problem.first_guess()))
    u, step = solver.predict(problem), solver.stepper()
    for number in range(batch.steps + 1):
        if number:
            u = step(State.of(problem, u.detach()))
        error = (u - batch.target).square().mean() / (batch.steps + 1)
        yield error + weight * (squared_norm(problem.residual(u)) / size).mean()


def zero_field(now: State) -> tuple[Tensor, Tensor]:
    """Nothing: the corrector works blind."""
    return torch.zeros_like(now.u), unit(now)


def residual_gradient(now: State) -> tuple[Tensor, Tensor]:
    """The gradient of half the squared residual with respect to u, in the units of the residual.

    J is a second derivative: without the h² inputs would be of size 1e5, on which nothing trains.
    """
    return max(now.problem.grid.spacing) ** 2 * gradient(now), unit(now)


MODELS["poseidon"] = Poseidon
BEGINNINGS["poseidon"] = PublishedWeights
ERROR_SIGNALS |= {"zero_field": zero_field, "residual_gradient": residual_gradient}
OBJECTIVES |= {
    "reconstruction_and_residual": reconstruction_and_residual,
    "relative_l1": relative_l1,
    "all_to_all": all_to_all,
}

# fmt: off
# usual inputs: a permeability of 3 or 12, a source, a vorticity of each flow
for _where, _usual in (
    (varying, {"input_mean": 7.5, "input_size": 4.5}),
    (static, {"input_size": 25.0}),
    (kolmogorov, {"input_size": 4.0, "output_size": 4.0}),
    (moving, {"input_size": 0.4, "output_size": 0.4}),
):
    network("scot", "paper", "poseidon", _where, **SIZES["B"], **_usual)
    network("scot", "small", "poseidon", _where, image_size=64, width=32, depths=[2, 2, 2],
            heads=[2, 4, 8], skips=[1, 1, 0], window=8, **_usual)
    network("scot", "tiny", "poseidon", _where, image_size=16, patch=2, width=8, depths=[2, 2],
            heads=[1, 2], skips=[1, 0], window=4, **_usual)

PLANS |= {
    "unroll-residual": Plan("reconstruction_and_residual", 1, learning_rate=4e-3),
    # the same for a predictor alone
    "data-refined": Plan("reconstruction", 1, batch_size=4, unroll=0, shortest_unroll=0,
                         learning_rate=1.5e-3, ema=0.99, symmetries=True, bfloat16=True,
                         checkpoint_seconds=120.0, validate_seconds=90.0),
    "data-moving": Plan("relative_l2", 1, unroll=0, shortest_unroll=0, learning_rate=1.5e-3,
                        **STATE),
    "physics-moving": Plan("physics_informed", 1, unroll=0, shortest_unroll=0,
                           learning_rate=1.5e-3, **STATE),
    "fields": Plan("relative_l1", 1, unroll=0, shortest_unroll=0, learning_rate=3e-3, clip=5.0,
                   weight_decay=1e-6),
    "pairs-of-frames": Plan("all_to_all", 1, unroll=0, shortest_unroll=0, learning_rate=3e-3,
                            clip=5.0, weight_decay=1e-6, **STATE),
    "data-space-time-h1": Plan("relative_h1", 1, batch_size=2, unroll=0, shortest_unroll=0,
                               learning_rate=2e-3, **STATE),
}
PRESETS += [
    Preset("paper-brief", static, "cnn", "cnn", "unroll", warm=0.4),
    Preset("paper-zero-field", static, "cnn", "cnn", "unroll", error="zero_field", warm=0.75),
    Preset("paper-gradient", static, "cnn", "cnn", "unroll", error="residual_gradient", warm=0.75),
    Preset("paper-residual-loss", static, "cnn", "cnn", "unroll-residual", warm=0.75),
    Preset("operator", static, "cnn", None, "data"),
    Preset("operator-pino", static, "cnn", None, "physics"),
    Preset("poseidon", static, "scot", None, "fields"),
    Preset("contractive-cnn", moving, None, "cnn", "contract-moving",
           error="integrated_residual", reads="jacobian", step_size=1.0, places=False,
           finish="finish-moving"),
    Preset("paper-cnn", kolmogorov, "cnn", "cnn", "unroll-moving", places=False),
    Preset("paper-cnn", moving, "cnn", "cnn", "unroll-moving", step_size=0.1, places=False),
    Preset("fno-h1", moving, "fno-3d", None, "data-space-time-h1"),
    Preset("poseidon", moving, "scot", None, "pairs-of-frames"),
    Preset("operator", moving, "refined", None, "data-refined"),
    Preset("operator-cnn", moving, "cnn", None, "data-moving"),
    Preset("operator-pino", moving, "transformer", None, "physics-moving"),
]
# fmt: on


BACKBONES: dict[str, str] = {}
"""The networks tried inside the paper's ENS, and their names there."""


def backbone(key: str, label: str, model: str, **sizes: Mapping[str, Any]) -> None:
    """Add a backbone: recipe paper-<key>, with arguments for each scale, and method ens-<key>."""
    BACKBONES[key] = label
    for scale, arguments in sizes.items():
        network(f"ens-{key}", scale, model, **arguments)
    PRESETS.append(Preset(f"paper-{key}", static, f"ens-{key}", f"ens-{key}", "unroll", warm=0.75))


for _label, _lifting, _projection in (
    ("FNO", "pointwise", "pointwise"),
    ("CNN-FNO", "cnn", "pointwise"),
    ("FNO-CNN", "pointwise", "cnn"),
):
    _ends = {"lifting": _lifting, "projection": _projection}
    backbone(
        _label.lower(),
        _label,
        "fno",
        paper={"width": 64, "layers": 4, "max_wavenumber": [10, 10], **_ends},
        small={"width": 24, "layers": 4, "max_wavenumber": [8, 8], **_ends},
        tiny={"width": 8, "layers": 2, "max_wavenumber": [4, 4], **_ends},
    )
_multipliers = {"width": 8, "multipliers": [1, 2]}
backbone("unet", "U-net", "unet", paper={"width": 64}, small={"width": 16}, tiny=_multipliers)
