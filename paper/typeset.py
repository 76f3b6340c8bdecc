"""A table and its two faces: Markdown, and LaTeX by pandas (packages booktabs and graphicx).

A table is one frame a block, with a rule between blocks: its index are the labels of the lines, its
columns pairs of a group and a heading, its cells texts with their marks in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from paper.cells import NOT_RUN

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
    "†": r"$\dagger$",
    "—": "---",
    "L₂": "$L_2$",
    "H¹": "$H^1$",
    **{character: f"\\{character}" for character in "%&_#{}"},
}

Line = tuple[tuple[str, ...], Iterable[str]]
"""The labels of a line and its texts."""


@dataclass(frozen=True)
class Table:
    """A name, a caption, and a frame a block."""

    name: str
    caption: str
    blocks: list[pd.DataFrame]

    def put(self, folder: Path, write: Callable[[Path, bytes], None]) -> None:
        """Both faces into a folder."""
        write(folder / f"{self.name}.md", markdown(self).encode())
        write(folder / f"{self.name}.tex", latex(self).encode())


def table(
    name: str,
    caption: str,
    labels: str,
    columns: Iterable[str | tuple[str, str]],
    blocks: Iterable[Iterable[Line]],
) -> Table:
    """A table of lines, each its labels and its texts; without any it says that nothing was run."""
    heads = [("", head) if isinstance(head, str) else head for head in columns]
    names = labels.split(", ")
    filled = [list(block) for block in blocks]
    empty: list[Line] = [(("",) * len(names), [NOT_RUN] * len(heads))]
    frames = []
    for block in [block for block in filled if block] or [empty]:
        index = pd.MultiIndex.from_tuples([labels for labels, _ in block], names=names)
        texts = [list(texts) for _, texts in block]
        frames.append(pd.DataFrame(texts, index, pd.MultiIndex.from_tuples(heads), dtype=object))
    return Table(name, caption, frames)


def lines(frame: pd.DataFrame) -> list[list[str]]:
    """The lines of a block as texts, labels first."""
    return [[*map(str, line)] for line in frame.reset_index().itertuples(index=False)]


def markdown(table: Table) -> str:
    """The table in Markdown; where a rule would be, an empty line of the table."""
    first = table.blocks[0]
    head = [*first.index.names, *(": ".join(filter(None, pair)) for pair in first.columns)]
    body = [head, ["---"] * len(head)]
    for position, block in enumerate(table.blocks):
        body += [[""] * len(head)] if position else []
        body += lines(block)
    text = "\n".join(f"| {' | '.join(line)} |" for line in body)
    return f"{table.caption}\n\n{text}\n"


def latex(table: Table) -> str:
    """The table in LaTeX."""
    first = table.blocks[0]
    rule = [[r"\midrule", *[""] * (len(first.columns) + first.index.nlevels - 1)]]
    body: list[list[str]] = []
    for position, block in enumerate(table.blocks):
        body += rule if position else []
        body += [[_latex_cell(cell) for cell in line] for line in lines(block)]
    heads = [*(("", name) for name in first.index.names), *first.columns]
    if not any(group for group, _ in heads):
        columns: Any = [escaped(name) for _, name in heads]
    else:
        pairs = [(escaped(group), escaped(name)) for group, name in heads]
        columns = pd.MultiIndex.from_tuples(pairs)
    text = pd.DataFrame(body, columns=columns).to_latex(
        index=False,
        escape=False,
        caption=escaped(table.caption),
        label=f"tab:{table.name}",
        position="htb",
        column_format="l" * first.index.nlevels + "c" * len(first.columns),
        multicolumn_format="c",
    )
    text = re.sub(r"\\midrule( &)+ *\\\\", r"\\midrule", text)
    start, end = r"\begin{tabular}", r"\end{tabular}"
    return text.replace(start, rf"\resizebox{{\linewidth}}{{!}}{{{start}").replace(end, f"{end}}}")


def _latex_cell(text: str) -> str:
    found = re.fullmatch(r"(\*{1,2})(.*)\1", text)
    if found is None:
        return escaped(text)
    command = r"\textbf" if len(found[1]) == 2 else r"\underline"
    return f"{command}{{{escaped(found[2])}}}"


def escaped(text: str) -> str:
    """Text as LaTeX wants it."""
    return re.sub("|".join(map(re.escape, SYMBOLS)), lambda found: SYMBOLS[found[0]], text)
