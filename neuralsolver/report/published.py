"""The numbers printed in the paper: every cell of every table, in published.csv.

A table goes by its label in the TeX source, a row and a column by their printed names; the metric
is one of error, residual, seconds, steps, converged, training, evaluation.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


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


Key = tuple[str, str, str, str]
"""Table, row, column, metric."""


@cache
def published() -> dict[Key, Printed]:
    """Every printed cell, in the order of the paper."""
    text = files("neuralsolver.report").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["table"], line["row"], line["column"], line["metric"]): Printed(
            line["value"], line["mark"]
        )
        for line in csv.DictReader(io.StringIO(text))
    }


def printed(table: str, row: str, column: str, metric: str) -> Printed | None:
    """The cell, or None if the paper has none there."""
    return published().get((table, row, column, metric))


def rows_of(table: str) -> list[str]:
    """The rows of a table in the order of the paper."""
    return list(dict.fromkeys(row for name, row, _, _ in published() if name == table))


def columns_of(table: str, row: str) -> list[str]:
    """The columns of a row in the order of the paper."""
    keys = [column for name, line, column, _ in published() if (name, line) == (table, row)]
    return list(dict.fromkeys(keys))
