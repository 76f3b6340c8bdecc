"""The tables: those of the paper with our numbers beside the printed ones, and ours.

A line named "here" is ours, a line named "paper" repeats what the paper prints, with the paper's
own marks. Ours are marked among the learned methods that gave an answer for every sample. Classical
solvers and floors stand below a rule and take no part. A table is a pivot of the frame of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    REST,
    Cell,
    cells,
    marked,
    measured,
    number,
    quoted,
    remarks,
    sizes,
)
from paper.methods import LEARNED, METHODS, methods_of
from paper.regimes import EXPERIMENTS, Experiment
from paper.results import Results, Row, published, regime_label
from paper.table_recipes import BACKBONES
from paper.typeset import Line, Table, table

STATIC = tuple(e for e in EXPERIMENTS.values() if e.printed and not moving(e.equation))
FLOWS = tuple(e for e in EXPERIMENTS.values() if moving(e.equation))
FLOOR = (
    "The truth of a flow has a residual too, the floor below the rule: under it, less is no better."
)
HEADINGS = {**BUDGET, **METRICS, "seconds_batch_1": "seconds", "steps": "k"}
HEADINGS |= {"converged": "converged"}


def pivot(
    rows: pd.DataFrame, methods: Collection[str], columns: Sequence[tuple[str, str]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Texts and values of one experiment: a line a method, a column (regime, metric)."""
    found = cells(rows, list(dict.fromkeys(metric for _, metric in columns))).droplevel(0)
    heads = pd.MultiIndex.from_tuples(columns)
    text, value = (
        found[kind].unstack(["regime", "metric"]).reindex(list(methods), columns=heads)
        for kind in ("text", "value")
    )
    missing = {column: "" if column[1] in BUDGET else NOT_RUN for column in columns}
    return text.astype(object).fillna(missing), value.astype(float)


def printed(label: str, columns: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """What a table of the paper prints: a line a row of it, a column (heading, metric)."""
    wide = quoted(published().loc[label]).unstack(["column", "metric"])
    names = [(heading, metric.split("_batch")[0]) for heading, metric in columns]
    return wide.reindex(columns=pd.MultiIndex.from_tuples(names)).astype(object).fillna("")


def run_flows(results: Results) -> list[Experiment]:
    """The flows of which there are rows."""
    return [e for e in FLOWS if e.name in results.experiments]


def beside(
    results: Results,
    e: Experiment,
    name: str,
    caption: str,
    *,
    label: str,
    blocks: Sequence[Mapping[str, str]],
    floors: Sequence[str],
    timed: bool = False,
) -> Table | None:
    """Ours above what the paper prints for it, then its others; a flow once it has been run.

    Args:
        results: The rows.
        e: The experiment.
        name: Of the table.
        caption: What it is; sizes and marks are added.
        label: What the paper calls the table.
        blocks: Our methods with the names that the paper prints for them.
        floors: Methods that are not compared.
        timed: Whether it begins with seconds.
    """
    if e in FLOWS and e not in run_flows(results):
        return None
    regimes = {r.key: r.printed for r in e.regimes if r.printed}
    trained = [*BUDGET, *(["seconds_batch_1"] if timed else [])]
    columns = [("in-distribution", metric) for metric in trained]
    columns += [(key, metric) for key in regimes for metric in METRICS]
    methods = [*(method for block in blocks for method in block), *floors]
    text, value = pivot(results.of(e.name, regimes), methods, columns)
    theirs = printed(label, [(regimes[key], metric) for key, metric in columns])
    filled: list[list[Line]] = []
    for block in blocks:
        shown = marked(text.loc[list(block)], value.loc[list(block)])
        filled.append([])
        for method, row in block.items():
            filled[-1].append(((METHODS[method].label_in(e), "here"), shown.loc[method]))
            filled[-1] += [(("", "paper"), theirs.loc[row])] if row else []
    known = {row for block in blocks for row in block.values()}
    others = [row for row in published().loc[label].index.unique("row") if row not in known]
    filled.append([((row, "paper"), theirs.loc[row]) for row in others])
    filled.append([((METHODS[m].label_in(e), "here"), text.loc[m]) for m in floors])
    words = f"{caption} {FLOOR}" if e in FLOWS else caption
    words = f"{words} {sizes(results, e.name, regimes)}{MARKS} {BUDGETS}"
    heads = [("" if m in trained else regimes[key], HEADINGS[m]) for key, m in columns]
    return table(name, words, "method, source", heads, filled)


def forward(results: Results, e: Experiment) -> Table | None:
    """Every method that belongs into a table of forward predictions."""
    compared = [method for method in methods_of(e) if method.table == "forward"]
    names = {method.key: method.printed for method in compared if method.kind in LEARNED}
    floors = [method.key for method in compared if method.kind not in LEARNED]
    caption = f"{e.label}: forward prediction (the paper's tab:{e.printed})."
    timed = e in FLOWS or e.name == "helmholtz"
    about: dict[str, Any] = {"label": e.printed, "blocks": [names], "floors": floors}
    return beside(results, e, f"forward-{e.name}", caption, **about, timed=timed)


MATCHED = {"helmholtz": "HZ_AB", "navier-stokes": "NS_AB", "kolmogorov": "KF_AB"}
"""The paper's tables of matched backbones."""


def matched(results: Results, e: Experiment) -> Table | None:
    """One architecture alone, with a residual loss, fitted to each instance, and inside ENS."""
    label, flow = MATCHED[e.name], e in FLOWS
    network = "VideoPDE" if flow else "CNN-FNO-CNN"
    plain = {"operator": network, "operator-pino": f"{network}(PINO)"}
    plain["operator-ttop"] = f"{network}(TTOP)"
    blocks = [{"ens": "ENS", **plain}]
    name, floors = "matched-backbone", ["truth"]
    caption = f"{e.label}, every method with the same backbone (the paper's tab:{label})."
    if flow:
        caption = f"{e.label}, methods with the same backbone (the paper's tab:{label}): first the "
        caption += "transformer, then CNN-FNO-CNN, marked each by itself."
        first = {"ens": "ENS", "ens-contractive": "", "ens-accelerated": "", **plain}
        blocks = [first, {"ens-contractive-cnn": "", "operator-cnn": ""}]
        name, floors = f"matched-backbone-{e.name}", ["truth", "still"]
    return beside(results, e, name, caption, label=label, blocks=blocks, floors=floors)


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
    "navier-stokes": {"in-distribution": 8.0, "viscosity-shift": 3.0, "forcing-shift": 12.0},
    "kolmogorov": {"in-distribution": 4.0, "viscosity-shift": 4.0, "forcing-shift": 6.0},
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
    caption = (
        "Error of the backbone alone over error of ENS on the same backbone, both relative L₂: "
        "above 1 ENS is better. Last in each block, the error of ENS on twice the points over its "
        "error as trained: the smaller the better. First the ratios of the numbers the paper "
        "prints, then the target, then ours; bold where every sample has an answer and the target "
        "is met."
    )
    blocks: list[list[Line]] = []
    for e in run_flows(results):
        blocks.append([])
        for r in e.regimes:
            wanted = TARGETS[e.name].get(r.key, nan)
            pairs = [[results.get(e.name, r.key, m) for m in pair] for pair in PAIRS.values()]
            found = [ratio(*pair) for pair in pairs]
            texts = [f"**{text}**" if value >= wanted else text for text, value in found]
            theirs = printed_ratio(MATCHED[e.name], ("VideoPDE", r.printed), ("ENS", r.printed))
            target = f"≥ {wanted:g}" if isfinite(wanted) else ""
            blocks[-1].append(((e.label, r.label), [theirs, target, *texts]))
        ends = [e.regime(key) for key in ("super-resolution", "in-distribution")]
        pairs = [[results.get(e.name, r.key, m) for r in ends] for _, m in PAIRS.values()]
        found = [ratio(*pair) for pair in pairs]
        texts = [f"**{text}**" if value <= GROWTH else text for text, value in found]
        fine, trained = (("ENS", r.printed) for r in ends)
        theirs = printed_ratio(MATCHED[e.name], fine, trained)
        labels = (e.label, "super-resolution over in-distribution")
        blocks[-1].append((labels, [theirs, f"≤ {GROWTH:g}", *texts]))
    columns = [("", "paper"), ("", "target"), *PAIRS]
    return table("flow-ratios", caption, "flow, regime", columns, blocks) if blocks else None


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
            text, value = pivot(results.of(experiment, [regime]), methods, [(regime, "error")])
            ends = [results.grids(experiment, [key]) for key in ("in-distribution", regime)]
            first, last = (grids.split(" ")[0] for grids in ends)
            grids = f"{first} → {last}" if first and last else NOT_RUN
            ours = marked(text, value).iloc[:, 0]
            blocks[-1].append(((name, heading), [*theirs.loc[(name, heading)], grids, *ours]))
    caption = f"Regimes of extrapolation (the paper's tab:extrap), and our L₂ errors there. {MARKS}"
    columns = ["training", "evaluation", "grid here", *(METHODS[m].label for m in methods)]
    return table("extrapolation", caption, "equation, regime", columns, blocks)


def backbone_labels() -> dict[str, str]:
    """ENS with each backbone of the ablation, as the paper names them."""
    return {"ens": "CNN-FNO-CNN"} | {f"ens-{key}": label for key, label in BACKBONES.items()}


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


def newton_flows(results: Results) -> Table | None:
    """What the network saves Newton's method on flows, at its time and not at its steps."""
    caption = (
        "Flows carried on by Newton-Krylov: three steps after ENS, three without any network, and "
        "without it until a step gains nothing. Compare errors at equal seconds, not at equal "
        "steps. Network: answers that are not the safeguard's."
    )
    metrics = {"network": "network", "median": "median L₂", "error": "mean L₂"}
    metrics["seconds_batch_1"] = "seconds"
    blocks: list[list[Line]] = []
    for e in run_flows(results):
        blocks.append([])
        for r in e.regimes:
            for key in ("ens-newton", "without-network-newton", "without-network-newton-long"):
                row = results.get(e.name, r.key, key)
                if row is not None:
                    texts = [FOUND[metric](row, metric)[0] for metric in metrics]
                    blocks[-1].append(((e.label, r.label, METHODS[key].label), texts))
    names = "flow, regime, method"
    return table("newton-flows", caption, names, metrics.values(), blocks) if blocks else None


BEYOND = (
    "kappa-4.2", "kappa-4.4", "kappa-4.5", "kappa-6", "contrast", "noisy-input", "wrong-constant",
)  # fmt: skip
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


def seconds(results: Results, name: str, experiments: Collection[Experiment]) -> Table | None:
    """Seconds per sample, one sample at a time and 32 at once."""
    present = [e for e in experiments if e.name in results.experiments]
    if not present:
        return None
    caption = (
        "Seconds per sample in-distribution, on the machine named in the rows; classical methods "
        "below the rule. They were measured one after another on a shared machine: a ratio below "
        "about 2.5 is noise."
    )
    regime, sizes = "in-distribution", (1, 32)
    places = [(regime, f"seconds_batch_{size}") for size in sizes]
    shown = [m for m in METHODS.values() if m.kind != "bound"]
    keys = [m.key for m in shown]
    parts = [pivot(results.of(e.name, [regime]), keys, places)[0] for e in present]
    text = pd.concat(parts, axis=1)
    text = text[(text != NOT_RUN).any(axis=1)]
    blocks: list[list[Line]] = [[], []]
    for m in shown:
        if m.key in text.index:
            blocks[m.kind == "classical"].append(((m.label_in(present[0]),), text.loc[m.key]))
    columns = [(e.label, f"batch {size}") for e in present for size in sizes]
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
    solvers, datasets = (results.study(study) or [] for study in ("reference", "datasets"))
    block = []
    for name, (start, equation) in GENERATION.items():
        solver: dict[str, Any] = next((r for r in solvers if r["equation"].startswith(start)), {})
        same = (r for r in datasets if (r["equation"], r["resolution"]) == (equation, 128))
        whole: dict[str, Any] = next(same, {})
        times = [solver.get("baseline_seconds"), solver.get("seconds"), whole.get("seconds")]
        memory = f"{whole['peak_mb']:.0f}" if whole.get("peak_mb") else NOT_RUN
        texts = [theirs[name], *(number(t) if t else NOT_RUN for t in times), memory]
        block.append(((name, str(solver.get("method", ""))), texts))
    columns = ["paper", "textbook solver here", "our solver here", "whole generation here"]
    names = "equation, our solver"
    return table("data-generation", caption, names, [*columns, "memory, MB"], [block])


def flow_conditioning(results: Results) -> Table | None:
    """σ_min of the Jacobian of a trajectory as the viscosity falls, and Proposition 1 there."""
    study = results.study("flow-conditioning") or []
    caption = (
        "The Jacobian of a trajectory as the viscosity falls (the paper's remark in App. A): one "
        "trajectory each, seed in the rows. σ min is found by iteration, from above; alone is that "
        "of the time derivative and diffusion without advection. Residuals are relative to that of "
        "the still flow, and the floor is that of the truth. Gap: the relative error of the field "
        "of Proposition 1 whose residual differs from the floor by less than 1e-4. Random: that of "
        "a random direction that adds as much."
    )
    heads = {"smallest": "σ min", "still": "alone", "largest": "σ max"}
    heads |= {"condition": "σ max / σ min", "floor": "floor", "gap": "gap", "random": "random"}
    blocks: dict[str, list[Line]] = {e.label: [] for e in FLOWS}
    for row in study:
        label, n = EXPERIMENTS[row["experiment"]].label, row["resolution"]
        labels = (label, f"{row['viscosity']:.0e}", f"{n} × {n}")
        blocks[label].append((labels, [f"{row[key]:.3g}" for key in heads]))
    name, names = "flow-conditioning", "flow, viscosity, grid"
    return table(name, caption, names, heads.values(), blocks.values()) if study else None


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
