"""The tables of docs/inversion.md from the rows of `python -m paper inversion`.

python -m paper.inversion_tables results/desk/inversion.jsonl
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from paper.inversion import BINARY, GRID_NOISE, GRID_WELLS, SEED
from paper.rows import read_rows

Row = dict[str, Any]
SHIPPED = "darcy-inversion"
SMALL, LARGE = "es-mda-200x6", "es-mda-1000x8"


class Rows:
    """The rows of the published seed, looked up by what they are."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = [row for row in rows if row["seed"] == SEED]

    def find(
        self, group: str, prior: str, method: str, *, model: str = SHIPPED, **more: Any
    ) -> Row:
        """The row of a cell and a method; an empty one if it was not measured."""
        wanted = {"group": group, "prior": prior, "method": method, **more}
        for row in self.rows:
            if row.get("model", model) == model and all(row[k] == v for k, v in wanted.items()):
                return row
        return {}


def _score(row: Row) -> str:
    if not row:
        return "not measured"
    return f"{row['cross_entropy']:.3f} ({100 * row['wrong']:.1f} %)"


def _ratio(first: Row, second: Row, name: str = "cross_entropy") -> str:
    return f"{first[name] / second[name]:.2f}" if first and second else "—"


def _table(header: list[str], body: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def targets(rows: Rows) -> str:
    """ENS beside ensemble smoothers, 64 heads with 1 % noise on 64 × 64 points."""
    body = []
    for group, rival, name in (
        ("targets", SMALL, "ES-MDA 200 × 6"),
        ("targets-few", LARGE, "ES-MDA 1,000 × 8"),
    ):
        for prior in BINARY:
            ours, theirs = rows.find(group, prior, "ens"), rows.find(group, prior, rival)
            if ours and theirs:
                times = f"1/{theirs['seconds'] / ours['seconds']:.0f}"
                scores = [_score(ours), _score(theirs), _ratio(ours, theirs)]
                body.append([prior, str(ours["instances"]), name, *scores, times])
    header = ["prior", "instances", "rival", "ENS", "rival's", "ratio", "time"]
    return _table(header, body)


def classical(rows: Rows) -> str:
    """The other methods on the two-phase cell."""
    names = {
        "ens": "ENS",
        "es-mda-200x6-localised": "ES-MDA 200 × 6, localised",
        SMALL: "ES-MDA 200 × 6",
        "laplace": "Gauss-Newton, Laplace",
        "total-variation": "total variation",
    }
    found = [(name, rows.find("targets", "two-phase", key)) for key, name in names.items()]
    body = [
        [name, _score(row), f"{100 * row['calibration']:.1f} %", f"{row['seconds']:.2f}"]
        for name, row in found
        if row
    ]
    return _table(["method", "cross-entropy (wrong cells)", "calibration error", "CPU s"], body)


def grid(rows: Rows) -> str:
    """Cross-entropy of ENS over that of ES-MDA 200 × 6, by wells and noise."""
    body = []
    for prior in BINARY:
        for wells in GRID_WELLS:
            line = [prior, str(wells)]
            for noise in GRID_NOISE:
                pair = [
                    rows.find("grid", prior, method, wells=wells, noise=noise)
                    for method in ("ens", SMALL)
                ]
                line.append(_ratio(pair[0], pair[1]))
            body.append(line)
    return _table(["prior", "wells", *(f"{100 * noise:g} % noise" for noise in GRID_NOISE)], body)


def shifts(rows: Rows) -> str:
    """What neither method was told of."""
    names = {
        "shift-length": "half the correlation length",
        "shift-contrast": "30 / 3 instead of 12 / 3, and told so",
        "shift-noise": "3 % noise, told 1 %",
        "anchor": "128 × 128, 500 heads, no noise",
    }
    body = []
    for group, name in names.items():
        found = [rows.find(group, "two-phase", method) for method in ("ens", SMALL, "laplace")]
        if found[0]:
            scores = [_score(row) for row in found]
            body.append([name, str(found[0]["instances"]), *scores, _ratio(found[0], found[1])])
    header = ["cell", "instances", "ENS", "ES-MDA 200 × 6", "Gauss-Newton, Laplace"]
    return _table([*header, "ENS / ES-MDA"], body)


def calibration(rows: Rows) -> str:
    """Reliability of the probability, and of intervals of the head from 19 samples."""
    body = []
    for prior in BINARY:
        row, drawn = (
            rows.find("targets", prior, "ens"),
            rows.find("targets-few", prior, "ens-samples"),
        )
        if row and drawn:
            covered, missed = (sum(drawn[k]) / len(drawn[k]) for k in ("coverage", "misfit"))
            body.append(
                [
                    prior,
                    f"{100 * row['calibration']:.1f} %",
                    f"{100 * covered:.0f} %",
                    f"{missed:.1f}",
                ]
            )
    header = ["prior", "calibration error", "90 % intervals cover", "misfit of a sample / noise"]
    return _table(header, body)


def signals(rows: Rows) -> str:
    """What reading the mismatch adds: networks of equal minutes, two-phase only."""
    names = {
        "seven-none": "nothing (one shot from the filled heads)",
        "seven-gradient": "its raw adjoint gradient",
        "seven-kalman": "its Kalman form",
    }
    found = [
        (name, rows.find("targets", "two-phase", "ens", model=key)) for key, name in names.items()
    ]
    body = [[name, _score(row), f"{row['minutes']:g}"] for name, row in found if row]
    return _table(["of the mismatch it reads", "cross-entropy (wrong cells)", "CPU minutes"], body)


def chains(rows: Rows) -> str:
    """Two tempered chains on one instance of each prior, beside ENS."""
    body = []
    for prior in BINARY:
        chain, ours = rows.find("chain", prior, "chain"), rows.find("chain", prior, "ens")
        if chain and ours:
            numbers = [f"{chain['solves'][0]:,.0f}", f"{chain['r_hat'][0]:.1f}"]
            body.append([prior, *numbers, _score(chain), _score(ours)])
    return _table(["prior", "forward solves", "R-hat", "chains", "ENS"], body)


TABLES = (targets, classical, calibration, grid, shifts, signals, chains)


if __name__ == "__main__":
    stored = Rows(read_rows(Path(sys.argv[1])))
    for table in TABLES:
        print(f"{table.__doc__}\n\n{table(stored)}\n")
