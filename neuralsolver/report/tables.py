"""Every table: those of forward predictions, ratios, ablations, starts, and what things cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite
from typing import Any

from neuralsolver.evaluation.convergence import REST
from neuralsolver.experiments.methods import METHODS
from neuralsolver.experiments.paper import EXPERIMENTS, Experiment
from neuralsolver.experiments.trainings import BACKBONES, moving
from neuralsolver.report.beside import BUDGETS, MARKS, MATCHED, METRICS, forward, matched
from neuralsolver.report.layout import NOT_RUN, Cell, Table, number, remarks
from neuralsolver.report.results import (
    FAILURES,
    Results,
    Row,
    printed,
    published,
    regime_label,
)
from neuralsolver.report.specification import (
    BUDGET,
    Place,
    Select,
    build,
    column,
    line,
    quote,
    sizes,
)

STATIC = tuple(e for e in EXPERIMENTS.values() if e.printed and not moving(e.equation))
FLOWS = tuple(e for e in EXPERIMENTS.values() if moving(e.equation))


def ratio(above: Row | None, below: Row | None) -> Cell:
    """Our error above over our error below, and in words what did not go as asked."""
    if above is None or below is None:
        return Cell(NOT_RUN)
    remark = remarks(above) or remarks(below)
    if not above.error or not below.error or not isfinite(above.error / below.error):
        return Cell(remark or "n/a")
    value = above.error / below.error
    text = f"{value:.3g}" if value < 1e4 else f"{value:.1e}"
    answered = not (above.count(*FAILURES) or below.count(*FAILURES))
    return Cell(f"{text} ({remark})" if remark else text, value if answered else None)


def gain(results: Results, s: Select) -> Cell:
    """Error of one method over that of another, or over its own in the regime `base`."""
    pair = [(s["regime"], s["alone"]), (s["regime"], s["inside"])]
    if "base" in s:
        pair = [(s["regime"], s["inside"]), (s["base"], s["inside"])]
    if "rows" in s:
        names = dict(zip((s["alone"], s["inside"]), s["rows"].split(", "), strict=True))
        e = EXPERIMENTS[s["experiment"]]
        quotes = [printed(s["label"], names[m], e.regime(r).printed, "error") for r, m in pair]
        above, below = (found.value if found else None for found in quotes)
        return Cell(f"{above / below:.3g}" if above and below else "n/a")
    found = ratio(*(results.get(s["experiment"], *place) for place in pair))
    target = s.get("target")
    if target is None or found.value is None:
        return found
    met = found.value <= target if "base" in s else found.value >= target
    return replace(found, mark="best") if met else found


def ratios(results: Results) -> Table:
    """How many times smaller than that of FNO the error of ENS is."""
    caption = (
        "Error of FNO over error of ENS, both relative L₂: above 1 ENS is better. First the ratio "
        "of the numbers the paper prints, then ours."
    )
    columns = [
        column("paper", by=gain, alone="fno", inside="ens", rows="FNO, ENS"),
        column("here, paper's recipe", by=gain, alone="fno", inside="ens"),
        column("here, contractive", by=gain, alone="fno", inside="ens-contractive"),
    ]
    blocks = (
        [
            line(e.label, r.label, experiment=e.name, regime=r.key, label=e.printed)
            for r in e.regimes
            if r.printed
        ]
        for e in STATIC
    )
    return build(results, "ratios", caption, "equation, regime", columns=columns, blocks=blocks)


TARGETS = {
    ("navier-stokes", "in-distribution"): 8.0,
    ("navier-stokes", "viscosity-shift"): 4.0,
    ("navier-stokes", "forcing-shift"): 12.0,
    ("kolmogorov", "in-distribution"): 4.0,
    ("kolmogorov", "viscosity-shift"): 3.0,
    ("kolmogorov", "forcing-shift"): 6.0,
}
"""The gain that a regime has to reach, ours and chosen beforehand. A gain compares one architecture
with itself, so it is the corrections that it measures."""
GROWTH = 2.0
"""What the error may grow by on twice the points."""


def flow_ratios(results: Results) -> Table | None:
    """Gain of every regime and growth on the finer grid, of both backbones and both recipes."""
    present = [e for e in FLOWS if e.name in results.experiments]
    if not present:
        return None
    caption = (
        "Error of the backbone alone over error of ENS on the same backbone, both relative L₂: "
        "above 1 ENS is better. Last in each block, the error of ENS on twice the points over its "
        "error as trained: the smaller the better. First the ratios of the numbers the paper "
        "prints, then the target, then ours; bold where every sample has an answer and the target "
        "is met."
    )
    here, there = "transformer here", "CNN-FNO-CNN here"
    columns = [
        column("paper", by=gain, alone="operator", inside="ens", rows="VideoPDE, ENS"),
        column("target", by=lambda results, s: Cell(s["wanted"])),
        column("paper's recipe", here, by=gain, alone="operator", inside="ens"),
        column("contractive", here, by=gain, alone="operator", inside="ens-contractive"),
        column("accelerated", here, by=gain, alone="operator", inside="ens-accelerated"),
        column("contractive", there, by=gain, alone="operator-cnn", inside="ens-contractive-cnn"),
    ]
    blocks = []
    for e in present:
        flow: dict[str, Any] = {"experiment": e.name, "label": MATCHED[e.name]}
        block = []
        for r in e.regimes:
            target = TARGETS.get((e.name, r.key))
            wanted = "" if target is None else f"≥ {target:g}"
            block.append(line(e.label, r.label, **flow, regime=r.key, target=target, wanted=wanted))
        flow |= {"regime": "super-resolution", "base": "in-distribution", "target": GROWTH}
        words = "super-resolution over in-distribution"
        blocks.append([*block, line(e.label, words, **flow, wanted=f"≤ {GROWTH:g}")])
    return build(results, "flow-ratios", caption, "flow, regime", columns=columns, blocks=blocks)


EXTRAPOLATION = {
    "linear Helmholtz": ("helmholtz", "Extrapolation"),
    "nonlinear Helmholtz": ("nonlinear-helmholtz", "Extrapolation"),
    "Poisson": ("poisson", "Scaling shift"),
    "Darcy flow": ("darcy", "Forcing shift"),
    "Navier-Stokes": ("navier-stokes", ""),
    "Kolmogorov flow": ("kolmogorov", ""),
}
"""Equations of tab:extrap, our experiments, and what the regime `shift` is called there."""


def extrapolation(results: Results) -> Table:
    """What changes between training and evaluation, and what it costs."""
    blocks: list[list[Place]] = []
    for row, (experiment, shift) in EXTRAPOLATION.items():
        blocks.append([])
        headings = (c for table, name, c, _ in published() if (table, name) == ("extrap", row))
        for heading in dict.fromkeys(headings):
            regime = "shift" if heading == shift else heading.lower().replace(" ", "-")
            select = {"experiment": experiment, "regime": regime, "label": "extrap", "row": row}
            blocks[-1].append(line(row, heading, compared=True, heading=heading, **select))
    methods = (METHODS[key] for key in ("fno", "ens", "ens-contractive"))
    columns = [
        column("training", by=quote, metric="training"),
        column("evaluation", by=quote, metric="evaluation"),
        column("grid here", by=_grids),
        *(column(method.label, method=method.key, metric="error") for method in methods),
    ]
    caption = f"Regimes of extrapolation (the paper's tab:extrap), and our L₂ errors there. {MARKS}"
    return build(
        results,
        "extrapolation",
        caption,
        "equation, regime",
        columns=columns,
        blocks=blocks,
        along=-3,
    )


def _grids(results: Results, s: Select) -> Cell:
    ends = (results.grids(s["experiment"], (key,)) for key in ("in-distribution", s["regime"]))
    first, last = (grids.split(" ")[0] for grids in ends)
    return Cell(f"{first} → {last}" if first and last else NOT_RUN)


def backbone_labels() -> dict[str, str]:
    """ENS with each backbone of the ablation, as the paper names them."""
    return {"ens": "CNN-FNO-CNN"} | {f"ens-{b.key}": b.label for b in BACKBONES.values()}


def backbones(results: Results) -> Table:
    """ENS with other backbones."""
    block = []
    ours = {"experiment": "ablations", "regime": "in-distribution"}
    theirs: dict[str, Any] = {"by": quote, "label": "Ablation", "heading": "Helmholtz"}
    for method, words in backbone_labels().items():
        block.append(line(words, "here", compared=True, method=method, **ours))
        block.append(line("", "paper", row=words, **theirs))
    caption = (
        "Helmholtz in-distribution, ENS with other backbones (the paper's tab:Ablation). "
        f"{sizes(results, 'ablations', ('in-distribution',))}Converged here means: no sample "
        "diverged, error and residual have halved at least, and over the last third of the steps "
        f"neither changes by more than {REST:.0%}. {MARKS} {BUDGETS}"
    )
    names = {**BUDGET, **METRICS, "steps": "k", "converged": "converged"}
    columns = [column(words, metric=metric) for metric, words in names.items()]
    return build(results, "backbones", caption, "backbone, source", columns=columns, blocks=[block])


def signals(results: Results) -> Table:
    """What the corrector reads, and what it is trained on."""
    regimes = {regime.key: regime.label for regime in EXPERIMENTS["ablations"].regimes}
    caption = (
        "Helmholtz, ENS reading the residual, a zero field in its place, or the gradient of the "
        f"residual loss; last, trained on that loss. {sizes(results, 'ablations', regimes)}{MARKS}"
    )
    columns = [
        column(words, label, regime=key, metric=metric)
        for key, label in regimes.items()
        for metric, words in METRICS.items()
    ]
    block = [
        line(METHODS[method].label, compared=True, experiment="ablations", method=method)
        for method in ("ens", "ens-zero-field", "ens-gradient", "ens-residual-loss")
    ]
    return build(results, "signals", caption, "method", columns=columns, blocks=[block])


STARTS = {
    "": "zero field",
    "-from-noise": "noise",
    "-from-prediction": "prediction",
    "-from-noised-prediction": "prediction with noise",
}


def newton(results: Results) -> Table:
    """Newton and Gauss-Newton from near and far."""
    words = "Newton and Gauss-Newton by their start; answered: samples that reached the tolerance."
    blocks = [
        [
            line(e.label, r.label, METHODS[solver].label, start, method=key, **place)  # type: ignore[arg-type]
            for solver in ("newton", "gauss-newton")
            for suffix, start in STARTS.items()
            if results.get(e.name, r.key, key := f"{solver}{suffix}")
        ]
        for e in sorted(EXPERIMENTS.values(), key=lambda e: e.name)
        for r in e.regimes
        for place in [{"experiment": e.name, "regime": r.key, "counted": True}]
    ]
    names = {"answered": "answered", **METRICS, "steps": "steps"}
    columns = [column(name, metric=metric) for metric, name in names.items()]
    return build(
        results, "newton", words, "equation, regime, method, start", columns=columns, blocks=blocks
    )


BEYOND = (
    "kappa-4.2",
    "kappa-4.4",
    "kappa-4.5",
    "kappa-6",
    "contrast",
    "noisy-input",
    "wrong-constant",
)
CONTESTANTS = ("fno", "pino-ttop", "ens", "ens-contractive", "ens-accelerated")


def beyond(results: Results) -> Table:
    """Near and past resonance, higher contrast, noise on the input, a constant that is wrong."""
    caption = (
        "Regimes beyond the paper. The last two columns, the classical solver and the "
        f"ground truth itself (the floor), take no part in the marks. {MARKS}"
    )
    blocks: list[list[Place]] = []
    for key in BEYOND:
        blocks.append([])
        for e in STATIC:
            if (e.name, key) not in {place[:2] for place in results.rows}:
                continue
            labels = (e.label, regime_label(e.name, key))
            for metric, words in {**METRICS, "steps": "steps"}.items():
                select = {"experiment": e.name, "regime": key, "metric": metric}
                blocks[-1].append(line(*labels, words, compared=metric != "steps", **select))
                labels = ("", "")
    methods = (*CONTESTANTS, "reference", "truth")
    columns = [column(METHODS[method].label, method=method) for method in methods]
    names, along = "equation, regime, metric", len(CONTESTANTS)
    return build(results, "beyond", caption, names, columns=columns, blocks=blocks, along=along)


def seconds(results: Results, name: str, experiments: Iterable[Experiment]) -> Table | None:
    """Seconds per sample, one sample at a time and 32 at once."""
    present = [e for e in experiments if e.name in results.experiments]
    if not present:
        return None
    caption = (
        "Seconds per sample in-distribution, on the machine named in the rows; classical methods "
        "below the rule."
    )
    columns = [
        column(f"batch {size}", e.label, experiment=e.name, metric=f"seconds_batch_{size}")
        for e in present
        for size in (1, 32)
    ]
    blocks: tuple[list[Place], ...] = ([], [])
    for method in METHODS.values():
        rows = [results.get(e.name, "in-distribution", method.key) for e in present]
        if method.kind != "bound" and any(rows):
            label, below = method.label_in(present[0]), method.kind == "classical"
            blocks[below].append(line(label, regime="in-distribution", method=method.key))
    return build(results, name, caption, "method", columns=columns, blocks=blocks)


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
    caption = (
        "Seconds per sample of data generation (the paper's tab:datagen), 128 × 128; ours on one "
        "CPU thread, from reference.json."
    )
    block = []
    for name, start in GENERATION.items():
        study: list[Select] = results.study("reference") or []
        timings: Select = next((r for r in study if str(r["equation"]).startswith(start)), {})
        block.append(line(name, str(timings.get("method", "")), row=name, timings=timings))
    columns = [
        column("paper", by=quote, label="datagen", heading="all", metric="seconds"),
        column("textbook solver here", by=_timed, key="baseline_seconds"),
        column("our solver here", by=_timed, key="seconds"),
    ]
    return build(
        results, "data-generation", caption, "equation, our solver", columns=columns, blocks=[block]
    )


def _timed(results: Results, s: Select) -> Cell:
    value = s["timings"].get(s["key"])
    return Cell(number(value) if value else NOT_RUN)


def tables(results: Results) -> list[Table]:
    """Every table of some results, in the order of the page."""
    found = (
        *(forward(e).table(results) for e in (*STATIC, *FLOWS)),
        ratios(results),
        extrapolation(results),
        backbones(results),
        *(matched(EXPERIMENTS[name]).table(results) for name in MATCHED),
        flow_ratios(results),
        signals(results),
        newton(results),
        beyond(results),
        seconds(results, "seconds", (*STATIC, EXPERIMENTS["ablations"])),
        seconds(results, "seconds-flows", FLOWS),
        data_generation(results),
    )
    return [table for table in found if table is not None]
