"""Problems of which only a few point values are known.

A sensor sits at a position (r₁, r₂) of the unit square and sees one field there: an input of the
equation by its name, or an unknown ("solution"). `Observed` is an equation whose input is known by
sensors only; the answer to it is a distribution, and each sample of that completes it to an
ordinary `Problem`. Between grid points a field on the grid is read by bilinear interpolation.
"""

from __future__ import annotations

import csv
import io
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
MOST_SENSORS = 10_000
"""The exact posterior needs a matrix with the square of this many entries: 0.8 GB."""
LARGEST_FILE = 2**24
"""Bytes of a table of sensors."""


@dataclass(frozen=True, eq=False)
class Sensors:
    """N sensors. What was measured twice alike is kept once.

    Args:
        positions: (N, 2) in the unit square, also between grid points.
        fields: The field each of them sees, by its name.
        values: What they saw, (N,).
        noise: Standard deviation of their errors, one number or one for each sensor.

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
    """The rms of all standard deviations; `deviations` (N,) has each."""
    deviations: Array = field(default_factory=lambda: np.zeros(0))

    def __init__(
        self,
        positions: npt.ArrayLike,
        fields: str | Sequence[str],
        values: npt.ArrayLike,
        noise: float | npt.ArrayLike = 0.0,
    ) -> None:
        places = np.array(positions, dtype=np.float64)
        seen = np.array(values, dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != 2:
            raise InvalidInput("sensor positions", "shape (N, 2)", places.shape)
        if len(places) > MOST_SENSORS:
            expected = f"at most {MOST_SENSORS} (average neighbours, or take every k-th)"
            raise InvalidInput("sensors", expected, len(places))
        names = (fields,) * len(places) if isinstance(fields, str) else tuple(map(str, fields))
        if seen.shape != (len(places),) or len(names) != len(places):
            got = f"{seen.shape} values and {len(names)} fields"
            raise InvalidInput("sensors", f"{len(places)} values and fields", got)
        each = np.array(noise, dtype=np.float64)
        if each.shape not in ((), seen.shape):
            raise InvalidInput("sensor noise", f"one number or {len(seen)}", each.shape)
        if not (np.isfinite(each).all() and (each >= 0).all()):
            raise InvalidInput("sensor noise", "zero or a positive number", noise)
        each = np.broadcast_to(each, seen.shape)
        size = float(np.sqrt(np.mean(each**2))) if len(each) else 0.0
        _check_values(places, seen)
        kept = _distinct(places, names, seen, size)
        object.__setattr__(self, "positions", places[kept])
        object.__setattr__(self, "fields", tuple(names[i] for i in kept))
        object.__setattr__(self, "values", seen[kept])
        object.__setattr__(self, "noise", size)
        object.__setattr__(self, "deviations", each[kept])

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counted(self) -> str:
        """How many there are, in words."""
        return f"{len(self)} sensor{'' if len(self) == 1 else 's'}"

    @classmethod
    def random(
        cls, fields: Mapping[str, Array], count: int, seed: int = 0, noise: float = 0.0
    ) -> Sensors:
        """`count` sensors of each field (n, n), at grid points drawn with a seed."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,)))
        places, names, values = [], [], []
        for name, values_there in fields.items():
            n = len(values_there)
            if not 0 < count <= n * n:
                raise InvalidInput("sensors", f"1 to {n * n} on this grid", count)
            index = np.stack(np.divmod(rng.choice(n * n, count, replace=False), n), 1)
            places.append(index / (n - 1))
            names += [name] * count
            exact = np.asarray(values_there)[index[:, 0], index[:, 1]]
            values.append(exact + noise * rng.standard_normal(count) if noise else exact)
        return cls(np.concatenate(places), names, np.concatenate(values), noise)

    @classmethod
    def read(cls, path: Path, noise: float = 0.0, table: Table | None = None) -> Sensors:
        """Sensors from a file.

        Args:
            path: A table `x,y,field,value` (.csv) or arrays of these names (.npz).
            noise: Standard deviation of the errors.
            table: How a table of yours is to be read instead.
        """
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput("sensors", "a regular file", path)
        if found.st_size > LARGEST_FILE:
            expected = f"a file of at most {LARGEST_FILE} bytes, {MOST_SENSORS} sensors"
            raise InvalidInput("sensors", expected, f"{path}, {found.st_size} bytes")
        if table is None and path.suffix.lower() == ".npz":
            return _read_arrays(path, noise)
        return _read_table(path, noise, table or OURS)

    def table(self) -> str:
        """The sensors as the text of a .csv file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for (x, y), name, value in zip(self.positions, self.fields, self.values, strict=True):
            writer.writerow([repr(float(x)), repr(float(y)), name, repr(float(value))])
        return text.getvalue()

    def of(self, name: str) -> Sensors:
        """Those that see one field."""
        kept = [i for i, seen in enumerate(self.fields) if seen == name]
        return Sensors(self.positions[kept], name, self.values[kept], self.deviations[kept])


@dataclass(frozen=True)
class Table:
    """A table of measurements in its own units.

    Args:
        columns: Names of the columns of x, y, the value and, optionally, its standard deviation.
        field: The field that is seen.
        lengths: Of the domain along x and y, in the units of the table.
        offset: Subtracted from every value.
        unit: Values are multiplied by this after that, deviations too.
    """

    columns: tuple[str, ...]
    field: str
    lengths: tuple[float, float] = (1.0, 1.0)
    offset: float = 0.0
    unit: float = 1.0


OURS = Table(("x", "y", "value"), "")
"""The table of `Sensors.table`, whose column `field` names the fields."""


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
        unknowns = () if self.equation.frames else self.equation.unknowns
        known = (*self.equation.input_names, *unknowns)
        for name in self.sensors.fields:
            if name not in known:
                raise InvalidInput("field of a sensor", f"one of {', '.join(known)}", name)

    @property
    def inputs_only(self) -> bool:
        """Whether no sensor sees the solution."""
        return not set(self.equation.unknowns) & set(self.sensors.fields)

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
        names = (*self.equation.input_names, *self.equation.unknowns)
        order = {name: i for i, name in enumerate(names)}
        channel = torch.tensor([order[name] for name in self.sensors.fields], dtype=torch.long)
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


def _read_table(path: Path, noise: float, table: Table) -> Sensors:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileDamaged(str(path), "a table in UTF-8", str(error)) from None
    header, *rows = [[cell.strip() for cell in row] for row in csv.reader(lines)] or [[]]
    if table is OURS:
        header = [name.lower() for name in header]
        if tuple(header) != COLUMNS:
            raise InvalidInput(str(path), f"a first line {','.join(COLUMNS)}", ",".join(header))
    elif len(table.columns) not in (3, 4):
        raise InvalidInput("columns", "names of x, y, value and perhaps noise", table.columns)
    for name in table.columns:
        if name not in header:
            raise InvalidInput(str(path), f"a column {name}", ", ".join(header))
    places = [header.index(name) for name in table.columns]
    names, numbers = [], []
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        try:
            if len(row) != len(header):
                raise ValueError
            numbers.append([float(row[place]) for place in places])
            names.append(row[header.index("field")] if table is OURS else table.field)
        except ValueError:
            expected = "x, y, the name of a field and a value" if table is OURS else "numbers"
            raise InvalidInput(f"{path} line {number}", expected, ",".join(row)) from None
    columns = np.reshape(numbers, (-1, len(places)))
    values = (columns[:, 2] - table.offset) * table.unit
    each = (columns[:, 3] if len(places) == 4 else noise) * abs(table.unit)
    return Sensors(columns[:, :2] / np.array(table.lengths), names, values, each)


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
