"""Conditioning: the singular values behind every residual, of static equations and of flows."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from paper.methods import BLUE, GREY, VERMILION
from paper.regimes import EXPERIMENTS
from paper.results import Results, experiment_label
from paper.style import canvas, curve, furnish, shared_legend, styles_of
from paper.typeset import Table, table

SYMBOLS = {"scale": "a", "wavenumber": "κ", "nonlinearity": "λ", "low": "a from", "high": "to"}
"""The constants that an operator depends on."""


def conditioning(results: Results) -> Figure | None:
    """Smallest singular value and condition number of every linearised equation."""
    rows = [row for row in results.study("conditioning") or [] if row.get("smallest")]
    if not rows:
        return None
    names = []
    for row in rows:
        constants = row.get("constants") or {}
        words = [f"{s} {constants[key]:g}" for key, s in SYMBOLS.items() if constants.get(key)]
        names.append(", ".join([experiment_label(row["equation"]), *words]))
    places = list(range(len(rows)))[::-1]
    grids = ", ".join(sorted({f"{row['resolution']} points a side" for row in rows}))
    title = "An error can be as large as the residual over the smallest singular value"
    size = (9.0, 0.34 * len(rows) + 1.5)
    figure, ((left, right),) = canvas(1, 2, size, f"{title} ({grids})", sharey=True)
    for axis, key, colour, hatch in (
        (left, "smallest", BLUE, ""),
        (right, "condition", VERMILION, "//"),
    ):
        values = [float(row.get(key) or "nan") for row in rows]
        bars = axis.barh(places, values, color=colour, hatch=hatch, edgecolor="white", height=0.65)
        axis.set_xscale("log")
        axis.bar_label(bars, [f"{value:.1e}" for value in values], fontsize=7, padding=2)
        axis.margins(x=0.18)
    left.set_yticks(places, names, fontsize=8)
    furnish(left, "smallest singular value", "σ min")
    furnish(right, "condition number", "σ max / σ min")
    left.tick_params(axis="y", labelsize=8)
    return figure


def as_viscosity_falls(results: Results) -> Figure | None:
    """σ_min against the viscosity, and the errors that a residual of 1e-4 allows."""
    rows = [row for row in results.study("flow-conditioning") or [] if row.get("smallest")]
    if not rows:
        return None
    title = "Trajectories as the viscosity falls: the smallest singular value, and Proposition 1"
    figure, ((left, right),) = canvas(1, 2, (9.0, 4.6), title)
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        n, name = row["resolution"], experiment_label(row["experiment"])
        series.setdefault(f"{name}, {n} × {n}", []).append(row)
    looks = styles_of([*series, *(f"{name}: random direction" for name in series)])
    for name, chosen in series.items():
        ordered = sorted(chosen, key=lambda row: float(row["viscosity"]))
        xs = [float(row["viscosity"]) for row in ordered]
        for axis, key in ((left, "smallest"), (right, "gap")):
            curve(axis, xs, [float(row[key]) for row in ordered], looks[name])
        if len(ordered) > 1:
            drawn = [float(row["random"]) for row in ordered]
            curve(right, xs, drawn, looks[f"{name}: random direction"])
    for still in sorted({float(row["still"]) for row in rows}):
        left.axhline(still, color=GREY, linewidth=0.8, linestyle="--", label="without advection")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_yscale("log")
    furnish(left, "smallest singular value", "viscosity", "σ min")
    furnish(right, "Proposition 1 at a relative residual of 1e-4", "viscosity", "relative error")
    shared_legend(figure, 3)
    return figure


def flow_conditioning(results: Results) -> Table | None:
    """σ_min of the Jacobian of a trajectory as the viscosity falls, and Proposition 1 there."""
    study = results.study("flow-conditioning") or []
    if not study:
        return None
    caption = (
        "The Jacobian of a trajectory as the viscosity falls (the paper's remark in App. A): one "
        "trajectory each, seed in the rows. σ min is found by iteration, from above; alone is that "
        "of the time derivative and diffusion without advection. Residuals are relative to that of "
        "the still flow, and the floor is that of the truth. Gap: the relative error of the field "
        "of Proposition 1 whose residual differs from the floor by less than 1e-4. Random: that of "
        "a random direction that adds as much."
    )
    headings = {
        "smallest": "σ min",
        "still": "alone",
        "largest": "σ max",
        "condition": "σ max / σ min",
    }
    headings |= {"floor": "floor", "gap": "gap", "random": "random"}

    blocks = [
        [
            (
                (e.label, f"{r['viscosity']:.0e}", f"{r['resolution']} × {r['resolution']}"),
                [f"{r[key]:.3g}" for key in headings],
            )
            for r in study
            if r["experiment"] == e.name
        ]
        for e in EXPERIMENTS.values()
    ]
    names = "flow, viscosity, grid"
    return table("flow-conditioning", caption, names, headings.values(), blocks)
