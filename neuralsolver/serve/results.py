"""Measured results as they are on disk: rows, tables, figures, and the command behind each.

A folder of results holds one `.jsonl` file of rows per experiment, `tables/*.md` and `figures/`.
Nothing here computes: what a page shows is what a file says. A row is known by its file and its
line, and the command that measures it again is the one that the folder names for its file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from neuralsolver.errors import InvalidInput

Row = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
PICTURES = {".png": "image/png", ".gif": "image/gif", ".svg": "image/svg+xml"}


class Results:
    """A folder of results; an absent one has nothing in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def overview(self) -> dict[str, Any]:
        """What there is: experiments with their number of rows, tables, figures."""
        return {
            "folder": self.folder.name,
            "experiments": [
                {"name": file.stem, "rows": len(_rows(file))} for file in self._files("*.jsonl")
            ],
            "tables": [file.stem for file in self._files("tables/*.md") if file.stem != "README"],
            "figures": [file.name for file in self._files("figures/*") if file.suffix in PICTURES],
        }

    def rows(self, experiment: str) -> list[Row]:
        """The rows of an experiment, each with its file, its line and its command."""
        file = self._one(f"{experiment}.jsonl", experiment)
        documented = self._documented().get(file.name, "ens evaluate NAME")
        return [
            {**row, "file": file.name, "line": number, "command": command(row, documented)}
            for number, row in _rows(file)
        ]

    def table(self, name: str) -> dict[str, Any]:
        """A table: its headings and cells, and the text before it."""
        return {"name": name, **parse_table(self._one(f"tables/{name}.md", name).read_text())}

    def figure(self, name: str) -> tuple[Path, str]:
        """The file of a figure and its media type."""
        file = self._one(f"figures/{name}", name)
        if file.suffix not in PICTURES:
            raise InvalidInput("figure", "a picture", name)
        return file, PICTURES[file.suffix]

    def _documented(self) -> dict[str, str]:
        """The command of each file, from the table in the folder's README."""
        readme = self.folder / "README.md"
        found = {}
        for line in readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else ():
            files, _, how = line.strip("| ").partition("|")
            for name in re.findall(r"`([^`]+\.jsonl)`", files):
                found[name] = how.strip(" `")
        return found

    def _files(self, pattern: str) -> list[Path]:
        return sorted(file for file in self.folder.glob(pattern) if file.is_file())

    def _one(self, path: str, name: str) -> Path:
        # a name is a name, never a path
        if not NAME.fullmatch(name) or not (self.folder / path).is_file():
            raise InvalidInput("result", "a name in GET /results", name[:80])
        return self.folder / path


def _rows(file: Path) -> list[tuple[int, Row]]:
    """Line number and row; a line that is no row is left out, because a run may be writing it."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            found.append((number, row))
    return found


def command(row: Row, documented: str) -> str:
    """The command that measures a row: that of its file, for its regime and its method alone."""
    parts = [documented.replace("NAME", str(row.get("experiment", "NAME")))]
    parts += [f"--{name} {row[name]}" for name in ("regime", "method") if name in row]
    return " ".join(parts)


def parse_table(text: str) -> dict[str, Any]:
    """The first Markdown table of a text and the prose before it."""
    prose: list[str] = []
    lines: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            lines.append([_plain(cell) for cell in line.strip().strip("|").split("|")])
        elif lines:
            break
        elif line.strip():
            prose.append(_plain(line.lstrip("# ")))
    body = [cells for cells in lines[1:] if not all(set(cell) <= {"-", ":"} for cell in cells)]
    return {"about": " ".join(prose), "headings": lines[0] if lines else [], "cells": body}


def _plain(cell: str) -> str:
    return cell.strip().replace("**", "").strip("*").replace("`", "")
