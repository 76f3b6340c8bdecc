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

import safetensors
import safetensors.torch
from torch import Tensor, nn

from neuralsolver.equations import Equation, equation_named
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.training.kinds import KINDS, kind_of

FORMAT = 1
WEIGHTS, CARD = "model.safetensors", "card.json"


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
    """Read a model folder, checking that it is whole and ours: the module and its card."""
    description = read_card(folder)
    try:
        data = (folder / WEIGHTS).read_bytes()
    except FileNotFoundError:
        raise FileDamaged(
            str(folder / WEIGHTS), "the weights of the card beside it", "no file"
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != description.get("sha256"):
        raise FileDamaged(str(folder / WEIGHTS), "the SHA-256 of its card", f"{digest[:12]}…")
    try:
        kind = KINDS[description.get("kind", "neural-solver")]
        model = kind.rebuild(dict(description["solver"]), folder)
        kind.own(model).load_state_dict(safetensors.torch.load(data))
        named = description["equation"]
        card = Card(
            equation_named(named["name"], named["constants"]),
            int(description["resolution"]),
            {k: v for k, v in description.items() if k not in _STRUCTURE},
        )
    except (KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        expected = "a card and weights that fit each other"
        raise FileDamaged(str(folder), expected, f"{type(error).__name__}: {error}") from None
    return model.eval(), card


_STRUCTURE = ("format", "kind", "equation", "resolution", "solver", "sha256")


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a model folder as plain values."""
    path = folder / CARD
    try:
        description = json.loads(path.read_text())
    except FileNotFoundError:
        raise InvalidInput("model", f"a folder with {CARD}", str(folder)) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileDamaged(str(path), "JSON", str(error)) from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        got = description.get("format") if isinstance(description, dict) else "something else"
        raise FileDamaged(str(path), f"a card of format {FORMAT}", got)
    return description


def save_state(path: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
    """Replace a training state in one rename."""
    metadata = {"counters": json.dumps(dict(counters))}
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(tensors, metadata)
    # the checksum is in the file itself: a state has no card beside it
    write_whole(path, hashlib.sha256(data).digest() + data)


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and counters of a training state."""
    content = path.read_bytes()
    digest, data = content[:32], content[32:]
    if hashlib.sha256(data).digest() != digest:
        raise FileDamaged(str(path), "a complete training state", f"{len(content)} bytes")
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return safetensors.torch.load(data), json.loads(header["__metadata__"]["counters"])
