"""Models and training states on disk: safetensors and JSON, written atomically, never unpickled.

A model is a folder:

    model.safetensors    the weights
    card.json            what they are: equation, networks, how trained, measured errors, and the
                         SHA-256 of the weights; written last, so a folder with a card is complete

A training state is one safetensors file whose header holds the counters: one rename replaces it, so
weights, optimiser and position can never be of different moments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from neuralsolver.equations import Equation, equation_named
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import read_regular, write_whole
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.training.card import (
    CARD,
    FORMAT,
    LARGEST_CARD,
    NETWORKS,
    check_sizes,
    check_weights,
    describe_networks,
    read_card,
    rebuild_networks,
    stored_part,
)

__all__ = [
    "CARD", "WEIGHTS", "Card", "load_corrector", "load_model", "load_state", "read_card",
    "save_model", "save_state",
]  # fmt: skip

WEIGHTS = "model.safetensors"
WAVES = "wave-corrector"
"""The kind on the card of a network of waves."""
LARGEST_STATE = 2**40


@dataclass(frozen=True)
class Card:
    """What a trained model is. `record` holds how it came about and what it measured."""

    equation: Equation
    resolution: int
    record: Mapping[str, Any]


def save_model(folder: Path, model: nn.Module, card: Card, *, half: bool = False) -> None:
    """Write a model folder; a reader sees the old model, the new one or none, never a mixture.

    With `half` the weights are rounded to float16 on disk; a model always computes in float32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).unlink(missing_ok=True)
    kind, described = describe_networks(model)
    weights = {}
    for name, tensor in stored_part(model).state_dict().items():
        values = tensor.detach().half() if half and tensor.is_floating_point() else tensor.detach()
        weights[name] = values.contiguous()
    data = safetensors.torch.save(weights)
    write_whole(folder / WEIGHTS, data)
    description = {
        "format": FORMAT,
        "kind": kind,
        "equation": {"name": card.equation.name, "constants": card.equation.constants()},
        "resolution": card.resolution,
        "solver": described,
        "sha256": hashlib.sha256(data).hexdigest(),
        **card.record,
    }
    write_whole(folder / CARD, (json.dumps(description, indent=1) + "\n").encode())


_STRUCTURE = ("format", "kind", "equation", "resolution", "solver", "sha256")


def load_model(folder: Path) -> tuple[Any, Card]:
    """Module and card of a model folder, checked to be whole and ours before anything is built."""
    card = read_card(folder)
    kind, solver = card.get("kind", "neural-solver"), card["solver"]
    arguments = {name: (solver[name] or {}).get("arguments", {}) for name in NETWORKS[kind]}

    make = partial(rebuild_networks, kind, solver, folder)
    model = _restored(folder, card["sha256"], arguments, make)
    equation = equation_named(card["equation"]["name"], card["equation"]["constants"])
    record = {name: value for name, value in card.items() if name not in _STRUCTURE}
    return model, Card(equation, int(card["resolution"]), record)


def load_corrector(folder: str | Path) -> WaveCorrector:
    """A trained network of waves.

    Args:
        folder: With its card and weights.

    Returns:
        The network in single precision, ready to evaluate.

    Raises:
        FileDamaged: Card and weights do not fit each other or are of another kind.
    """
    place = Path(folder)
    if not (place / CARD).is_file():
        raise InvalidInput("network", f"a folder with {CARD}", str(folder))
    try:
        card = json.loads(read_regular(place / CARD, LARGEST_CARD))
        if (card["format"], card["kind"]) != (FORMAT, WAVES):
            raise ValueError(f"{card['kind']} of format {card['format']}")
        arguments, digest = dict(card["arguments"]), str(card["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileDamaged(str(place), "the card of a wave corrector", str(error)[:200]) from None
    make = partial(WaveCorrector, **arguments)
    network: WaveCorrector = _restored(place, digest, {"network": arguments}, make)
    return network


def _restored(
    folder: Path,
    digest: str,
    arguments: Mapping[str, Mapping[str, Any]],
    make: Callable[[], nn.Module],
) -> Any:
    """What `make` builds, with the weights of a folder."""
    try:
        data = read_regular(folder / WEIGHTS, LARGEST_STATE)
    except FileNotFoundError:
        expected = "the weights of the card beside it"
        raise FileDamaged(str(folder / WEIGHTS), expected, "no file") from None
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise FileDamaged(str(folder / WEIGHTS), "the SHA-256 of its card", f"{found[:12]}…")
    try:
        weights = safetensors.torch.load(data)
        check_sizes(str(folder), arguments, weights)
        with torch.device("meta"), _Unfilled():
            check_weights(str(folder), stored_part(make()), weights)
        with torch.device("cpu"):
            model = make()
        stored_part(model).load_state_dict(weights)
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # arguments of the right type and size may still make no network
        expected = "a card and weights that fit each other"
        got = f"{type(error).__name__}: {error}"
        raise FileDamaged(str(folder), expected, got[:200]) from None
    return model.eval()


class _Unfilled(TorchFunctionMode):
    """Draws no random weights: on "meta" that would import a compiler, which takes a second."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def save_state(path: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
    """Replace a training state in one rename."""
    metadata = {"counters": json.dumps(dict(counters))}
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(tensors, metadata)
    # the checksum is in the file itself: a state has no card beside it
    write_whole(path, hashlib.sha256(data).digest() + data)


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and counters of a training state."""
    content = read_regular(path, LARGEST_STATE)
    digest, data = content[:32], content[32:]
    if hashlib.sha256(data).digest() != digest:
        raise FileDamaged(str(path), "a complete training state", f"{len(content)} bytes")
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        return safetensors.torch.load(data), json.loads(header["__metadata__"]["counters"])
    except (ValueError, KeyError, TypeError) as error:
        raise FileDamaged(str(path), "a training state of this package", str(error)) from None
