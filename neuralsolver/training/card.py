"""The card of a model: what it says of the networks, how they are rebuilt, and what is believed.

    neural-solver       predictor and corrector
    denoiser            a network in EDM's units that is told of sensors
    error-conditioned   Diffusion ENS over a denoiser, which is stored in a folder beside it
    inversion           a corrector that reads the mismatch of wells

A card comes from a file that anybody may have written. Every field of it has a type and a range,
and every number that sizes a network is at most as large as the weights that are really there.
Networks are built on torch's device "meta" first, where they take no memory, and their weights are
compared with those of the file by name, shape and type.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver import models
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import read_regular
from neuralsolver.inversion.corrector import Corrector
from neuralsolver.limits import RESOLUTION, Choice, Float, Int
from neuralsolver.samplers.conditions import Sizes
from neuralsolver.samplers.diffusion_ens import ErrorConditionedDenoiser
from neuralsolver.samplers.palette import Denoiser
from neuralsolver.solvers.error_signals import ERROR_SIGNALS
from neuralsolver.solvers.neural_solver import READABLE, NeuralSolver

FORMAT = 1
CARD = "card.json"
LARGEST_CARD = 2**22
SMALL = 64
"""No whole number up to this makes a network large."""
NETWORKS = {
    "neural-solver": ("predictor", "corrector"),
    "denoiser": ("network",),
    "error-conditioned": ("network",),
    "inversion": ("network",),
}
"""The networks of every kind of model."""


def describe_networks(model: nn.Module) -> tuple[str, dict[str, Any]]:
    """The kind of a model, and all that determines its networks as plain values."""
    match model:
        case NeuralSolver():
            return "neural-solver", {
                "step_size": model.step_size,
                "error": model.error,
                "predictor_reads": list(model.predictor_reads),
                "corrector_reads": list(model.corrector_reads),
                "smoothing": model.smoothing,
                "clock_steps": model.clock_steps,
                "predictor": _described(model.predictor),
                "corrector": _described(model.corrector),
            }
        case Denoiser():
            return "denoiser", {
                "network": _described(model.network),
                "sizes": asdict(model.sizes),
            }
        case ErrorConditionedDenoiser():
            network = _described(model.network)
            return "error-conditioned", {"network": network, "base": model.base_name}
        case Corrector():
            arguments = {"widths": list(model.widths), "signal": model.signal}
            return "inversion", {"network": {"model": "well-corrector", "arguments": arguments}}
    raise InvalidInput("model", f"one of {', '.join(NETWORKS)}", type(model).__name__)


def _described(network: nn.Module | None) -> dict[str, Any] | None:
    if network is None:
        return None
    return {"model": models.name_of(network), "arguments": network.arguments}


def rebuild_networks(kind: str, settings: Mapping[str, Any], folder: Path) -> nn.Module:
    """The model that a card describes; its initial weights are to be overwritten."""
    named = NETWORKS[kind]
    if kind == "inversion":
        return Corrector(**settings["network"]["arguments"])
    with torch.random.fork_rng():
        built = [
            None if row is None else models.build(row["model"], **row["arguments"])
            for row in (settings[name] for name in named)
        ]
    rest = {name: value for name, value in settings.items() if name not in named}
    if kind == "neural-solver":
        return NeuralSolver(*built, **rest)
    (network,) = built
    assert network is not None
    if kind == "denoiser":
        first, second = (tuple(law) for law in rest["sizes"]["law"])
        return Denoiser(network, Sizes(tuple(rest["sizes"]["prior"]), (first, second)))
    from neuralsolver.training.checkpoint import load_model

    base = load_model(folder.parent / rest["base"])[0]
    return ErrorConditionedDenoiser(base, network, rest["base"])


def stored_part(model: Any) -> nn.Module:
    """The part of a model whose weights are stored with it."""
    part: nn.Module = model.network if isinstance(model, ErrorConditionedDenoiser) else model
    return part


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a model folder as plain values, every field of it checked."""
    path = folder / CARD
    try:
        text = read_regular(path, LARGEST_CARD).decode()
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput("model", f"a folder with {CARD}", str(folder)) from None
    except UnicodeDecodeError as error:
        raise FileDamaged(str(path), "JSON", str(error)) from None
    try:
        description = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FileDamaged(str(path), "JSON", str(error)[:100]) from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        got = description.get("format") if isinstance(description, dict) else "something else"
        raise FileDamaged(str(path), f"a card of format {FORMAT}", str(got)[:60])
    try:
        _check_fields(description)
    except (InvalidInput, KeyError, TypeError) as error:
        got = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise FileDamaged(str(path), "a card with all of its fields", got) from None
    if description.get("scale") == "desk":
        description["scale"] = "small"
    return description


def _no_number(word: str) -> None:
    raise ValueError(f"{word} in place of a number")


def _check_fields(card: Mapping[str, Any]) -> None:
    RESOLUTION.read("resolution", card["resolution"])
    Choice().read("sha256", card["sha256"])
    equation = _mapping("equation", card["equation"])
    Choice().read("equation name", equation["name"])
    _mapping("constants", equation["constants"])
    solver = _mapping("solver", card["solver"])
    kind = Choice(tuple(NETWORKS)).read("kind", card.get("kind", "neural-solver"))
    for network in NETWORKS[kind]:
        if solver[network] is not None:
            described = _mapping(network, solver[network])
            Choice().read(f"{network} model", described["model"])
            _mapping(f"{network} arguments", described["arguments"])
    if kind == "neural-solver":
        _check_solver(solver)
    elif kind == "denoiser":
        sizes = _mapping("sizes", solver["sizes"])
        (first, second), (one, other) = sizes["law"], sizes["prior"]
        for value in (*first, *second, one, other):
            Float(-1e6, 1e6).read("sizes", value)
    elif kind == "error-conditioned":
        name = Choice().read("base", solver["base"])
        if Path(name).name != name or name in ("", ".", ".."):
            raise InvalidInput("base", "the name of a folder beside this one", name[:60])


def _check_solver(solver: Mapping[str, Any]) -> None:
    Float(-1e6, 1e6).read("step_size", solver["step_size"])
    Choice(ERROR_SIGNALS).read("error", solver["error"])
    Int(0, 1000).read("smoothing", solver["smoothing"])
    if solver.get("clock_steps") is not None:
        Int(1, 10**6).read("clock_steps", solver["clock_steps"])
    for reads in ("predictor_reads", "corrector_reads"):
        if not isinstance(solver[reads], list):
            raise InvalidInput(reads, "a list", solver[reads])
        for name in solver[reads]:
            Choice(READABLE).read(reads, name)


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(name, "names and values", str(value)[:60])
    return value


def check_sizes(
    field: str, arguments: Mapping[str, Mapping[str, Any]], weights: Mapping[str, Tensor]
) -> None:
    """Raise FileDamaged when a number on the card could make more than the weights there are.

    Args:
        field: The folder, for the message.
        arguments: Of each network the arguments of its constructor.
        weights: What the file has.
    """
    largest = max((size for tensor in weights.values() for size in tensor.shape), default=0)
    most = max(SMALL, largest, len(weights))
    for network, given in arguments.items():
        for name, value in given.items():
            values = value if isinstance(value, list) else [value]
            for number in values:
                if isinstance(number, (int, float)) and not -1 <= number <= most:
                    expected = f"{network} {name} of at most {most}, as the weights"
                    raise FileDamaged(field, expected, str(number)[:60])
            if len(values) > most or isinstance(value, dict):
                raise FileDamaged(field, f"a plain value for {network} {name}", str(value)[:60])


def check_weights(field: str, networks: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raise FileDamaged unless the networks have exactly these weights, which may be stored in
    half precision."""
    own = networks.state_dict()
    differing = sorted(
        name
        for name in {*own, *weights}
        if name not in own
        or name not in weights
        or own[name].shape != weights[name].shape
        or weights[name].dtype not in (own[name].dtype, torch.float16)
    )
    if differing:
        got = f"differences in {', '.join(differing[:3])}"
        raise FileDamaged(field, "a card and weights that fit each other", got)


def machine() -> str:
    """Where a number was measured, in a few words."""
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
