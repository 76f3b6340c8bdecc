"""Rows on disk: one JSON object per line, appended as they are measured.

A row is added in one write. A writer that was killed leaves at most half a line at the end of the
file: it is no row yet, and the next writer cuts it off. Anything else that is no row is damage.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from neuralsolver.errors import FileDamaged

Row = dict[str, Any]


def read_rows(file: Path) -> list[Row]:
    """The rows of a file in the order in which they were measured; none if there is no file."""
    if not file.exists():
        return []
    *whole, _unfinished = file.read_text(encoding="utf-8").split("\n")
    return [_parsed(file, number, line) for number, line in enumerate(whole, 1)]


def _parsed(file: Path, number: int, line: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise FileDamaged(f"{file} line {number}", "a row", line[:60])
    return row


def append_row(file: Path, row: Row) -> None:
    """Add a row after the last whole one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    with file.open("ab") as stream:
        written = file.read_bytes()
        if not written.endswith(b"\n"):
            stream.truncate(written.rfind(b"\n") + 1)
        stream.write(line.encode())
