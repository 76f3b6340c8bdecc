"""The tables of docs/inversion.md from the rows of `python -m paper inversion`.

python -m paper.inversion_tables results/desk/inversion.jsonl
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from paper.inversion import BINARY, SEED, Row
from paper.rows import read_rows

SHIPPED, SMALL = "darcy-inversion", "es-mda-200x6"
METHODS = {
    "ens": "ENS",
    "es-mda-200x6": "ES-MDA 200 × 6",
    "es-mda-1000x8": "ES-MDA 1,000 × 8",
    "laplace": "Gauss-Newton, Laplace",
    "total-variation": "total variation",
}
SHIFTS = {
    "shift-length": "half the correlation length",
    "shift-contrast": "30 / 3 instead of 12 / 3, and told so",
    "shift-noise": "3 % noise, told 1 %",
    "anchor": "128 × 128, 500 heads, no noise",
}
SIGNALS = {
    "seven-none": "nothing (one shot from the filled heads)",
    "seven-gradient": "its raw adjoint gradient",
    "seven-kalman": "its Kalman form",
}


def frame_of(rows: Iterable[Row]) -> pd.DataFrame:
    """The rows of the published seed, priors in their order, with scores and names as texts."""
    frame = pd.DataFrame([row for row in rows if row["seed"] == SEED])
    frame["model"] = frame["model"].fillna(SHIPPED)
    frame["prior"] = pd.Categorical(frame["prior"], BINARY, ordered=True)
    frame["name"] = frame["method"].map(METHODS)
    pairs = zip(frame["cross_entropy"], frame["wrong"], strict=True)
    frame["score"] = [f"{entropy:.3f} ({100 * wrong:.1f} %)" for entropy, wrong in pairs]
    frame["percent"] = 100 * frame["calibration"]
    return frame.sort_values("prior", kind="stable")


def _chosen(frame: pd.DataFrame, method: str, *groups: str, model: str = SHIPPED) -> pd.DataFrame:
    of_groups = frame[frame["group"].isin(groups) & (frame["method"] == method)]
    return of_groups[of_groups["model"] == model]


def _beside(ours: pd.DataFrame, theirs: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Rows of two methods on the same cells; the second's columns end in _."""
    both = ours.merge(theirs, on=["group", *by], suffixes=("", "_"))
    return both.assign(
        ratio=both["cross_entropy"] / both["cross_entropy_"],
        times=both["seconds_"] / both["seconds"],
    )


def _table(heads: str, line: str, frame: pd.DataFrame) -> str:
    """Markdown: the heads, and one line for each row."""
    rule = " | ".join("---" for _ in heads.split(" | "))
    lines = [heads, rule, *(line.format_map(row) for row in frame.to_dict("records"))]
    return "\n".join(f"| {text} |" for text in lines)


def targets(frame: pd.DataFrame) -> str:
    """ENS beside ensemble smoothers, 64 heads with 1 % noise on 64 × 64 points."""
    pairs = (("targets", SMALL), ("targets-few", "es-mda-1000x8"))
    found = [
        _beside(_chosen(frame, "ens", group), _chosen(frame, rival, group), "prior")
        for group, rival in pairs
    ]
    heads = "prior | instances | rival | ENS | rival's | ratio | time"
    line = "{prior} | {instances} | {name_} | {score} | {score_} | {ratio:.2f} | 1/{times:.0f}"
    return _table(heads, line, pd.concat(found))


def classical(frame: pd.DataFrame) -> str:
    """The other methods on the two-phase cell."""
    rows = pd.concat(_chosen(frame, method, "targets") for method in METHODS)
    heads = "method | cross-entropy (wrong cells) | calibration error | CPU s"
    line = "{name} | {score} | {percent:.1f} % | {seconds:.2f}"
    return _table(heads, line, rows[rows["prior"] == "two-phase"])


def calibration(frame: pd.DataFrame) -> str:
    """Reliability of the probability, and of intervals of the head from 19 samples."""
    drawn = _chosen(frame, "ens-samples", "targets-few")[["prior", "coverage", "misfit"]]
    for name in ("coverage", "misfit"):
        drawn[name] = drawn[name].map(np.mean)
    both = _chosen(frame, "ens", "targets").drop(columns=["coverage", "misfit"]).merge(drawn)
    heads = "prior | calibration error | 90 % intervals cover | misfit of a sample / noise"
    line = "{prior} | {percent:.1f} % | {cover:.0f} % | {misfit:.1f}"
    return _table(heads, line, both.assign(cover=100 * both["coverage"]))


def grid(frame: pd.DataFrame) -> str:
    """Cross-entropy of ENS over that of ES-MDA 200 × 6, by wells and noise."""
    pairs = (_chosen(frame, method, "grid") for method in ("ens", SMALL))
    both = _beside(*pairs, "prior", "wells", "noise")
    ratios = both.pivot(index=["prior", "wells"], columns="noise", values="ratio")
    heads = " | ".join(["prior", "wells", *(f"{100 * noise:g} % noise" for noise in ratios)])
    ratios.columns = [f"noise_{100 * noise:.0f}" for noise in ratios]
    line = " | ".join(["{prior}", "{wells}", *(f"{{{name}:.2f}}" for name in ratios)])
    return _table(heads, line, ratios.reset_index())


def shifts(frame: pd.DataFrame) -> str:
    """What neither method was told of."""
    ours, theirs, modes = (_chosen(frame, name, *SHIFTS) for name in ("ens", SMALL, "laplace"))
    both = _beside(ours, theirs).merge(modes[["group", "score"]], on="group", suffixes=("", "_gn"))
    both = both.set_index("group").loc[[*SHIFTS]].assign(cell=list(SHIFTS.values()))
    heads = "cell | instances | ENS | ES-MDA 200 × 6 | Gauss-Newton, Laplace | ENS / ES-MDA"
    line = "{cell} | {instances} | {score} | {score_} | {score_gn} | {ratio:.2f}"
    return _table(heads, line, both)


def signals(frame: pd.DataFrame) -> str:
    """What reading the mismatch adds: networks of equal minutes, two-phase only."""
    rows = pd.concat(_chosen(frame, "ens", "targets", model=model) for model in SIGNALS)
    heads = "of the mismatch it reads | cross-entropy (wrong cells) | CPU minutes"
    line = "{reads} | {score} | {minutes:g}"
    return _table(heads, line, rows.assign(reads=rows["model"].map(SIGNALS)))


def chains(frame: pd.DataFrame) -> str:
    """Two tempered chains on one instance of each prior, beside ENS."""
    both = _beside(_chosen(frame, "ens", "chain"), _chosen(frame, "chain", "chain"), "prior")
    heads = "prior | forward solves | R-hat | chains | ENS"
    line = "{prior} | {solves_[0]:,.0f} | {r_hat_[0]:.1f} | {score_} | {score}"
    return _table(heads, line, both)


TABLES = (targets, classical, calibration, grid, shifts, signals, chains)


if __name__ == "__main__":
    stored = frame_of(read_rows(Path(sys.argv[1])))
    for table in TABLES:
        print(f"{table.__doc__}\n\n{table(stored)}\n")
