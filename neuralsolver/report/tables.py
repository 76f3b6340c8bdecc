"""The tables of the paper with our numbers beside the printed ones.

A line named "here" is ours, a line named "paper" repeats what the paper prints, with the paper's
own marks. Ours are marked among the learned methods that gave an answer for every sample. Classical
solvers and floors stand below a rule and take no part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from neuralsolver.report.layout import (
    NOT_RUN,
    Cell,
    Line,
    Table,
    mark_columns,
    measured,
    quoted,
)
from neuralsolver.report.published import printed, rows_of
from neuralsolver.report.rows import Results, Row
from neuralsolver.report.style import BACKBONES, COARSE, EXPERIMENTS, styles_in

HERE, PAPER = "here", "paper"
MARKS = (
    "Ours are marked among the learned methods with an answer for every sample (best bold, second "
    "underlined, in Markdown italic), the paper's numbers as in the paper."
)
PRINTED_NAME = {"ens": "ENS", "fno": "FNO", "pino": "PINO", "pino-ttop": "PINO(TTOP)"}
LEARNED = (
    "ens",
    "ens-plateau",
    "ens-contractive",
    "ens-accelerated",
    "fno",
    "pino",
    "pino-ttop",
)
UNLEARNED = ("reference", "truth", "zero")
FLOW_LEARNED = (
    "ens",
    "ens-contractive",
    "ens-accelerated",
    "ens-contractive-cnn",
    "fno",
    "pino",
    "pino-ttop",
)
FLOW_UNLEARNED = ("truth", "reference", *COARSE, "still", "zero")
FLOW_FLOOR = (
    "The truth of a flow has a residual too, the floor below the rule: under it, less is no better."
)


@dataclass(frozen=True)
class Forward:
    """One table of forward predictions: its label in the paper and its regimes in their order.

    `regimes` maps our keys to the printed headings.
    """

    experiment: str
    label: str
    regimes: Mapping[str, str]
    timed: bool = False


IN, CROSS, SUPER = "In-distribution", "Cross-equation", "Super-resolution"
FLOW = {
    "in-distribution": IN,
    "viscosity-shift": "Viscosity-shift",
    "forcing-shift": "Forcing-shift",
    "super-resolution": SUPER,
}
FORWARD = (
    Forward(
        "helmholtz",
        "forward_helmholtz",
        {
            "in-distribution": IN,
            "shift": "Wavenumber-shift",
            "cross-equation": CROSS,
            "super-resolution": SUPER,
        },
        timed=True,
    ),
    Forward(
        "poisson",
        "forward_poisson",
        {
            "in-distribution": IN,
            "super-resolution": SUPER,
            "shift": "Extrapolation",
            "cross-equation": CROSS,
        },
    ),
    Forward(
        "darcy",
        "Darcy",
        {"in-distribution": IN, "shift": "Extrapolation", "super-resolution": SUPER},
    ),
    Forward(
        "nonlinear-helmholtz",
        "nonlinear_hz",
        {"in-distribution": IN, "shift": "Extrapolation", "super-resolution": SUPER},
    ),
    Forward("navier-stokes", "forward_NS", FLOW, timed=True),
    Forward("kolmogorov", "kolmogorov", FLOW, timed=True),
)
STATIC, DYNAMIC = FORWARD[:4], FORWARD[4:]


Names = Mapping[str, str]
"""Methods and what the paper calls them, empty where it has none."""


def forward(spec: Forward) -> Callable[[Results], Table | None]:
    """The maker of one table of forward predictions; flows only once they have been run."""
    learned, unlearned = (FLOW_LEARNED, FLOW_UNLEARNED) if spec in DYNAMIC else (LEARNED, UNLEARNED)

    def make(results: Results) -> Table | None:
        if spec in DYNAMIC and spec.experiment not in results.experiments:
            return None
        caption = (
            f"{EXPERIMENTS[spec.experiment]}: forward prediction (the paper's tab:{spec.label})."
        )
        return against_paper(
            results,
            spec,
            name=f"forward-{spec.experiment}",
            caption=f"{caption} {FLOW_FLOOR}" if spec in DYNAMIC else caption,
            learned=[{method: PRINTED_NAME.get(method, "") for method in learned}],
            unlearned=unlearned,
        )

    return make


def against_paper(
    results: Results,
    spec: Forward,
    *,
    name: str,
    caption: str,
    learned: Sequence[Names],
    unlearned: tuple[str, ...],
) -> Table:
    """Our learned methods above what the paper prints for them, a block each of `learned`.

    Below follow the methods that are quoted only, and those that are not learned.
    """
    known = {printed_name for names in learned for printed_name in names.values()}
    others = [row for row in rows_of(spec.label) if row not in known]
    quoted_only = [Line((row, PAPER), _printed_cells(spec, row)) for row in others]
    floors = [_our_line(results, spec, method) for method in unlearned]
    blocks = [*(_block(results, spec, names) for names in learned), quoted_only, floors]
    columns = ("L₂", "residual") * len(spec.regimes)
    groups = tuple((heading, 2) for heading in spec.regimes.values())
    return Table(
        name,
        f"{caption} {sizes(results, spec.experiment, spec.regimes)}{MARKS}",
        ("method", "source"),
        (("seconds",) if spec.timed else ()) + columns,
        tuple(tuple(block) for block in blocks if block),
        ((("", 1),) if spec.timed else ()) + groups,
    )


def _block(results: Results, spec: Forward, names: Names) -> list[Line]:
    """Learned methods, marked among themselves, each above what the paper prints for it."""
    ours = mark_columns([_our_line(results, spec, method) for method in names])
    block: list[Line] = []
    for line, printed_name in zip(ours, names.values(), strict=True):
        block.append(line)
        if printed_name:
            block.append(Line(("", PAPER), _printed_cells(spec, printed_name)))
    return block


def _our_line(results: Results, spec: Forward, method: str) -> Line:
    label = styles_in(spec.experiment)[method].label
    return Line((label, HERE), _our_cells(results, spec, method))


def _our_cells(results: Results, spec: Forward, method: str) -> tuple[Cell, ...]:
    cells = []
    if spec.timed:
        row = results.get(spec.experiment, "in-distribution", method)
        cells.append(_seconds(row))
    for regime in spec.regimes:
        row = results.get(spec.experiment, regime, method)
        cells += [measured(row, "error"), measured(row, "residual")]
    return tuple(cells)


def _seconds(row: Row | None) -> Cell:
    if row is not None and row.seconds_batch_1 is None:
        return Cell("not timed")
    return measured(row, "seconds_batch_1")


def _printed_cells(spec: Forward, row: str) -> tuple[Cell, ...]:
    cells = [quoted(printed(spec.label, row, IN, "seconds"))] if spec.timed else []
    for heading in spec.regimes.values():
        for metric in ("error", "residual"):
            cells.append(quoted(printed(spec.label, row, heading, metric)))
    return tuple(cells)


def sizes(results: Results, experiment: str, regimes: Collection[str]) -> str:
    """Grid, samples and seeds of our rows, in a sentence."""
    rows = [
        row
        for (name, regime, _), row in results.rows.items()
        if name == experiment and regime in regimes
    ]
    if not rows:
        return "None of our rows is there yet. "
    grids = sorted({row.resolution for row in rows})
    samples = sorted({row.samples // row.seeds for row in rows})
    seeds = max(row.seeds for row in rows)
    text = f"Grids here: {', '.join(f'{n} × {n}' for n in grids)}; "
    text += f"samples: {', '.join(map(str, samples))}"
    return text + (f"; up to {seeds} seeds, mean ± spread between them. " if seeds > 1 else ". ")


def backbones(results: Results) -> Table:
    """ENS with five backbones."""
    metrics = ("error", "residual", "steps")
    lines = []
    for method in BACKBONES:
        row = results.get(results.ablations, "in-distribution", method)
        cells = [measured(row, metric) for metric in metrics]
        converged = _converged(row)
        if converged.text == "no":  # then the number of steps is no achievement
            cells[-1] = replace(cells[-1], value=None)
        lines.append(Line((BACKBONES[method], HERE), (*cells, converged)))
    block: list[Line] = []
    for line in mark_columns(lines):
        block.append(line)
        cells = [
            quoted(printed("Ablation", line.labels[0], "Helmholtz", metric))
            for metric in (*metrics, "converged")
        ]
        block.append(Line(("", PAPER), tuple(cells)))
    caption = (
        "Helmholtz in-distribution, ENS with other backbones (the paper's tab:Ablation). "
        f"{sizes(results, results.ablations, ('in-distribution',))}Converged here means: no sample "
        f"diverged or was still falling at the limit. {MARKS}"
    )
    columns = ("L₂", "residual", "k", "converged")
    return Table("backbones", caption, ("backbone", "source"), columns, (tuple(block),))


def _converged(row: Row | None) -> Cell:
    if row is None:
        return Cell(NOT_RUN)
    return Cell("no" if row.count("DIVERGED", "OUT_OF_MEMORY", "STEP_LIMIT") else "yes")
