"""Rows on disk: one JSON object per line, each measured once for what it was measured with.

A row has a key (regime, method, seed, samples, …) and a provenance: the SHA-256 of the weights that
were used and the version of the method, a hash of its code (`versions.py`). A row whose provenance
is no longer true is stale: it is measured again, and the new one takes its place. Weights that are
not at hand contradict nothing.

What did not come to an answer has a kind. NOT_APPLICABLE is kept, it is true of the method.
OUT_OF_MEMORY is kept, it is true of the machine, and stale on another one. A file in use by another
process, a full disk, an interruption are true of the moment: they are raised and never become rows.

A row is added in one write. A writer that was killed leaves at most half a line at the end of the
file: it is no row yet, and the next writer cuts it off. Anything else that is no row is damage.

A budget is what a trained row was given, read from the card of its model: CPU minutes of one core,
batches, weights. The models of the first release were trained by the clock on a shared machine, so
they had less computing than their cards say: what as many batches take on a core of its own was
measured since, and stands in results/desk/training.json by the start of their weights' SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from neuralsolver.errors import FileDamaged
from neuralsolver.files import exclusive, write_whole
from neuralsolver.training.card import machine, read_card
from neuralsolver.training.checkpoint import WEIGHTS
from neuralsolver.training.library import SHIPPED, shipped, shipped_denoisers

Row = dict[str, Any]
NO_WEIGHTS = "none"
PUBLISHED_SEED, DEVELOPMENT_SEED = 20_412, 20_264
"""Test data of the published tables, on which nothing was trained, tuned or looked at before; and
those that were looked at many times (Newton's directions were chosen there)."""
Tell = Callable[[str], None]
Budget = dict[str, Any]
"""`minutes`, `batches`, `weights` (how many numbers were learnt) and the `clock` of the minutes:
CPU minutes of the training, or of as many batches timed `again`."""
TIMED = Path(__file__).parents[1] / "results" / "desk" / "training.json"
"""Stages of the models that were trained by the clock, timed again once."""


def combined(digests: Sequence[str]) -> str:
    """One SHA-256 for all the weights that were used; that of a single model is its own."""
    if len(digests) < 2:
        return digests[0] if digests else NO_WEIGHTS
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def read_rows(file: Path) -> list[Row]:
    """The rows of a file in the order in which they were measured; none if there is no file."""
    if not file.exists():
        return []
    try:
        *whole, _unfinished = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise FileDamaged(str(file), "rows of text", str(error)) from None
    return [_parsed(file, number, line) for number, line in enumerate(whole, 1)]


def _parsed(file: Path, number: int, line: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise FileDamaged(f"{file} line {number}", "a row", line[:60])
    return row


def _line(row: Row) -> bytes:
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()


def append_row(file: Path, row: Row) -> None:
    """Add a row after the last whole one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        written = file.read_bytes()
        if not written.endswith(b"\n"):
            stream.truncate(written.rfind(b"\n") + 1)
        stream.write(_line(row))


@dataclass
class Ledger:
    """The rows of a file while they are being measured; `tell` hears which ones are stale."""

    file: Path
    tell: Tell | None = None
    rows: list[Row] = field(default_factory=list)

    def find(self, key: Mapping[str, Any]) -> Row | None:
        """The last row of a key."""
        for row in reversed(self.rows):
            # a regime may have had fewer fields with a solution than were asked for
            asked = {**row, "samples": row.get("requested", row.get("samples"))}
            if all(asked.get(name) == value for name, value in key.items()):
                return row
        return None

    def settle(
        self, key: Mapping[str, Any], version: str, weights: str | None, measure: Callable[[], Row]
    ) -> Row:
        """The row of a key, measured unless it is there and nothing has changed since."""
        found = self.find(key)
        if found is not None:
            why = stale(found, version, weights)
            if why is None:
                return found
            if self.tell is not None:
                name = ", ".join(str(value) for value in key.values())
                self.tell(f"{name}: {why}; measured again")
        row = measure()
        if found is None:
            append_row(self.file, row)
        else:
            self.rows = [other for other in self.rows if other is not found]
            write_whole(self.file, b"".join(map(_line, [*self.rows, row])))
        self.rows.append(row)
        return row


def stale(row: Row, version: str, weights: str | None) -> str | None:
    """Why a row no longer holds, or None while it does."""
    if row.get("version") != version:
        return f"measured with version {row.get('version')} of the method, now {version}"
    if weights is not None and row.get("weights") != weights:
        return f"measured with weights {str(row.get('weights'))[:12]}, now {weights[:12]}"
    if "OUT_OF_MEMORY" in row.get("status", {}) and row.get("machine") != machine():
        return f"out of memory on {row.get('machine')}, now {machine()}"
    return None


@contextmanager
def ledger(file: Path, tell: Tell | None = None) -> Iterator[Ledger]:
    """The rows of a file, which nobody else may write meanwhile; the lock ends with the process."""
    with exclusive(file.with_name(f".{file.name}.lock"), f"evaluation into {file}"):
        yield Ledger(file, tell, read_rows(file))


@cache
def timed_again() -> dict[str, float]:
    """CPU minutes of the solvers trained by the clock, by the start of their weights' SHA-256."""
    minutes: Counter[str] = Counter()
    for stage in json.loads(TIMED.read_text()) if TIMED.is_file() else []:
        minutes[stage["sha256"]] += stage["minutes"]
    return {digest: round(total, 1) for digest, total in minutes.items()}


def tensor_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a safetensors file; none of them is read."""
    try:
        with safe_open(file, framework="np") as stored:
            names = list(stored.keys())
            return {name: tuple(stored.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError) as error:
        raise FileDamaged(str(file), "a whole safetensors file", str(error)[:100]) from None


def budget_of(model: Path) -> Budget:
    """The budget of one model folder."""
    card = read_card(model)
    # a denoiser has one training, a solver one or several stages
    stages = [*card.get("stages", {}).values(), *filter(None, [card.get("training")])]
    known = str(card["sha256"])[:8]
    return {
        "minutes": timed_again().get(known, _total(stage.get("minutes") for stage in stages)),
        "batches": _total(stage.get("batches") for stage in stages),
        "weights": sum(math.prod(shape) for shape in tensor_shapes(model / WEIGHTS).values()),
        "clock": "again" if known in timed_again() else "CPU",
    }


def budget_of_all(models: Iterable[Path]) -> Budget | None:
    """The budget of the models that one method uses, or None where it uses none."""
    found = [budget_of(model) for model in models]
    if not found:
        return None
    numbers = {key: _total(one[key] for one in found) for key in ("minutes", "batches", "weights")}
    return {**numbers, "clock": max((b["clock"] for b in found), key=("CPU", "again").index)}


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if not known or None in known:
        return None
    total = math.fsum(value for value in known if value is not None)
    return int(total) if total == int(total) else round(total, 2)


@cache
def shipped_budgets() -> dict[str, Budget]:
    """The budgets of the models of the package by the SHA-256 of their weights.

    Rows that were measured before a row had its budget are looked up here.
    """
    folders = [SHIPPED / name for name in (*shipped(), *shipped_denoisers())]
    return {str(read_card(folder)["sha256"]): budget_of(folder) for folder in folders}
