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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor, nn

from neuralsolver.equations import Equation, equation_named
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import read_regular, write_whole
from neuralsolver.training.card import (
    CARD,
    FORMAT,
    allowance,
    check_sizes,
    check_weights,
    read_card,
    read_header,
)
from neuralsolver.training.kinds import KINDS, kind_of

__all__ = [
    "CARD", "WEIGHTS", "Card", "load_model", "load_state", "read_card", "save_model", "save_state",
]  # fmt: skip

WEIGHTS = "model.safetensors"
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
    kind = kind_of(model)
    weights = {}
    for name, tensor in kind.own(model).state_dict().items():
        values = tensor.detach().half() if half and tensor.is_floating_point() else tensor.detach()
        weights[name] = values.contiguous()
    data = safetensors.torch.save(weights)
    write_whole(folder / WEIGHTS, data)
    description = {
        "format": FORMAT,
        "kind": kind.name,
        "equation": {"name": card.equation.name, "constants": card.equation.constants()},
        "resolution": card.resolution,
        "solver": kind.describe(model),
        "sha256": hashlib.sha256(data).hexdigest(),
        **card.record,
    }
    write_whole(folder / CARD, (json.dumps(description, indent=1) + "\n").encode())


def load_model(folder: Path) -> tuple[Any, Card]:
    """Module and card of a model folder, checked to be whole and ours before anything is built."""
    description = read_card(folder)
    header = read_header(folder / WEIGHTS)
    check_sizes(str(folder), description, header)
    try:
        kind = KINDS[description.get("kind", "neural-solver")]
        with allowance(header):
            model = kind.rebuild(dict(description["solver"]), folder)
        check_weights(str(folder), kind.own(model), header)
        data = (folder / WEIGHTS).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != description["sha256"]:
            raise FileDamaged(str(folder / WEIGHTS), "the SHA-256 of its card", f"{digest[:12]}…")
        kind.own(model).load_state_dict(safetensors.torch.load(data))
        named = description["equation"]
        card = Card(
            equation_named(named["name"], named["constants"]),
            int(description["resolution"]),
            {k: v for k, v in description.items() if k not in _STRUCTURE},
        )
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # arguments of the right type and size may still make no network
        expected = "a card and weights that fit each other"
        got = f"{type(error).__name__}: {error}"
        raise FileDamaged(str(folder), expected, got[:200]) from None
    return model.eval(), card


_STRUCTURE = ("format", "kind", "equation", "resolution", "solver", "sha256")


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
