"""Tables about the experiments themselves: what data cost, and what changes after training."""

from __future__ import annotations

from typing import Any

from neuralsolver.report.layout import NOT_RUN, Cell, Line, Table, marked, measured, number, quoted
from neuralsolver.report.published import columns_of, printed
from neuralsolver.report.rows import Results
from neuralsolver.report.style import METHOD_STYLE
from neuralsolver.report.tables import MARKS

GENERATION = {
    "Linear Helmholtz": "Helmholtz κ=1",
    "Poisson": "Poisson",
    "Nonlinear Helmholtz": "nonlinear Helmholtz κ=2 λ=1",
    "Darcy": "Darcy",
    "Navier-Stokes": "Navier-Stokes",
    "Kolmogorov Flow": "Kolmogorov",
}
"""Equations of tab:datagen, and how their names begin in reference.json."""


def data_generation(results: Results) -> Table:
    """Seconds to compute one training sample."""
    study: list[dict[str, Any]] = results.study("reference") or []
    lines = []
    for equation, beginning in GENERATION.items():
        row = next((row for row in study if str(row["equation"]).startswith(beginning)), {})
        ours, textbook = row.get("seconds"), row.get("baseline_seconds")
        cells = (
            quoted(printed("datagen", equation, "all", "seconds")),
            Cell(number(textbook) if textbook else NOT_RUN),
            Cell(number(ours) if ours else NOT_RUN),
        )
        lines.append(Line((equation, str(row.get("method", ""))), cells))
    caption = (
        "Seconds per sample of data generation (the paper's tab:datagen), 128 × 128; ours on one "
        "CPU thread, from reference.json."
    )
    columns = ("paper", "textbook solver here", "our solver here")
    return Table("data-generation", caption, ("equation", "our solver"), columns, (tuple(lines),))


EXTRAPOLATION = {
    "linear Helmholtz": ("helmholtz", {"Extrapolation": "shift"}),
    "nonlinear Helmholtz": ("nonlinear-helmholtz", {"Extrapolation": "shift"}),
    "Poisson": ("poisson", {"Scaling shift": "shift"}),
    "Darcy flow": ("darcy", {"Forcing shift": "shift"}),
    "Navier-Stokes": ("navier-stokes", {}),
    "Kolmogorov flow": ("kolmogorov", {}),
}


def extrapolation(results: Results) -> Table:
    """What changes between training and evaluation, and what it costs."""
    methods = ("fno", "ens", "ens-contractive")
    blocks = []
    for equation, (experiment, keys) in EXTRAPOLATION.items():
        block = []
        for heading in columns_of("extrap", equation):
            regime = keys.get(heading, heading.lower().replace(" ", "-"))
            rows = [results.get(experiment, regime, method) for method in methods]
            trained = results.get(experiment, "in-distribution", "ens-contractive")
            trained = trained or results.get(experiment, "in-distribution", "fno")
            found = next((row for row in rows if row is not None), None)
            grids = f"{trained.resolution} → {found.resolution}" if trained and found else NOT_RUN
            ends = [
                quoted(printed("extrap", equation, heading, metric))
                for metric in ("training", "evaluation")
            ]
            errors = marked([measured(row, "error") for row in rows])
            block.append(Line((equation, heading), (*ends, Cell(grids), *errors)))
        blocks.append(tuple(block))
    caption = f"Regimes of extrapolation (the paper's tab:extrap), and our L₂ errors there. {MARKS}"
    names = [METHOD_STYLE[method].label for method in methods]
    columns = ("training", "evaluation", "grid here", *names)
    return Table("extrapolation", caption, ("equation", "regime"), columns, tuple(blocks))
