"""The kinds of models that can be stored, by the name on their card.

neural-solver       predictor and corrector
denoiser            a network in EDM's units that is told of sensors
error-conditioned   Diffusion ENS over a denoiser, which is stored in a folder beside it
inversion           a corrector that reads the mismatch of wells
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuralsolver import models
from neuralsolver.errors import InvalidInput
from neuralsolver.inversion.corrector import Corrector
from neuralsolver.samplers.conditions import Sizes
from neuralsolver.samplers.denoiser import Denoiser
from neuralsolver.samplers.diffusion_ens import ErrorConditionedDenoiser
from neuralsolver.solvers.neural_solver import NeuralSolver


@dataclass(frozen=True)
class Kind:
    """How models of one type become plain values and weights, and come back."""

    name: str
    type: type[nn.Module]
    describe: Callable[[Any], dict[str, Any]]
    rebuild: Callable[[dict[str, Any], Path], nn.Module]
    own: Callable[[Any], nn.Module] = lambda model: model
    """The part whose weights are stored with it."""


def kind_of(model: nn.Module) -> Kind:
    """The kind of a model."""
    for kind in KINDS.values():
        if type(model) is kind.type:
            return kind
    raise InvalidInput("model", f"one of {', '.join(KINDS)}", type(model).__name__)


def _describe_solver(solver: NeuralSolver) -> dict[str, Any]:
    return {
        "step_size": solver.step_size,
        "error": solver.error,
        "predictor_reads": list(solver.predictor_reads),
        "corrector_reads": list(solver.corrector_reads),
        "smoothing": solver.smoothing,
        "clock_steps": solver.clock_steps,
        "predictor": _describe(solver.predictor),
        "corrector": _describe(solver.corrector),
    }


def _rebuild_solver(settings: dict[str, Any], folder: Path) -> NeuralSolver:
    predictor = _rebuild(settings.pop("predictor"))
    return NeuralSolver(predictor, _rebuild(settings.pop("corrector")), **settings)


def _describe_denoiser(denoiser: Denoiser) -> dict[str, Any]:
    return {"network": _describe(denoiser.network), "sizes": asdict(denoiser.sizes)}


def _rebuild_denoiser(settings: dict[str, Any], folder: Path) -> Denoiser:
    sizes = settings["sizes"]
    first, second = (tuple(law) for law in sizes["law"])
    return Denoiser(_network(settings["network"]), Sizes(tuple(sizes["prior"]), (first, second)))


def _describe_error_conditioned(model: ErrorConditionedDenoiser) -> dict[str, Any]:
    return {"network": _describe(model.network), "base": model.base_name}


def _rebuild_error_conditioned(settings: dict[str, Any], folder: Path) -> nn.Module:
    from neuralsolver.training.checkpoint import load_model

    base = load_model(folder.parent / settings["base"])[0]
    return ErrorConditionedDenoiser(base, _network(settings["network"]), settings["base"])


def _describe_corrector(model: Corrector) -> dict[str, Any]:
    arguments = {"widths": list(model.widths), "signal": model.signal}
    return {"network": {"model": "well-corrector", "arguments": arguments}}


def _rebuild_corrector(settings: dict[str, Any], folder: Path) -> Corrector:
    return Corrector(**settings["network"]["arguments"])


KINDS = {
    kind.name: kind
    for kind in (
        Kind("neural-solver", NeuralSolver, _describe_solver, _rebuild_solver),
        Kind("denoiser", Denoiser, _describe_denoiser, _rebuild_denoiser),
        Kind(
            "error-conditioned",
            ErrorConditionedDenoiser,
            _describe_error_conditioned,
            _rebuild_error_conditioned,
            lambda model: model.network,
        ),
        Kind("inversion", Corrector, _describe_corrector, _rebuild_corrector),
    )
}


def _describe(network: nn.Module | None) -> dict[str, Any] | None:
    if network is None:
        return None
    return {"model": models.name_of(network), "arguments": network.arguments}


def _rebuild(description: dict[str, Any] | None) -> nn.Module | None:
    return None if description is None else _network(description)


def _network(description: dict[str, Any]) -> nn.Module:
    with torch.random.fork_rng():  # the initial weights are overwritten
        return models.build(description["model"], **description["arguments"])
