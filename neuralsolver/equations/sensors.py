"""Problems of which only a few point values are known.

A sensor sits at a position (r₁, r₂) of the unit square and sees one field there: an input of the
equation by its name, or an unknown ("solution"). `Observed` is an equation whose input is known by
sensors only; the answer to it is a distribution, and each sample of that completes it to an
ordinary `Problem`. Between grid points a field on the grid is read by bilinear interpolation.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations.base import Array, Equation
from neuralsolver.equations.problem import Problem
from neuralsolver.errors import FileDamaged, InvalidInput

COLUMNS = ("x", "y", "field", "value")
FEWEST = 4
"""A plane fits any three values: fewer sensors say nothing about a field."""


@dataclass(frozen=True, eq=False)
class Sensors:
    """N sensors: `positions` (N, 2), the `fields` they see, their `values`, and the standard
    deviation `noise` of their errors. What was measured twice alike is kept once.

    >>> import neuralsolver as ns
    >>> places = [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    >>> sensors = ns.Sensors(places, "source", [1.0, -1.0, 0.5, 0.0])
    >>> sensors.fields
    ('source', 'source', 'source', 'source')
    """

    positions: Array
    fields: tuple[str, ...]
    values: Array
    noise: float = 0.0

    def __init__(
        self,
        positions: npt.ArrayLike,
        fields: str | Sequence[str],
        values: npt.ArrayLike,
        noise: float = 0.0,
    ) -> None:
        places = np.array(positions, dtype=np.float64)
        seen = np.array(values, dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != 2:
            raise InvalidInput("sensor positions", "shape (N, 2)", places.shape)
        names = (fields,) * len(places) if isinstance(fields, str) else tuple(map(str, fields))
        if seen.shape != (len(places),) or len(names) != len(places):
            got = f"{seen.shape} values and {len(names)} fields"
            raise InvalidInput("sensors", f"{len(places)} values and fields", got)
        if not (np.isfinite(noise) and noise >= 0):
            raise InvalidInput("sensor noise", "zero or a positive number", noise)
        _check_values(places, seen)
        kept = _distinct(places, names, seen, noise)
        object.__setattr__(self, "positions", places[kept])
        object.__setattr__(self, "fields", tuple(names[i] for i in kept))
        object.__setattr__(self, "values", seen[kept])
        object.__setattr__(self, "noise", float(noise))

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def random(
        cls, fields: Mapping[str, Array], count: int, seed: int = 0, noise: float = 0.0
    ) -> Sensors:
        """`count` sensors of each field (n, n), at grid points drawn with a seed."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,)))
        places, names, values = [], [], []
        for name, field in fields.items():
            n = len(field)
            if not 0 < count <= n * n:
                raise InvalidInput("sensors", f"1 to {n * n} on this grid", count)
            index = np.stack(np.divmod(rng.choice(n * n, count, replace=False), n), 1)
            places.append(index / (n - 1))
            names += [name] * count
            exact = np.asarray(field)[index[:, 0], index[:, 1]]
            values.append(exact + noise * rng.standard_normal(count) if noise else exact)
        return cls(np.concatenate(places), names, np.concatenate(values), noise)

    @classmethod
    def read(cls, path: Path, noise: float = 0.0) -> Sensors:
        """Sensors from a table `x,y,field,value` (.csv) or from arrays of these names (.npz)."""
        if path.suffix.lower() == ".npz":
            return _read_arrays(path, noise)
        return _read_table(path, noise)

    def table(self) -> str:
        """The sensors as the text of a .csv file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for (x, y), name, value in zip(self.positions, self.fields, self.values, strict=True):
            writer.writerow([repr(float(x)), repr(float(y)), name, repr(float(value))])
        return text.getvalue()

    def of(self, field: str) -> Sensors:
        """Those that see one field."""
        kept = [i for i, name in enumerate(self.fields) if name == field]
        return Sensors(self.positions[kept], field, self.values[kept], self.noise)


@dataclass(frozen=True, eq=False)
class Observed:
    """An equation on n × n points whose fields are known at sensors only.

    >>> import neuralsolver as ns
    >>> places = [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    >>> sensors = ns.Sensors(places, "source", [1.0, -1.0, 0.5, 0.0])
    >>> ns.Observed(ns.Poisson(), 16, sensors).resolution
    16
    """

    equation: Equation
    resolution: int
    sensors: Sensors

    def __post_init__(self) -> None:
        self.equation.check_grid(self.resolution)
        known = (*self.equation.input_names, *self.equation.unknowns)
        for name in self.sensors.fields:
            if name not in known:
                raise InvalidInput("field of a sensor", f"one of {', '.join(known)}", name)
        if len(self.sensors) < FEWEST:
            raise InvalidInput("sensors", f"at least {FEWEST}", len(self.sensors))

    @property
    def inputs_only(self) -> bool:
        """Whether no sensor sees the solution."""
        return "solution" not in self.sensors.fields

    def complete(self, inputs: Tensor | npt.ArrayLike) -> Problem:
        """The ordinary problems of inputs (S, C, n, n) that were sampled."""
        return Problem(self.equation, inputs)

    def read_off(self, inputs: Tensor, u: Tensor) -> Tensor:
        """What the sensors would see of these fields, (S, N); differentiable."""
        fields = torch.cat([inputs, u], 1).flatten(2)
        channel, corners, shares = self._places
        return (fields[:, channel[:, None], corners] * shares.to(fields)).sum(-1)

    def mismatch(self, inputs: Tensor, u: Tensor) -> Tensor:
        """What the sensors would see, minus what they saw, (S, N)."""
        seen = self.read_off(inputs, u)
        return seen - torch.from_numpy(self.sensors.values).to(seen)

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor, Tensor]:
        """Channel (N,), four grid points (N, 4) and their shares (N, 4) of every sensor."""
        n = self.resolution
        order = {name: i for i, name in enumerate((*self.equation.input_names, "solution"))}
        channel = torch.tensor([order[name] for name in self.sensors.fields])
        scaled = torch.from_numpy(self.sensors.positions) * (n - 1)
        low = scaled.floor().clamp_max(n - 2).long()
        part = scaled - low
        corners, shares = [], []
        for i in (0, 1):
            for j in (0, 1):
                corners.append((low[:, 0] + i) * n + low[:, 1] + j)
                shares.append((1 - i - part[:, 0]).abs() * (1 - j - part[:, 1]).abs())
        return channel, torch.stack(corners, 1), torch.stack(shares, 1)


def _check_values(positions: Array, values: Array) -> None:
    for i, ((x, y), value) in enumerate(zip(positions, values, strict=True), 1):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(value)):
            raise InvalidInput(f"sensor {i}", "finite numbers", f"({x}, {y}): {value}")
        if not (0 <= x <= 1 and 0 <= y <= 1):
            raise InvalidInput(f"sensor {i}", "a position in the unit square", f"({x:g}, {y:g})")


def _distinct(positions: Array, fields: Sequence[str], values: Array, noise: float) -> list[int]:
    """The sensors without repetitions; two values at one place need noise to be possible."""
    if noise > 0:
        return list(range(len(values)))
    first: dict[tuple[float, float, str], int] = {}
    kept = []
    for i, (x, y) in enumerate(positions.tolist()):
        key = (x, y, fields[i])
        if key not in first:
            first[key] = i
            kept.append(i)
        elif values[first[key]] != values[i]:
            got = f"{values[first[key]]:g} and {values[i]:g} at ({x:g}, {y:g})"
            raise InvalidInput(f"sensor {i + 1}", "one value at one place (or --noise)", got)
    return kept


def _read_table(path: Path, noise: float) -> Sensors:
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except UnicodeDecodeError as error:
        raise FileDamaged(str(path), "a table in UTF-8", str(error)) from None
    header = tuple(cell.strip().lower() for cell in rows[0]) if rows else ()
    if header != COLUMNS:
        raise InvalidInput(str(path), f"a first line {','.join(COLUMNS)}", ",".join(header))
    places, names, values = [], [], []
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        try:
            x, y, name, value = (cell.strip() for cell in row)
            places.append((float(x), float(y)))
            names.append(name)
            values.append(float(value))
        except ValueError:
            expected = "x, y, the name of a field and a value"
            raise InvalidInput(f"{path} line {number}", expected, ",".join(row)) from None
    return Sensors(np.reshape(places, (-1, 2)), names, values, noise)


def _read_arrays(path: Path, noise: float) -> Sensors:
    try:
        with np.load(path, allow_pickle=False) as file:
            columns = {name: file[name] for name in COLUMNS if name in file}
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FileDamaged(str(path), "arrays of numbers and names", str(error)) from None
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise InvalidInput(str(path), f"arrays {', '.join(COLUMNS)}", f"no {missing[0]}")
    places = np.stack([columns["x"], columns["y"]], -1)
    field = columns["field"]
    return Sensors(
        places, str(field) if field.ndim == 0 else field.tolist(), columns["value"], noise
    )
