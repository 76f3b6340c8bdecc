"""What was measured and what the paper prints, read back: rows, studies, fields, published.csv.

A row is the outcome of one method on one regime of one experiment. Nothing is computed here, except
that the rows of several seeds are joined into one by the mean over seeds. Whatever is missing is
absent, not an error: a results folder may be half full.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from neuralsolver.drawing import Field
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.evaluation.spread import Interval, bootstrap_interval, normal_interval
from neuralsolver.experiments.budgets import shipped_budgets
from neuralsolver.experiments.methods import official_steps
from neuralsolver.experiments.paper import EXPERIMENTS
from neuralsolver.experiments.rows import read_rows as experiment_rows

FAILURES = ("DIVERGED", "OUT_OF_MEMORY", "NOT_APPLICABLE")
"""Endings after which a sample has no answer of the method's own."""


@dataclass(frozen=True)
class Row:
    """One line of results/<scale>/<experiment>.jsonl; numbers that do not exist are None.

    `errors` are those of the samples, `training` is the budget of its models, `effort` the share of
    the official steps that an instance was given; older rows lack them. `most` is the number of
    samples that the other methods of its regime have.
    """

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
    errors: Sequence[float | None] | None = None
    training: Mapping[str, Any] | None = None
    effort: float | None = None
    seeds: int = 1
    most: int = 0

    def count(self, *names: str) -> int:
        """How many samples ended in one of these ways."""
        return sum(self.status.get(name, 0) for name in names)

    @property
    def few(self) -> bool:
        """Whether it is a mean over fewer samples than the others of its regime."""
        return self.samples // self.seeds < self.most

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean error."""
        if self.errors:
            return bootstrap_interval(self.errors)
        if self.error is None or self.error_spread is None:
            return None
        return normal_interval(self.error, self.error_spread, self.samples)

    def series(self, quantity: str) -> tuple[list[float], list[float]]:
        """Steps and mean values of a quantity of the history, where there is a number to draw."""
        history = self.history or {}
        values = history.get(quantity) or []
        return drawable(history.get("step") or range(len(values)), values)


def drawable(xs: Any, ys: Any) -> tuple[list[float], list[float]]:
    """The points that an axis which is logarithmic upwards can show."""
    pairs = [
        (float(x), float(y))
        for x, y in zip(xs or (), ys or (), strict=False)
        if x is not None and y is not None and math.isfinite(x) and 0 < y < math.inf
    ]
    return [x for x, _ in pairs], [y for _, y in pairs]


NUMBERS = ("error", "error_spread", "residual", "steps", "seconds_batch_1", "seconds_batch_32")
FIELDS = frozenset(Row.__dataclass_fields__) - {"seeds", "most"}


def _row(content: Mapping[str, Any]) -> Row:
    """A row as it was written; what older ones did not say of their making is looked up."""
    row = Row(**{name: value for name, value in content.items() if name in FIELDS})
    known = shipped_budgets().get(str(content.get("weights")))
    if known is not None:  # of which more may be known than when the row was measured
        row = replace(row, training=known)
    official = official_steps(row.method, row.experiment)
    if row.effort is None and official and row.steps is not None:
        row = replace(row, effort=row.steps / official)
    return row


def joined(rows: Sequence[Row]) -> Row:
    """One row for several seeds: means of the numbers, sums of the counts, the first history.

    The spread becomes that of all samples, within seeds and between them. A seed without a number
    leaves no mean: it is not passed over in silence.
    """
    if len(rows) == 1:
        return rows[0]
    status: Counter[str] = Counter()
    for row in rows:
        status.update(row.status)
    means: dict[str, Any] = {name: _mean(getattr(row, name) for row in rows) for name in NUMBERS}
    within = _mean(row.error_spread and row.error_spread**2 for row in rows)
    if within is not None and means["error"] is not None:
        between = _mean((row.error or 0.0) ** 2 for row in rows) or 0.0
        means["error_spread"] = math.sqrt(max(0.0, within + between - means["error"] ** 2))
    if all(row.errors for row in rows):
        means["errors"] = [error for row in rows for error in row.errors or ()]
    samples = sum(row.samples for row in rows)
    return replace(rows[0], status=dict(status), samples=samples, seeds=len(rows), **means)


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
        """Everything under results/<scale>; of one key the row with most samples, then the last."""
        if not folder.is_dir():
            raise InvalidInput("results", "a folder with rows of `ens evaluate`", folder)
        groups: dict[tuple[str, str, str], dict[int, Row]] = {}
        most: Counter[tuple[str, str]] = Counter()
        for path in sorted(folder.glob("*.jsonl")):
            for content in experiment_rows(path):
                if not {"method", "regime"} <= content.keys():  # targets, seeds, sensors
                    continue
                row = _row(content)
                place = (row.experiment, row.regime)
                seeds = groups.setdefault((*place, row.method), {})
                if row.seed not in seeds or row.samples >= seeds[row.seed].samples:
                    seeds[row.seed] = row
                most[place] = max(most[place], row.samples)
        rows = {
            key: replace(joined([group[seed] for seed in sorted(group)]), most=most[key[:2]])
            for key, group in groups.items()
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
        """The fields of fields.npz and the trajectories of flow-fields.npz.

        They go by "<experiment>/<regime>/<item>"; one that is not finite is left out.
        """
        found: dict[str, Field] = {}
        for name in ("fields.npz", "flow-fields.npz"):
            path = self.folder / name
            if not path.is_file():
                continue
            try:
                with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
                    found |= {item: archive[item] for item in archive.files}
            except (ValueError, OSError, EOFError, KeyError, BadZipFile):
                raise FileDamaged(str(path), "an archive of fields", "something else") from None
        return {
            name: np.asarray(values, dtype=np.float64)
            for name, values in found.items()
            if np.isfinite(values).all()
        }

    def items(self, place: str) -> dict[str, Field]:
        """The fields of one "<experiment>/<regime>" by item."""
        return {
            name.removeprefix(f"{place}/"): values
            for name, values in self.fields.items()
            if name.startswith(f"{place}/")
        }

    @property
    def experiments(self) -> list[str]:
        """The experiments of which there is a row."""
        return list(dict.fromkeys(experiment for experiment, _, _ in self.rows))

    def grids(self, experiment: str, regimes: Iterable[str]) -> str:
        """The grids of our rows, in words."""
        found = {
            r.resolution for (e, k, _), r in self.rows.items() if e == experiment and k in regimes
        }
        return ", ".join(f"{n} × {n}" for n in sorted(found))


def experiment_label(experiment: str) -> str:
    """What an experiment is called in a heading."""
    return EXPERIMENTS[experiment].label if experiment in EXPERIMENTS else experiment


def regime_label(experiment: str, regime: str) -> str:
    """What a regime is called in a heading."""
    known = EXPERIMENTS[experiment].regimes if experiment in EXPERIMENTS else ()
    return next((row.label for row in known if row.key == regime), regime)


@dataclass(frozen=True)
class Printed:
    """One cell of the paper: the text as printed, and whether it is marked best or second."""

    text: str
    mark: str = ""

    @property
    def value(self) -> float | None:
        """The number, or None where the paper prints a word such as OOM."""
        try:
            return float(self.text)
        except ValueError:
            return None


@cache
def published() -> dict[tuple[str, str, str, str], Printed]:
    """Every printed cell by table, row, column and metric, in the order of the paper.

    A table goes by its label in the TeX source, a row and a column by their printed names; the
    metric is one of error, residual, seconds, steps, converged, training, evaluation.
    """
    text = files("neuralsolver.report").joinpath("published.csv").read_text(encoding="utf-8")
    keys = ("table", "row", "column", "metric")
    return {
        tuple(line[key] for key in keys): Printed(line["value"], line["mark"])  # type: ignore[misc]
        for line in csv.DictReader(io.StringIO(text))
    }


def printed(table: str, row: str, column: str, metric: str) -> Printed | None:
    """The cell, or None if the paper has none there."""
    return published().get((table, row, column, metric))
