"""Cells: what a table prints of a row, and the number by which cells are compared.

    cells(results)    (experiment, regime, method, metric) → text, value

A table is a pivot of this frame. Only a number for which every sample has an answer, most of them
the network's where there is one, has a `value` and takes part in the choice of the best.

The 95 % interval of a mean is that of the bootstrap: the 2.5 % and 97.5 % quantiles of the means of
`RESAMPLES` samples drawn with replacement, always the same draws. Rows that have kept the spread s
and not the errors have mean ± t s/√(n − 1), t of Student's distribution. Below `FEWEST` samples
neither is worth its ink.

An iteration has converged when, with y the mean error and the root of the mean square residual,
no sample diverged, y has at least halved, and over the last third of the steps y has changed by no
more than the fraction `REST`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from paper.methods import LEARNED, METHODS
from paper.results import FAILURES, PLACE, Results, Row, count

NOT_RUN = "not run"
METRICS = {"error": "L₂", "residual": "residual"}
BUDGET = {"minutes": "minutes", "batches": "batches", "weights": "weights"}
"""What a trained row was given, and the headings of these columns."""
WORDS = {"DIVERGED": "diverged", "OUT_OF_MEMORY": "out of memory", "NOT_APPLICABLE": "n/a"}
WORDS |= {"STEP_LIMIT": "at the step limit", "WITHOUT_NETWORK": "answered without network"}
PRINTED_WORDS = {"OOM": "out of memory", "N/A": "n/a"}
AROUND = {"best": "**", "second": "*", "": ""}
"""Marks as Markdown has them; it has no underline."""

MARKS = (
    "Ours are marked among the learned methods with an answer for every sample, most of them the "
    "network's own (best bold, second "
    "underlined, in Markdown italic), the paper's numbers as in the paper. ± is the longer side of "
    "the 95 % interval of the mean over the samples (bootstrap; normal, from the spread, for rows "
    "without their errors), from 8 samples on. In brackets: over how many samples a mean is, where "
    "they are fewer than those of other methods, and the share of the official steps that an "
    "instance was optimised for. † measured once, on a seed that nobody had looked at (20412); all "
    "others on the development seed (20264)."
)
BUDGETS = (
    "Minutes are CPU minutes of one core that the models of a row were trained for; after ≈ those "
    "that as many batches take on a core of its own, for models trained by the clock on a shared "
    "machine; a dash: not kept."
)

Cell = tuple[str, float]
"""A text, and the value that is compared or NaN."""


Interval = tuple[float, float]
RESAMPLES, FEWEST = 2000, 8
REST = 0.05
CONVERGED = "yes"


def bootstrap_interval(errors: Sequence[float | None]) -> Interval | None:
    """The interval of the mean of some errors; None where they are too few or not all finite."""
    values = np.array([math.nan if error is None else error for error in errors], dtype=np.float64)
    count = len(values)
    if count < FEWEST or not np.isfinite(values).all():
        return None
    draws = np.random.default_rng(count).integers(count, size=(RESAMPLES, count))
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def normal_interval(mean: float, spread: float, count: int) -> Interval | None:
    """The interval of a mean over `count` errors whose standard deviation is `spread`."""
    if count < FEWEST or not math.isfinite(mean) or not math.isfinite(spread):
        return None
    half = float(t.ppf(0.975, count - 1)) * spread / math.sqrt(count - 1)
    return mean - half, mean + half


def convergence(
    history: Mapping[str, Sequence[float | None]] | None, diverged: int = 0, samples: int = 0
) -> str:
    """ "yes", or "no" and why; `diverged` of the `samples` left the iteration."""
    if diverged:
        return f"no, {diverged} of {samples} diverged"
    error, square = (
        np.array((history or {}).get(key) or (), float) for key in ("error", "residual")
    )
    curves = [error, np.sqrt(square)]
    if any(len(curve) < 4 for curve in curves):
        return "no, too few steps"
    if not all(np.isfinite(curve).all() for curve in curves):
        return "no, diverged"
    pairs = [(curve[-1], curve[-1 - math.ceil((len(curve) - 1) / 3)]) for curve in curves]
    if any(now > (1 + REST) * then for now, then in pairs):
        return "no, rising"
    if any(curve[-1] > curve[0] / 2 for curve in curves):
        return "no, not left its start"
    falling = any(now < (1 - REST) * then for now, then in pairs)
    return "no, still falling" if falling else CONVERGED


def number(value: float) -> str:
    """A number as the paper prints it: 3.04e-03."""
    return f"{value:.2e}"


def remarks(row: Row) -> str:
    """What did not go as asked, in words; nothing if everything did."""
    total = sum(row["status"].values())
    counts = {word: count(row, name) for name, word in WORDS.items()}
    return ", ".join(
        word if found == total else f"{found} of {total} {word}"
        for word, found in counts.items()
        if found
    )


def measured(row: Row, metric: str, counted: bool = False) -> Cell:
    """The cell of a number of ours: the value, and in words whatever did not go as asked.

    A mean over fewer samples than the others of its regime says over how many, unless the line has
    `counted` them; one of a method that optimises each instance also what share of its official
    steps that was given.
    """
    value, remark = row[metric], remarks(row)
    if not math.isfinite(value):
        return remark or "n/a", math.nan
    text = f"{value:.1f}" if metric == "steps" else number(value)
    if metric == "error":
        text += ("†" if row["fresh"] else "") + _half_width(row)
    effort = [f"{row['effort']:.0%}"] if row["effort"] > 0 else []
    few = [str(row["samples"])] if (row["few"] and not counted) or effort else []
    if few or effort:
        text += f" [{', '.join([*few, *effort])}]"
    if remark:
        text += f" ({remark})"
    unclear = METHODS[row["method"]].kind in LEARNED and not row["credited"]
    if unclear and math.isnan(row["answers"]):
        text += " (whose answers: not recorded)"
    nowhere = metric == "steps" and converged(row) != CONVERGED  # few steps are no merit there
    return text, math.nan if unclear or row["failed"] or nowhere else float(value)


def _half_width(row: Row) -> str:
    """The longer side of the 95 % interval of the mean, in percent of it."""
    error = row["error"]
    if row["errors"]:
        interval = bootstrap_interval(row["errors"])
    else:
        interval = normal_interval(error, row["error_spread"], row["samples"])
    if interval is None or not error:
        return ""
    percent = 100 * max(interval[1] - error, error - interval[0]) / error
    if percent < 0.05:
        return ""  # the zero field is wrong by 1 everywhere
    return f" ±{percent:.1g}%" if percent < 1 else f" ±{percent:.0f}%"


def converged(row: Row) -> str:
    """Whether its iteration came to rest; one that stopped by its own residual has."""
    total = sum(row["status"].values())
    if total and count(row, "TOLERANCE", "PLATEAU") == total:
        return CONVERGED
    return convergence(row["history"], row["failed"], total)


def budget(training: Mapping[str, Any] | None, key: str) -> str:
    """One number of a budget, a dash where nobody has kept it."""
    value = (training or {}).get(key)
    if value is None:
        return "-"
    if key == "minutes":
        return f"{'≈' if (training or {}).get('clock') == 'again' else ''}{value:.0f}"
    return f"{value / 1e6:.2g} M" if key == "weights" and value >= 1e5 else f"{value:,}"


def _budget(row: Row, key: str) -> Cell:
    method = METHODS[row["method"]]
    # what is without a network only takes its grid and its sweeps from the model
    trained = method.recipes and method.kind != "classical"
    return budget(row["training"], key) if trained else "", math.nan


def _seconds(row: Row, metric: str) -> Cell:
    value = row[metric]
    return ("not timed" if math.isnan(value) else number(value)), value


def _answered(row: Row, metric: str) -> Cell:
    total = sum(row["status"].values())
    return f"{total - count(row, *FAILURES, 'STEP_LIMIT')} of {total}", math.nan


def _network(row: Row, metric: str) -> Cell:
    known = not math.isnan(row["answers"])
    return (f"{row['answers']:.0f} of {row['samples']}" if known else "not recorded"), math.nan


def _median(row: Row, metric: str) -> Cell:
    if not row["errors"] or None in row["errors"]:
        return "n/a", math.nan
    return number(float(pd.Series(row["errors"]).median())), math.nan


FOUND: dict[str, Callable[[Row, str], Cell]] = {
    **dict.fromkeys(("error", "residual", "steps"), measured),
    **dict.fromkeys(BUDGET, _budget),
    **dict.fromkeys(("seconds_batch_1", "seconds_batch_32"), _seconds),
    "answered": _answered,
    "network": _network,
    "median": _median,
    "converged": lambda row, metric: (converged(row), math.nan),
}
"""How the cell of each metric is found."""


def cells(rows: pd.DataFrame, metrics: Collection[str]) -> pd.DataFrame:
    """The cells of some rows: text and value by experiment, regime, method and metric."""
    found = [
        (*place, metric, *FOUND[metric](row, metric))
        for place, row in rows.iterrows()
        for metric in metrics
    ]
    columns = [*PLACE, "metric", "text", "value"]
    return pd.DataFrame(found, columns=columns).set_index(columns[:4])


def marked(text: pd.DataFrame, value: pd.DataFrame) -> pd.DataFrame:
    """The texts with the smallest value of every column bold and the next in italics.

    Values that are printed alike are equal and share a mark.
    """
    rank = value.map(lambda x: float(number(x)), na_action="ignore").rank(method="dense")
    return text.where(rank != 1, "**" + text + "**").where(rank != 2, "*" + text + "*")


def quoted(printed: pd.DataFrame) -> pd.Series:
    """What the paper prints, with its own marks."""
    text = printed["value"].replace(PRINTED_WORDS)
    around = printed["mark"].map(AROUND)
    return around + text + around


def sizes(results: Results, experiment: str, regimes: Collection[str]) -> str:
    """Grids and samples of our rows, in a sentence."""
    rows = results.of(experiment, regimes)
    if rows.empty:
        return "None of our rows is there yet. "
    samples = ", ".join(map(str, sorted(rows["samples"].unique())))
    return f"Grids here: {results.grids(experiment, regimes)}; samples: {samples}. "
