"""A table as a value, and its two faces: Markdown and LaTeX with booktabs.

A table is a head (groups over columns) and blocks of lines with a rule between them. Cells are
marked before they are set: the best bold, the second underlined (in italics in Markdown, which has
no underline).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from neuralsolver.report.results import FAILURES, Printed, Row

NOT_RUN = "not run"
WORDS = {"DIVERGED": "diverged", "OUT_OF_MEMORY": "out of memory", "NOT_APPLICABLE": "n/a"}
WORDS |= {"STEP_LIMIT": "at the step limit", "WITHOUT_NETWORK": "answered without network"}
CLOCK_MARKS = {"again": ("≈", ""), "wall": ("", "*")}
PRINTED_WORDS = {"OOM": "out of memory", "N/A": "n/a"}


@dataclass(frozen=True)
class Cell:
    """What one cell says; a cell with a `value` takes part in the choice of the best."""

    text: str
    value: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a table: its labels, then its cells."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table with everything that is printed around it.

    `groups` are headings over the columns after the labels, each with the number of columns it
    spans; none if there is nothing to group.
    """

    name: str
    caption: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    blocks: tuple[tuple[Line, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()

    @property
    def lines(self) -> list[Line]:
        """All lines, whatever their block."""
        return [line for block in self.blocks for line in block]


def number(value: float) -> str:
    """A number as the paper prints it: 3.04e-03."""
    return f"{value:.2e}"


def remarks(row: Row) -> str:
    """What did not go as asked, in words; nothing if everything did."""
    total = sum(row.status.values())
    counts = {word: row.count(name) for name, word in WORDS.items()}
    return ", ".join(
        word if count == total else f"{count} of {total} {word}"
        for word, count in counts.items()
        if count
    )


def measured(row: Row | None, metric: str) -> Cell:
    """The cell of a number of ours: the value, and in words whatever did not go as asked.

    Only a number for which every sample has an answer takes part in the choice of the best. A mean
    over fewer samples than the others of its regime says over how many, one of a method that
    optimises each instance also what share of its official steps that was given.
    """
    if row is None:
        return Cell(NOT_RUN)
    value = getattr(row, metric)
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    remark = remarks(row)
    if not finite:
        return Cell(remark or "n/a")
    text = f"{value:.1f}" if metric == "steps" else number(value)
    if metric == "error":
        text += _half_width(row)
    few = [str(row.samples // row.seeds)] if row.few or row.effort else []
    few += [f"{row.effort:.0%}"] if row.effort else []
    if few:
        text += f" [{', '.join(few)}]"
    if remark:
        text += f" ({remark})"
    return Cell(text, None if row.count(*FAILURES) else float(value))


def _half_width(row: Row) -> str:
    """The longer side of the 95 % interval of the mean, in percent of it."""
    if row.interval is None or not row.error:
        return ""
    low, high = row.interval
    percent = 100 * max(high - row.error, row.error - low) / row.error
    if percent < 0.05:
        return ""  # the zero field is wrong by 1 everywhere
    return f" ±{percent:.1g}%" if percent < 1 else f" ±{percent:.0f}%"


def budget(training: Mapping[str, Any] | None, key: str) -> Cell:
    """The cell of one number of a budget, a dash where nobody has kept it."""
    value = (training or {}).get(key)
    if value is None:
        return Cell("-")
    if key == "minutes":
        before, after = CLOCK_MARKS.get(str((training or {}).get("clock")), ("", ""))
        return Cell(f"{before}{value:.0f}{after}")
    return Cell(f"{value / 1e6:.2g} M" if key == "weights" and value >= 1e5 else f"{value:,}")


def quoted(cell: Printed | None) -> Cell:
    """The cell of a number of the paper, with the paper's own mark."""
    if cell is None:
        return Cell("")
    return Cell(PRINTED_WORDS.get(cell.text, cell.text), mark=cell.mark)


def marked(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the smallest values marked best and the next smallest second.

    Values that are printed alike are equal and share a mark.
    """
    shown = sorted({float(number(cell.value)) for cell in cells if cell.value is not None})
    marks = dict(zip(shown, ("best", "second"), strict=False))
    return [
        cell if cell.value is None else replace(cell, mark=marks.get(float(number(cell.value)), ""))
        for cell in cells
    ]


def mark_columns(lines: Sequence[Line]) -> list[Line]:
    """The lines with the best and the second of every column marked."""
    columns = [marked(column) for column in zip(*(line.cells for line in lines), strict=True)]
    return [
        replace(line, cells=cells)
        for line, cells in zip(lines, zip(*columns, strict=True), strict=True)
    ]


def markdown(table: Table) -> str:
    """The table in Markdown; where a rule would be, an empty line of the table."""
    spans = table.groups or (("", len(table.columns)),)
    groups = [group for group, span in spans for _ in range(span)]
    head = [
        f"{group}: {column}" if group and column else group or column
        for group, column in zip(groups, table.columns, strict=True)
    ]
    width = len(table.labels) + len(table.columns)
    lines = [[*table.labels, *head], ["---"] * width]
    for index, block in enumerate(table.blocks):
        if index:
            lines.append([""] * width)
        lines += [[*line.labels, *map(_markdown_cell, line.cells)] for line in block]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table.caption}\n\n{body}\n"


def _markdown_cell(cell: Cell) -> str:
    around = {"best": "**", "second": "*"}.get(cell.mark, "")
    return f"{around}{cell.text}{around}"


def latex(table: Table) -> str:
    """The table in LaTeX; it needs the packages booktabs and graphicx."""
    labels = len(table.labels)
    lines = [
        r"\begin{table*}[htb]",
        r"\centering",
        rf"\caption{{{escaped(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\small",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{{'l' * labels}{'c' * len(table.columns)}}}",
        r"\toprule",
    ]
    if table.groups:
        lines += _latex_groups(table.groups, labels)
    lines.append(_latex_line([*map(escaped, (*table.labels, *table.columns))]))
    for block in table.blocks:
        lines.append(r"\midrule")
        lines += [
            _latex_line([*map(escaped, line.labels), *map(_latex_cell, line.cells)])
            for line in block
        ]
    lines += [r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]
    return "\n".join(lines) + "\n"


def _latex_groups(groups: Sequence[tuple[str, int]], labels: int) -> list[str]:
    cells, rules, first = [""] * labels, [], labels + 1
    for title, span in groups:
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{escaped(title)}}}")
        if title:
            rules.append(rf"\cmidrule(r){{{first}-{first + span - 1}}}")
        first += span
    return [_latex_line(cells), " ".join(rules)]


def _latex_cell(cell: Cell) -> str:
    command = {"best": r"\textbf", "second": r"\underline"}.get(cell.mark)
    text = escaped(cell.text)
    return f"{command}{{{text}}}" if command else text


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


SYMBOLS = {
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "ν": r"$\nu$",
    "π": r"$\pi$",
    "σ": r"$\sigma$",
    "→": r"$\to$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "L₂": "$L_2$",
    "H¹": "$H^1$",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    "#": r"\#",
    "{": r"\{",
    "}": r"\}",
}


def escaped(text: str) -> str:
    """Text as LaTeX wants it."""
    return re.sub("|".join(map(re.escape, SYMBOLS)), lambda found: SYMBOLS[found[0]], text)
