"""The card of a model and the header of its weights, read with suspicion.

Both come from a file that anybody may have written, so that nothing is built before they are known
to fit each other: every field of the card has a type and a range, and every whole number that sizes
a network is at most as large as the weights that are really there. While networks are built, they
get no more memory than such weights need (`Allowance`); then each of their weights is compared with
the header by name, shape and type.
"""

from __future__ import annotations

import json
import math
import os
import platform
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import read_regular
from neuralsolver.limits import RESOLUTION, Choice, Float, Int, Limit
from neuralsolver.solvers.error_signals import ERROR_SIGNALS
from neuralsolver.solvers.neural_solver import READABLE

FORMAT = 1
CARD = "card.json"
LARGEST_CARD = 2**22
LARGEST_HEADER = 2**24
SMALL = 64
"""No whole number up to this makes a network large."""

SOLVER_FIELDS: dict[str, Limit] = {
    "step_size": Float(-1e6, 1e6),
    "error": Choice(ERROR_SIGNALS),
    "smoothing": Int(0, 1000),
}
NETWORKS = {
    "neural-solver": ("predictor", "corrector"),
    "denoiser": ("network",),
    "error-conditioned": ("network",),
    "inversion": ("network",),
}
"""The networks of every kind of model."""
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
         "BOOL": 1, "C64": 8}  # fmt: skip
TORCH_NAMES = {
    "torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16",
    "torch.bfloat16": "BF16", "torch.int64": "I64", "torch.int32": "I32", "torch.bool": "BOOL",
    "torch.complex64": "C64",
}  # fmt: skip


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
    CHECKS[kind](solver)


def _check_denoiser(denoiser: Mapping[str, Any]) -> None:
    sizes = _mapping("sizes", denoiser["sizes"])
    (first, second), (one, other) = sizes["law"], sizes["prior"]
    for value in (*first, *second, one, other):
        Float(-1e6, 1e6).read("sizes", value)


def _check_base(denoiser: Mapping[str, Any]) -> None:
    name = Choice().read("base", denoiser["base"])
    if Path(name).name != name or name in ("", ".", ".."):
        raise InvalidInput("base", "the name of a folder beside this one", name[:60])


def _check_solver(solver: Mapping[str, Any]) -> None:
    for name, limit in SOLVER_FIELDS.items():
        limit.read(name, solver[name])
    if solver.get("clock_steps") is not None:
        Int(1, 10**6).read("clock_steps", solver["clock_steps"])
    for reads in ("predictor_reads", "corrector_reads"):
        if not isinstance(solver[reads], list):
            raise InvalidInput(reads, "a list", solver[reads])
        for name in solver[reads]:
            Choice(READABLE).read(reads, name)


CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "neural-solver": _check_solver,
    "denoiser": _check_denoiser,
    "error-conditioned": _check_base,
    "inversion": lambda network: None,
}


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(name, "names and values", str(value)[:60])
    return value


Header = dict[str, tuple[str, tuple[int, ...]]]
"""Of each weight its type and its shape."""


def read_header(path: Path) -> Header:
    """The header of a safetensors file, checked against the size of the file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise FileDamaged(str(path), "the weights of the card beside it", "no file") from None
    if not stat.S_ISREG(found.st_mode):
        raise FileDamaged(str(path), "a regular file", "a folder, a pipe or a device")
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(LARGEST_HEADER, found.st_size):
                raise ValueError(f"a header of {length} bytes")
            described = json.loads(file.read(length))
        described.pop("__metadata__", None)
        header = {name: _entry(entry) for name, entry in described.items()}
        used = sum(BYTES[kind] * math.prod(shape) for kind, shape in header.values())
        if used != found.st_size - 8 - length:
            raise ValueError(f"{found.st_size} bytes")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileDamaged(str(path), "a whole safetensors file", str(error)[:100]) from None
    return header


def _entry(entry: Any) -> tuple[str, tuple[int, ...]]:
    shape = tuple(Int(1).read("shape", size) for size in entry["shape"])
    return Choice(tuple(BYTES)).read("dtype", entry["dtype"]), shape


def check_sizes(field: str, card: Mapping[str, Any], header: Header) -> None:
    """Raise FileDamaged when a number on the card could make more than the weights there are."""
    largest = max((size for _, shape in header.values() for size in shape), default=0)
    most = max(SMALL, largest, len(header))
    for network in NETWORKS[card.get("kind", "neural-solver")]:
        described = card["solver"][network] or {}
        for name, value in described.get("arguments", {}).items():
            values = value if isinstance(value, list) else [value]
            for number in values:
                if isinstance(number, (int, float)) and not -1 <= number <= most:
                    expected = f"{network} {name} of at most {most}, as the weights"
                    raise FileDamaged(field, expected, str(number)[:60])
            if len(values) > most or isinstance(value, dict):
                raise FileDamaged(field, f"a plain value for {network} {name}", str(value)[:60])


class Allowance(TorchFunctionMode):
    """As long as it lasts, tensors of at most this many bytes in all can be made."""

    def __init__(self, bytes_left: int) -> None:
        super().__init__()
        self.bytes_left = bytes_left

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in FACTORIES:
            sizes = args[0] if args and isinstance(args[0], (tuple, list)) else args
            self.bytes_left -= 4 * math.prod(size for size in sizes if isinstance(size, int))
            if self.bytes_left < 0:
                raise InvalidInput("card", "networks as small as their weights", "larger ones")
        return function(*args, **(kwargs or {}))


FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full)


def allowance(header: Header) -> Allowance:
    """Enough for networks of these weights and what they keep beside them."""
    used = sum(BYTES[kind] * math.prod(shape) for kind, shape in header.values())
    return Allowance(4 * used + 2**26)


def check_weights(field: str, networks: nn.Module, header: Header) -> None:
    """Raise FileDamaged unless the networks have exactly the weights of the header, which may be
    stored in half precision."""
    header = {n: ("F32" if kind == "F16" else kind, shape) for n, (kind, shape) in header.items()}
    expected = {
        name: (TORCH_NAMES.get(str(tensor.dtype), str(tensor.dtype)), tuple(tensor.shape))
        for name, tensor in networks.state_dict().items()
    }
    if expected != header:
        differing = sorted(
            name for name in {*expected, *header} if expected.get(name) != header.get(name)
        )
        names = ", ".join(differing[:3])
        raise FileDamaged(
            field, "a card and weights that fit each other", f"differences in {names}"
        )


def machine() -> str:
    """Where a number was measured, in a few words."""
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
