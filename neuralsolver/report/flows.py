"""What the iteration is worth in a flow: errors of a backbone alone and inside ENS, as ratios.

    gain(regime)  =  error of the backbone alone  /  error of ENS on that backbone        large
    growth        =  error of ENS on twice the points  /  error of ENS as trained         small

A gain compares one architecture with itself, so it is the corrections that it measures. The paper's
ratios are those of its own tables of matched backbones; the targets are ours, chosen beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from neuralsolver.report.beyond import measured_ratio, printed_ratio
from neuralsolver.report.layout import Cell, Line, Table
from neuralsolver.report.matched import MATCHED_FLOWS
from neuralsolver.report.published import printed
from neuralsolver.report.rows import Results
from neuralsolver.report.style import EXPERIMENTS, regime_label
from neuralsolver.report.tables import FLOW, Forward

GAINS: Mapping[str, Mapping[str, float]] = {
    "navier-stokes": {"in-distribution": 8.0, "viscosity-shift": 4.0, "forcing-shift": 12.0},
    "kolmogorov": {"in-distribution": 4.0, "viscosity-shift": 3.0, "forcing-shift": 6.0},
}
"""The gain that each regime has to reach."""

GROWTH = 2.0
"""What the error may grow by on twice the points."""

PAIRS = (
    ("operator", "ens"),
    ("operator", "ens-contractive"),
    ("operator", "ens-accelerated"),
    ("operator-cnn", "ens-contractive-cnn"),
)
"""A backbone alone and inside ENS: first the transformer, then CNN-FNO-CNN."""
TRANSFORMER = ("paper's recipe", "contractive", "accelerated")
CONVOLUTIONAL = ("contractive",)


def flow_ratios(results: Results) -> Table | None:
    """Gain of every regime and growth on the finer grid, of both backbones and both recipes."""
    blocks = [
        (*_gains(results, spec), _growth(results, spec))
        for spec in MATCHED_FLOWS
        if spec.experiment in results.experiments
    ]
    if not blocks:
        return None
    caption = (
        "Error of the backbone alone over error of ENS on the same backbone, both relative L₂: "
        "above 1 ENS is better. Last in each block, the error of ENS on twice the points over its "
        "error as trained: the smaller the better. First the ratios of the numbers the paper "
        "prints, then the target, then ours; bold where every sample has an answer and the target "
        "is met."
    )
    return Table(
        "flow-ratios",
        caption,
        ("flow", "regime"),
        ("paper", "target", *TRANSFORMER, *CONVOLUTIONAL),
        tuple(blocks),
        (("", 2), ("transformer here", len(TRANSFORMER)), ("CNN-FNO-CNN here", len(CONVOLUTIONAL))),
    )


def _gains(results: Results, spec: Forward) -> list[Line]:
    flow, lines = spec.experiment, []
    for regime, heading in FLOW.items():
        alone, inside = (printed(spec.label, row, heading, "error") for row in ("VideoPDE", "ENS"))
        target = GAINS[flow].get(regime)
        cells = [
            measured_ratio(*(results.get(flow, regime, method) for method in pair))
            for pair in PAIRS
        ]
        if target is not None:
            cells = [_bold(cell, cell.value is not None and cell.value >= target) for cell in cells]
        wanted = Cell("" if target is None else f"≥ {target:g}")
        labels = (EXPERIMENTS[flow], regime_label(flow, regime))
        lines.append(Line(labels, (printed_ratio(alone, inside), wanted, *cells)))
    return lines


def _growth(results: Results, spec: Forward) -> Line:
    flow, regimes = spec.experiment, ("super-resolution", "in-distribution")
    fine, trained = (printed(spec.label, "ENS", FLOW[regime], "error") for regime in regimes)
    cells = [
        measured_ratio(*(results.get(flow, regime, method) for regime in regimes))
        for _, method in PAIRS
    ]
    cells = [_bold(cell, cell.value is not None and cell.value <= GROWTH) for cell in cells]
    labels = (EXPERIMENTS[flow], "super-resolution over in-distribution")
    return Line(labels, (printed_ratio(fine, trained), Cell(f"≤ {GROWTH:g}"), *cells))


def _bold(cell: Cell, met: bool) -> Cell:
    return replace(cell, mark="best") if met else cell
