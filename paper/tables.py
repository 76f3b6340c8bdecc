"""The other tables: ratios, extrapolation, ablations, starts, and what things cost."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, nan
from typing import Any

import pandas as pd

from neuralsolver.training.presets import moving
from paper.cells import (
    BUDGET,
    BUDGETS,
    FOUND,
    MARKS,
    METRICS,
    NOT_RUN,
    Cell,
    marked,
    measured,
    number,
    quoted,
    remarks,
    sizes,
)
from paper.comparison import HEADINGS, MATCHED, forward, matched, pivot, printed
from paper.conditioning_tables import flow_conditioning
from paper.convergence import REST
from paper.methods import METHODS
from paper.regimes import EXPERIMENTS, Experiment
from paper.results import Results, Row, published, regime_label
from paper.table_recipes import BACKBONES
from paper.typeset import Line, Table, table

STATIC = tuple(e for e in EXPERIMENTS.values() if e.printed and not moving(e.equation))
FLOWS = tuple(e for e in EXPERIMENTS.values() if moving(e.equation))


def ratio(above: Row | None, below: Row | None) -> Cell:
    """Our error above over our error below, and in words what did not go as asked."""
    if above is None or below is None:
        return NOT_RUN, nan
    remark = remarks(above) or remarks(below)
    if above["seed"] != below["seed"]:
        remark = ", ".join(filter(None, [remark, "of different seeds"]))
    value = above["error"] / below["error"] if below["error"] else nan
    if not value or not isfinite(value):
        return remark or "n/a", nan
    text = f"{value:.3g}" if value < 1e4 else f"{value:.1e}"
    answered = all(row["credited"] and not row["failed"] for row in (above, below))
    return f"{text} ({remark})" if remark else text, value if answered else nan


def printed_ratio(label: str, above: tuple[str, str], below: tuple[str, str]) -> str:
    """The ratio of two errors that the paper prints, each by its row and column."""
    numbers = published()["number"]
    value = numbers.get((label, *above, "error"), nan) / numbers.get((label, *below, "error"), nan)
    return f"{value:.3g}" if isfinite(value) else "n/a"


def ratios(results: Results) -> Table:
    """How many times smaller than that of FNO the error of ENS is."""
    caption = (
        "Error of FNO over error of ENS, both relative L₂: above 1 ENS is better. First the ratio "
        "of the numbers the paper prints, then ours."
    )
    blocks: list[list[Line]] = []
    for e in STATIC:
        blocks.append([])
        for r in (r for r in e.regimes if r.printed):
            fno, *ours = (results.get(e.name, r.key, m) for m in ("fno", "ens", "ens-contractive"))
            theirs = printed_ratio(e.printed, ("FNO", r.printed), ("ENS", r.printed))
            blocks[-1].append(((e.label, r.label), [theirs, *(ratio(fno, row)[0] for row in ours)]))
    columns = ["paper", "here, paper's recipe", "here, contractive"]
    return table("ratios", caption, "equation, regime", columns, blocks)


TARGETS = {
    ("navier-stokes", "in-distribution"): 8.0,
    ("navier-stokes", "viscosity-shift"): 3.0,
    ("navier-stokes", "forcing-shift"): 12.0,
    ("kolmogorov", "in-distribution"): 4.0,
    ("kolmogorov", "viscosity-shift"): 4.0,
    ("kolmogorov", "forcing-shift"): 6.0,
}
"""The gain that a regime has to reach, ours and chosen beforehand. A gain compares one architecture
with itself, so it is the corrections that it measures."""
GROWTH = 2.0
"""What the error may grow by on twice the points."""
PAIRS = {
    ("transformer here", "paper's recipe"): ("operator", "ens"),
    ("transformer here", "contractive"): ("operator", "ens-contractive"),
    ("transformer here", "accelerated"): ("operator", "ens-accelerated"),
    ("CNN-FNO-CNN here", "contractive"): ("operator-cnn", "ens-contractive-cnn"),
}
"""A backbone alone, and inside ENS."""


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
    blocks: list[list[Line]] = []
    for e in present:
        blocks.append([])
        for r in e.regimes:
            wanted = TARGETS.get((e.name, r.key), nan)
            found = [
                ratio(*(results.get(e.name, r.key, method) for method in pair))
                for pair in PAIRS.values()
            ]
            texts = [f"**{text}**" if value >= wanted else text for text, value in found]
            theirs = printed_ratio(MATCHED[e.name], ("VideoPDE", r.printed), ("ENS", r.printed))
            target = f"≥ {wanted:g}" if (e.name, r.key) in TARGETS else ""
            blocks[-1].append(((e.label, r.label), [theirs, target, *texts]))
        fine, trained = (e.regime(key) for key in ("super-resolution", "in-distribution"))
        found = [
            ratio(*(results.get(e.name, r.key, inside) for r in (fine, trained)))
            for _, inside in PAIRS.values()
        ]
        texts = [f"**{text}**" if value <= GROWTH else text for text, value in found]
        theirs = printed_ratio(MATCHED[e.name], ("ENS", fine.printed), ("ENS", trained.printed))
        labels = (e.label, "super-resolution over in-distribution")
        blocks[-1].append((labels, [theirs, f"≤ {GROWTH:g}", *texts]))
    return table("flow-ratios", caption, "flow, regime", ["paper", "target", *PAIRS], blocks)


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
    theirs = quoted(published().loc["extrap"]).unstack("metric")[["training", "evaluation"]]
    methods = ["fno", "ens", "ens-contractive"]
    blocks: list[list[Line]] = []
    for name, (experiment, shift) in EXTRAPOLATION.items():
        blocks.append([])
        for heading in published().loc["extrap"].loc[name].index.unique("column"):
            regime = "shift" if heading == shift else heading.lower().replace(" ", "-")
            rows = results.of(experiment, [regime])
            text, value = pivot(rows, methods, [(regime, "error")])
            ends = [results.grids(experiment, [key]) for key in ("in-distribution", regime)]
            first, last = (grids.split(" ")[0] for grids in ends)
            grids = f"{first} → {last}" if first and last else NOT_RUN
            cells = marked(text, value).iloc[:, 0]
            blocks[-1].append(((name, heading), [*theirs.loc[(name, heading)], grids, *cells]))
    labels = [METHODS[method].label for method in methods]
    caption = f"Regimes of extrapolation (the paper's tab:extrap), and our L₂ errors there. {MARKS}"
    columns = ["training", "evaluation", "grid here", *labels]
    return table("extrapolation", caption, "equation, regime", columns, blocks)


def backbone_labels() -> dict[str, str]:
    """ENS with each backbone of the ablation, as the paper names them."""
    return {"ens": "CNN-FNO-CNN"} | {f"ens-{b.key}": b.label for b in BACKBONES.values()}


def backbones(results: Results) -> Table:
    """ENS with other backbones."""
    names, regime = backbone_labels(), "in-distribution"
    metrics = [*BUDGET, *METRICS, "steps", "converged"]
    rows = results.of("ablations", [regime])
    shown = marked(*pivot(rows, names, [(regime, metric) for metric in metrics]))
    theirs = printed("Ablation", [("Helmholtz", metric) for metric in metrics])
    theirs = theirs.reindex(list(names.values())).fillna("")
    block = []
    for method, words in names.items():
        block += [((words, "here"), shown.loc[method]), (("", "paper"), theirs.loc[words])]
    caption = (
        "Helmholtz in-distribution, ENS with other backbones (the paper's tab:Ablation). "
        f"{sizes(results, 'ablations', (regime,))}Converged here means: no sample "
        "diverged, error and residual have halved at least, and over the last third of the steps "
        f"neither changes by more than {REST:.0%}. {MARKS} {BUDGETS}"
    )
    columns = [HEADINGS[metric] for metric in metrics]
    return table("backbones", caption, "backbone, source", columns, [block])


def signals(results: Results) -> Table:
    """What the corrector reads, and what it is trained on."""
    regimes = {regime.key: regime.label for regime in EXPERIMENTS["ablations"].regimes}
    caption = (
        "Helmholtz, ENS reading the residual, a zero field in its place, or the gradient of the "
        f"residual loss; last, trained on that loss. {sizes(results, 'ablations', regimes)}{MARKS}"
    )
    columns = [(key, metric) for key in regimes for metric in METRICS]
    methods = ("ens", "ens-zero-field", "ens-gradient", "ens-residual-loss")
    shown = marked(*pivot(results.of("ablations", regimes), methods, columns))
    heads = [(regimes[key], METRICS[metric]) for key, metric in columns]
    block = [((METHODS[method].label,), shown.loc[method]) for method in methods]
    return table("signals", caption, "method", heads, [block])


STARTS = {
    "": "zero field",
    "-from-noise": "noise",
    "-from-prediction": "prediction",
    "-from-noised-prediction": "prediction with noise",
}


def newton(results: Results) -> Table:
    """Newton and Gauss-Newton from near and far."""
    caption = (
        "Newton and Gauss-Newton by their start; answered: samples that reached the tolerance."
    )
    blocks: list[list[Line]] = []
    for e in sorted(EXPERIMENTS.values(), key=lambda e: e.name):
        for r in e.regimes:
            blocks.append([])
            for solver in ("newton", "gauss-newton"):
                for suffix, start in STARTS.items():
                    row = results.get(e.name, r.key, f"{solver}{suffix}")
                    if row is None:
                        continue
                    texts = [FOUND["answered"](row, "")[0]]
                    texts += [measured(row, m, counted=True)[0] for m in (*METRICS, "steps")]
                    blocks[-1].append(((e.label, r.label, METHODS[solver].label, start), texts))
    columns = ["answered", *METRICS.values(), "steps"]
    return table("newton", caption, "equation, regime, method, start", columns, blocks)


CARRIED_ON = ("ens-newton", "without-network-newton", "without-network-newton-long")


def newton_flows(results: Results) -> Table | None:
    """What the network saves Newton's method on flows, at its time and not at its steps."""
    present = [e for e in FLOWS if e.name in results.experiments]
    if not present:
        return None
    caption = (
        "Flows carried on by Newton-Krylov: three steps after ENS, three without any network, and "
        "without it until a step gains nothing. Compare errors at equal seconds, not at equal "
        "steps. Network: answers that are not the safeguard's."
    )
    metrics = ("network", "median", "error", "seconds_batch_1")
    blocks = [
        [
            (
                (e.label, r.label, METHODS[key].label),
                [FOUND[metric](row, metric)[0] for metric in metrics],
            )
            for r in e.regimes
            for key in CARRIED_ON
            if (row := results.get(e.name, r.key, key)) is not None
        ]
        for e in present
    ]
    columns = ["network", "median L₂", "mean L₂", "seconds"]
    return table("newton-flows", caption, "flow, regime, method", columns, blocks)


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
    methods = (*CONTESTANTS, "reference", "truth")
    names = {**METRICS, "steps": "steps"}
    blocks: list[list[Line]] = []
    for key in BEYOND:
        blocks.append([])
        for e in STATIC:
            rows = results.of(e.name, [key])
            if rows.empty:
                continue
            text, value = pivot(rows, methods, [(key, metric) for metric in names])
            compared = value.loc[list(CONTESTANTS), [(key, metric) for metric in METRICS]]
            shown = marked(text, compared.reindex_like(text))
            labels = (e.label, regime_label(e.name, key))
            for metric, words in names.items():
                blocks[-1].append(((*labels, words), shown[key, metric]))
                labels = ("", "")
    columns = [METHODS[method].label for method in methods]
    return table("beyond", caption, "equation, regime, metric", columns, blocks)


def seconds(results: Results, name: str, experiments: Iterable[Experiment]) -> Table | None:
    """Seconds per sample, one sample at a time and 32 at once."""
    present = [e for e in experiments if e.name in results.experiments]
    if not present:
        return None
    caption = (
        "Seconds per sample in-distribution, on the machine named in the rows; classical methods "
        "below the rule. They were measured one after another on a shared machine: a ratio below "
        "about 2.5 is noise."
    )
    regime, metrics = "in-distribution", ("seconds_batch_1", "seconds_batch_32")
    places = [(regime, metric) for metric in metrics]
    shown = [m for m in METHODS.values() if m.kind != "bound"]
    parts = [
        pivot(results.of(e.name, [regime]), [m.key for m in shown], places)[0] for e in present
    ]
    text = pd.concat(parts, axis=1)
    text = text[(text != NOT_RUN).any(axis=1)]
    blocks = [
        [
            ((m.label_in(present[0]),), text.loc[m.key])
            for m in shown
            if m.key in text.index and (m.kind == "classical") == below
        ]
        for below in (False, True)
    ]
    columns = [(e.label, f"batch {size}") for e in present for size in (1, 32)]
    return table(name, caption, "method", columns, blocks)


GENERATION = {
    "Linear Helmholtz": ("Helmholtz κ=1", "helmholtz"),
    "Poisson": ("Poisson", "poisson"),
    "Nonlinear Helmholtz": ("nonlinear Helmholtz κ=2 λ=1", "nonlinear-helmholtz"),
    "Darcy": ("Darcy", "darcy"),
    "Navier-Stokes": ("Navier-Stokes", "navier-stokes"),
    "Kolmogorov Flow": ("Kolmogorov", "kolmogorov"),
}
"""Equations of tab:datagen, how their names begin in reference.json, and those of datasets.json."""


def data_generation(results: Results) -> Table:
    """Seconds and memory to compute one training sample."""
    caption = (
        "Data generation, 128 × 128 (the paper's tab:datagen): seconds per sample of the solvers "
        "alone (reference.json), and of the whole generation with drawing, checking and storing, "
        "with the highest memory of the process (datasets.json); ours on one CPU thread, the "
        "paper's flows on a GPU."
    )
    theirs = printed("datagen", [("all", "seconds")]).iloc[:, 0]
    block = []
    for name, (start, equation) in GENERATION.items():
        solvers, datasets = (results.study(study) or [] for study in ("reference", "datasets"))
        solver: dict[str, Any] = next((r for r in solvers if r["equation"].startswith(start)), {})
        same = (r for r in datasets if (r["equation"], r["resolution"]) == (equation, 128))
        whole: dict[str, Any] = next(same, {})
        times = [solver.get("baseline_seconds"), solver.get("seconds"), whole.get("seconds")]
        memory = f"{whole['peak_mb']:.0f}" if whole.get("peak_mb") else NOT_RUN
        texts = [theirs[name], *(number(t) if t else NOT_RUN for t in times), memory]
        block.append(((name, str(solver.get("method", ""))), texts))
    columns = ["paper", "textbook solver here", "our solver here", "whole generation here"]
    columns.append("memory, MB")
    return table("data-generation", caption, "equation, our solver", columns, [block])


def tables(results: Results) -> list[Table]:
    """Every table of some results, in the order of the page."""
    found = (
        *(forward(results, e) for e in (*STATIC, *FLOWS)),
        ratios(results),
        extrapolation(results),
        backbones(results),
        *(matched(results, EXPERIMENTS[name]) for name in MATCHED),
        flow_ratios(results),
        signals(results),
        newton(results),
        newton_flows(results),
        beyond(results),
        seconds(results, "seconds", (*STATIC, EXPERIMENTS["ablations"])),
        seconds(results, "seconds-flows", FLOWS),
        data_generation(results),
        flow_conditioning(results),
    )
    return [table for table in found if table is not None]
