"""What was measured, read back as one tidy frame; beside it studies, fields, the paper's numbers.

A row is one method on one regime of one experiment: a line of `Results.rows`, which is indexed by
these three. Whatever is missing is absent, not an error: a results folder may be half full.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.plotting.pictures import Field
from paper.methods import LEARNED, METHODS, official_steps
from paper.regimes import EXPERIMENTS
from paper.rows import PUBLISHED_SEED, read_rows, shipped_budgets

FAILURES = ("DIVERGED", "OUT_OF_MEMORY", "NOT_APPLICABLE")
"""Endings after which a sample has no answer of the method's own."""
PLACE = ["experiment", "regime", "method"]
NUMBERS = ["error", "error_spread", "residual", "steps", "seconds_batch_1", "seconds_batch_32"]
NUMBERS += ["effort", "network_answers"]
COUNTS = ["seed", "resolution", "samples"]
OBJECTS = ["status", "history", "errors", "training", "weights"]
Row = Any
"""One line of the frame (a `pandas.Series`); numbers that do not exist are NaN."""


def tidy(contents: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as they are on disk as one frame, one line for each place.

    The published seed counts before others, then most samples, then the last that was measured.
    Older rows do not say everything: a budget is looked up by the weights, the share of the
    official steps (`effort`) follows from the steps made.
    """
    columns = [*PLACE, *COUNTS, *NUMBERS, *OBJECTS]
    found = [[content.get(name) for name in columns] for content in contents]
    rows = pd.DataFrame(found, columns=columns, dtype=object)
    rows[NUMBERS] = rows[NUMBERS].astype(float)
    rows[COUNTS] = rows[COUNTS].fillna(0).astype(int)
    rows["status"] = [status or {} for status in rows["status"]]
    known = shipped_budgets()
    rows["training"] = [known.get(str(w), t) for w, t in rows[["weights", "training"]].to_numpy()]
    official = [official_steps(m, e) or math.nan for e, _, m in rows[PLACE].itertuples(False)]
    rows["effort"] = rows["effort"].fillna(rows["steps"] / pd.Series(official, dtype=float))
    rows["most"] = rows.groupby(PLACE[:2])["samples"].transform("max")
    rows["fresh"] = rows["seed"] == PUBLISHED_SEED
    rows = rows.sort_values(["fresh", "samples"], kind="stable")
    rows = rows.drop_duplicates(PLACE, keep="last").sort_index().set_index(PLACE, drop=False)
    return rows.assign(**_derived(rows)).rename_axis([None] * 3)


def _derived(rows: pd.DataFrame) -> dict[str, Any]:
    """Columns that follow from the others.

    few        a mean over fewer samples than the others of its regime
    failed     how many samples have no answer
    answers    how many answers are the network's; NaN where nobody recorded whose they are
    credited   whether a good number is a merit of the network: most answers are its own
    """
    answers = pd.Series([_answers(row) for _, row in rows.iterrows()], rows.index, dtype=float)
    return {
        "few": rows["samples"] < rows["most"],
        "failed": [count(row, *FAILURES) for _, row in rows.iterrows()],
        "answers": answers,
        "credited": (answers == rows["samples"]) | (2 * answers > rows["samples"]),
    }


def _answers(row: Row) -> float:
    """Rows of flows that predate the record may be the safeguard's without saying so."""
    if not math.isnan(row["network_answers"]):
        return float(row["network_answers"])
    method, experiment = METHODS.get(row["method"]), EXPERIMENTS.get(row["experiment"])
    if method is None or method.kind not in LEARNED:
        return 0.0
    classical = count(row, "WITHOUT_NETWORK")
    guarded = "contractive" in method.recipes and method.key != "ens-contractive"
    if guarded and not classical and experiment is not None and experiment.equation.frames:
        return math.nan
    return float(row["samples"] - classical)


def count(row: Row, *names: str) -> int:
    """How many samples of a row ended in one of these ways."""
    return sum(row["status"].get(name, 0) for name in names)


def series(row: Row, quantity: str) -> tuple[list[float], list[float]]:
    """Steps and mean values of a quantity of the history, where there is a number to draw."""
    history = row["history"] or {}
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


@dataclass(frozen=True)
class Results:
    """A folder of results: the frame of all rows, studies and fields by name."""

    folder: Path
    rows: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Everything under results/<scale>."""
        if not folder.is_dir():
            raise InvalidInput(
                "results", "a folder with rows of `python -m paper evaluate`", folder
            )
        contents = [row for path in sorted(folder.glob("*.jsonl")) for row in read_rows(path)]
        # sensors and wells have rows of their own
        return cls(folder, tidy(row for row in contents if {"method", "regime"} <= row.keys()))

    def get(self, experiment: str, regime: str, method: str) -> Row | None:
        """The row, or None if it was not run."""
        place = (experiment, regime, method)
        return self.rows.loc[place] if place in self.rows.index else None

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
        return list(self.rows["experiment"].unique())

    def of(self, experiment: str, regimes: Iterable[str]) -> pd.DataFrame:
        """The rows of some regimes of an experiment."""
        rows = self.rows
        return rows[(rows["experiment"] == experiment) & rows["regime"].isin(list(regimes))]

    def grids(self, experiment: str, regimes: Iterable[str]) -> str:
        """The grids of our rows, in words."""
        found = sorted(self.of(experiment, regimes)["resolution"].unique())
        return ", ".join(f"{n} × {n}" for n in found)


def experiment_label(experiment: str) -> str:
    """What an experiment is called in a heading."""
    return EXPERIMENTS[experiment].label if experiment in EXPERIMENTS else experiment


def regime_label(experiment: str, regime: str) -> str:
    """What a regime is called in a heading."""
    known = EXPERIMENTS[experiment].regimes if experiment in EXPERIMENTS else ()
    return next((row.label for row in known if row.key == regime), regime)


@cache
def published() -> pd.DataFrame:
    """Every cell that the paper prints, by table, row, column and metric, in its order.

    A table goes by its label in the TeX source, a row and a column by their printed names; the
    metric is one of error, residual, seconds, steps, converged, training, evaluation. `value` is
    the text as printed, `mark` whether it is marked best or second, `number` its number or NaN.
    """
    file = Path(__file__).with_name("published.csv")
    frame = pd.read_csv(file, keep_default_na=False, dtype=str)
    frame["number"] = pd.to_numeric(frame["value"], errors="coerce")
    return frame.set_index(["table", "row", "column", "metric"])
