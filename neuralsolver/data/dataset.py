"""A dataset: what determines it, and what is read from it.

A `DatasetSpec` names everything the content depends on, and its fingerprint is the hash of exactly
that. Sample i is drawn with the random generator of (seed, split, i, attempt) and of nothing else,
so it is the same whatever the number of samples, workers, blocks or interruptions.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations import Equation, Problem, equation_named
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.limits import RESOLUTION, SEED, Choice, Int, Limit

GENERATOR_VERSION = 1
"""Raised whenever the same description would give other numbers than before."""

DTYPE = "<f8"
SPLITS = ("train", "test")
LIMITS: dict[str, Limit] = {
    "count": Int(1, 10**9),
    "resolution": RESOLUTION,
    "split": Choice(SPLITS),
    "seed": SEED,
}
"""The type and range of every field of a description but its equation."""


@dataclass(frozen=True)
class DatasetSpec:
    """The description of a dataset: everything that determines its content.

    >>> import neuralsolver as ns
    >>> ns.DatasetSpec(ns.Poisson(), count=10, resolution=16).name
    'poisson-train-16-cf1c58f776d6'
    """

    equation: Equation
    count: int
    resolution: int
    split: str = "train"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.equation, Equation):
            raise InvalidInput("equation", "an Equation", repr(self.equation))
        for name, limit in LIMITS.items():
            object.__setattr__(self, name, limit.read(name, getattr(self, name)))
        self.equation.check_grid(self.resolution)
        canonical(self.equation)

    @property
    def split_code(self) -> int:
        """The part of the random key that keeps training and test samples apart."""
        return SPLITS.index(self.split)

    def describe(self) -> dict[str, Any]:
        """The description as plain values, the same for equal descriptions."""
        return {
            "equation": self.equation.name,
            "class": definition(self.equation),
            "constants": self._constants(),
            "count": self.count,
            "resolution": self.resolution,
            "split": self.split,
            "seed": self.seed,
            "generator_version": GENERATOR_VERSION,
            "dtype": DTYPE,
        }

    def _constants(self) -> dict[str, Any]:
        """What the samples depend on: not how a residual of them is taken."""
        values = canonical(self.equation)
        return {name: v for name, v in values.items() if name not in self.equation.numerics}

    @property
    def fingerprint(self) -> str:
        """The hash of the description."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """The file name without its ending."""
        return f"{self.equation.name}-{self.split}-{self.resolution}-{self.fingerprint[:12]}"


def canonical(equation: Equation) -> dict[str, Any]:
    """The constants as JSON values in which 1 and 1.0 are the same."""
    return {name: _plain(name, value) for name, value in sorted(equation.constants().items())}


def definition(equation: Equation) -> str:
    """The class of an equation; for a class of the user's also its text, which may change."""
    kind = type(equation)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__.split(".")[0] == "neuralsolver":
        return name
    try:
        text = inspect.getsource(kind)
    except (OSError, TypeError):  # typed into a prompt
        return name
    return f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, numbers.Real) and np.isfinite(float(value)):
        return float(value)
    if isinstance(value, (tuple, list)):
        return [_plain(name, item) for item in value]
    raise InvalidInput(name, "a finite number, a text or a tuple of them", repr(value))


class Fields(Protocol):
    """An array that may still be in a file: slices of it are numpy arrays."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of samples, then the shape of one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs (N, C, n, n) and their solutions, read only as far as they are indexed.

    No file stays open between two reads, so a dataset can be pickled, forked and kept for ever.
    `dataset[i]` and `dataset[a:b]` are (inputs, solution) pairs, which is all that a
    `torch.utils.data.DataLoader` asks for.

    >>> import neuralsolver as ns, tempfile
    >>> dataset = ns.generate(ns.DatasetSpec(ns.Poisson(), 3, 16), tempfile.mkdtemp())
    >>> len(dataset), dataset.problem([0, 2]).batch
    (3, 2)
    """

    inputs: Fields
    solution: Fields
    description: Mapping[str, Any]
    rejected: npt.NDArray[np.int32]
    notes: tuple[str, ...] = ()
    given_equation: Equation | None = None

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        return self.inputs[index], self.solution[index]

    @property
    def resolution(self) -> int:
        """Grid points in each direction."""
        return self.inputs.shape[-1]

    @property
    def frame_times(self) -> npt.NDArray[np.float64] | None:
        """The times of the frames, for flows."""
        times = self.description.get("frame_times")
        return None if times is None else np.asarray(times, dtype=np.float64)

    @cached_property
    def equation(self) -> Equation:
        """The equation that the samples solve."""
        if self.given_equation is not None:
            return self.given_equation
        return equation_named(self.description["equation"], self.description["constants"])

    @property
    def spec(self) -> DatasetSpec:
        """The description from which this dataset can be generated again."""
        if "seed" not in self.description:
            raise InvalidInput(
                "dataset", "one made by `ens generate`", self.description["equation"]
            )
        values = {key: self.description[key] for key in ("count", "resolution", "split", "seed")}
        return DatasetSpec(self.equation, **values)

    def tensors(
        self, index: Any = slice(None), dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, Tensor]:
        """Inputs and solutions of the samples at `index` as tensors."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        inputs, solution = self.inputs[rows], self.solution[rows]
        return torch.from_numpy(inputs).to(dtype), torch.from_numpy(solution).to(dtype)

    def problem(self, index: Any = slice(None), dtype: torch.dtype = torch.float64) -> Problem:
        """The samples at `index` as one Problem."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return Problem(self.equation, torch.from_numpy(self.inputs[rows]).to(dtype))


def check_shapes(source: str, inputs: tuple[int, ...], solution: tuple[int, ...]) -> None:
    """Raise FileDamaged unless the two shapes belong to one dataset."""
    square = len(inputs) in (4, 5) and len(set(inputs[2:])) == 1 and min(inputs) > 0
    if not square or len(solution) not in (len(inputs), 5):
        expected = "inputs (N, C, n, n) and solutions (N, U, n, n) or (N, U, T, n, n)"
        raise FileDamaged(source, expected, f"{inputs} and {solution}")
    if inputs[0] != solution[0] or inputs[2:] != solution[2 - len(inputs) :]:
        raise FileDamaged(source, "as many solutions as inputs", f"{inputs} and {solution}")
