"""What was measured, read back: rows of `ens evaluate`, studies and fields under results/<scale>/.

A row is the outcome of one method on one regime of one experiment. Nothing is computed here, except
that the rows of several seeds are joined into one by the mean over seeds. Whatever is missing is
absent, not an error: a results folder may be half full.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from neuralsolver.drawing import Field
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.experiments.rows import read_rows as experiment_rows

FAILURES = ("DIVERGED", "OUT_OF_MEMORY", "NOT_APPLICABLE")
"""Endings after which a sample has no answer of the method's own."""


@dataclass(frozen=True)
class Row:
    """One line of results/<scale>/<experiment>.jsonl; numbers that do not exist are None."""

    experiment: str
    regime: str
    method: str
    scale: str = ""
    seed: int = 0
    resolution: int = 0
    samples: int = 0
    error: float | None = None
    error_spread: float | None = None
    residual: float | None = None
    steps: float | None = None
    status: Mapping[str, int] = field(default_factory=dict)
    seconds_batch_1: float | None = None
    seconds_batch_32: float | None = None
    history: Mapping[str, Sequence[float | None]] | None = None
    seeds: int = 1

    def count(self, *names: str) -> int:
        """How many samples ended in one of these ways."""
        return sum(self.status.get(name, 0) for name in names)

    def series(self, quantity: str) -> tuple[list[float], list[float]]:
        """Steps and mean values of a quantity of the history, where there is a number to draw."""
        history = self.history or {}
        values = history.get(quantity) or []
        steps = history.get("step") or range(len(values))
        pairs = [
            (float(step), float(value))
            for step, value in zip(steps, values, strict=False)
            if step is not None and value is not None and math.isfinite(value) and value > 0
        ]
        return [step for step, _ in pairs], [value for _, value in pairs]


NUMBERS = ("error", "error_spread", "residual", "steps", "seconds_batch_1", "seconds_batch_32")
FIELDS = frozenset(Row.__dataclass_fields__) - {"seeds"}


def read_rows(path: Path) -> list[Row]:
    """The rows of one file; of equal keys the last one counts."""
    found: dict[tuple[str, ...], Row] = {}
    for content in experiment_rows(path):
        row = Row(**{name: value for name, value in content.items() if name in FIELDS})
        key = (row.experiment, row.regime, row.method, str(row.seed), row.scale)
        found.pop(key, None)
        found[key] = row
    return list(found.values())


def joined(rows: Sequence[Row]) -> Row:
    """One row for several seeds: means of the numbers, sums of the counts, the first history.

    The spread becomes that between seeds. A seed without a number leaves no mean: it is not passed
    over in silence.
    """
    first = rows[0]
    if len(rows) == 1:
        return first
    status: Counter[str] = Counter()
    for row in rows:
        status.update(row.status)
    means: dict[str, Any] = {name: _mean(getattr(row, name) for row in rows) for name in NUMBERS}
    errors = [row.error for row in rows if row.error is not None]
    means["error_spread"] = float(np.std(errors)) if len(errors) == len(rows) else None
    samples = sum(row.samples for row in rows)
    return replace(first, status=dict(status), samples=samples, seeds=len(rows), **means)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = list(values)
    known = [value for value in numbers if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(numbers) else None


@dataclass(frozen=True)
class Results:
    """A folder of results: rows by (experiment, regime, method), studies and fields by name."""

    folder: Path
    rows: Mapping[tuple[str, str, str], Row]

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Everything under results/<scale>."""
        if not folder.is_dir():
            raise InvalidInput("results", "a folder with rows of `ens evaluate`", folder)
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for row in read_rows(path):
                groups.setdefault((row.experiment, row.regime, row.method), []).append(row)
        rows = {
            key: joined(sorted(group, key=lambda row: row.seed)) for key, group in groups.items()
        }
        return cls(folder, rows)

    def get(self, experiment: str, regime: str, method: str) -> Row | None:
        """The row, or None if it was not run."""
        return self.rows.get((experiment, regime, method))

    def study(self, name: str) -> Any:
        """The content of <name>.json, or None if there is no such study."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise FileDamaged(str(path), "JSON", "something else") from None

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The fields (n, n) of fields.npz by "<experiment>/<regime>/<item>"."""
        return self._archive("fields.npz")

    @cached_property
    def flow_fields(self) -> Mapping[str, Field]:
        """The trajectories (T, n, n) of flow-fields.npz, and their times, by the same names."""
        return self._archive("flow-fields.npz")

    def _archive(self, name: str) -> Mapping[str, Field]:
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
                return {item: archive[item] for item in archive.files}
        except (ValueError, OSError, EOFError, KeyError, BadZipFile):
            raise FileDamaged(str(path), "an archive of fields", "something else") from None

    @property
    def ablations(self) -> str:
        """The experiment that has the variants of ENS next to the ENS they are variants of.

        They are trained on a coarser grid than Helmholtz itself and compare with each other only.
        """
        return "ablations" if "ablations" in self.experiments else "helmholtz"

    @property
    def experiments(self) -> list[str]:
        """The experiments of which there is a row."""
        return list(dict.fromkeys(experiment for experiment, _, _ in self.rows))
