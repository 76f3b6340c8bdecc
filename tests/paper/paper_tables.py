"""The tables of the paper as its TeX source has them, in the columns of published.csv."""

from __future__ import annotations

import re

Cell = tuple[str, str, str, str, str, str]
"""Table, row, column, metric, value, mark."""

METRICS = {"L2 Rel": "error", "L2": "error", "PDE Res": "residual", "PDE p-in (C)": "residual"}
METRICS |= {"Time(s)": "seconds", "Time (s)": "seconds"}
METRICS |= {"k": "steps", "Convergence": "converged"}

SYMBOLS = {
    r"\kappa": "κ",
    r"\lambda": "λ",
    r"\nu": "ν",
    r"\pi": "π",
    r"\ding{51}": "yes",
    r"\ding{55}": "no",
}


def cells(source: str) -> list[Cell]:
    """Every number of every table."""
    found: list[Cell] = []
    for table in re.findall(r"\\begin{table\*?}(.*?)\\end{table\*?}", source, flags=re.DOTALL):
        label = re.search(r"\\label{tab:(\w+)}", table)
        body = re.search(r"\\begin{tabular}{\w+}(.*)\\end{tabular}", table, flags=re.DOTALL)
        assert label is not None
        assert body is not None
        parser = SPECIAL.get(label[1], grouped)
        found += [(label[1], *rest) for rest in parser(lines_of(body[1]))]
    return found


def lines_of(body: str) -> list[list[str]]:
    body = re.sub(r"\\(top|mid|bottom)rule|\\cmidrule\(\w+\){[-\d]+}|\\vspace{[^}]*}", "", body)
    lines = [[" ".join(cell.split()) for cell in line.split("&")] for line in body.split(r"\\")]
    return [line for line in lines if any(line)]


def plain(cell: str) -> str:
    cell = re.sub(r"(\d) \\times 10\^{-(\d)}", r"\1e-\2", cell)
    cell = re.sub(r"10\^{-(\d)}", r"1e-\1", cell).replace(r"\times", "×")
    for symbol, letter in SYMBOLS.items():
        cell = cell.replace(symbol, letter)
    cell = re.sub(r"\\text(?:bf|it){(.*)}|\\underline{(.*)}", r"\1\2", cell)
    cell = cell.replace("$", "").replace("_2", "2")
    return re.sub(r" ?= ?", "=", re.sub(r" ?\((?:ours|Ours)\)", "", cell)).strip()


def mark_of(cell: str) -> str:
    return "best" if r"\textbf" in cell else "second" if r"\underline" in cell else ""


def grouped(lines: list[list[str]]) -> list[tuple[str, ...]]:
    """A table whose head is a line of groups over a line of metrics."""
    groups: list[str] = []
    for cell in lines[0]:
        span = re.search(r"\\multicolumn{(\d)}{c}{(.*)}", cell)
        groups += [span[2]] * int(span[1]) if span else [""]
    metrics = [METRICS.get(plain(cell), "") for cell in lines[1]]
    # the paper gives the time of in-distribution inference, or of sampling whatever the equation
    anywhere = "In-distribution" if "In-distribution" in groups else "all"
    return [
        (plain(line[0]), group or anywhere, metric, plain(cell), mark_of(cell))
        for line in lines[2:]
        for cell, group, metric in zip(line[1:], groups[1:], metrics[1:], strict=False)
        if metric
    ]


def taxonomy(lines: list[list[str]]) -> list[tuple[str, ...]]:
    found = []
    for method, baselines, _, costs, _ in lines[1:]:
        names = plain(method) if baselines == "---" else baselines
        for name, cost in zip(names.split(", "), plain(costs).split(", "), strict=True):
            found.append((name, "Navier-Stokes", "seconds", cost, ""))
    return found


def generation(lines: list[list[str]]) -> list[tuple[str, ...]]:
    names, values = ([plain(cell) for cell in line[1:]] for line in lines)
    return [(name, "all", "seconds", value, "") for name, value in zip(names, values, strict=True)]


def regimes(lines: list[list[str]]) -> list[tuple[str, ...]]:
    return [
        (plain(equation), plain(regime), metric, plain(cell), "")
        for equation, regime, *both in lines[1:]
        for metric, cell in zip(("training", "evaluation"), both, strict=True)
    ]


SPECIAL = {"comparison": taxonomy, "datagen": generation, "extrap": regimes}
