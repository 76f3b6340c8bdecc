"""Tables the paper does not have: ratios, harder regimes, seconds, error signals, Newton."""

from __future__ import annotations

from math import isfinite

from neuralsolver.report.layout import (
    NOT_RUN,
    Cell,
    Line,
    Table,
    mark_columns,
    marked,
    measured,
    remarks,
)
from neuralsolver.report.published import Printed, printed
from neuralsolver.report.rows import FAILURES, Results, Row
from neuralsolver.report.style import EXPERIMENTS, FLOWS, METHOD_STYLE, regime_label, styles_in
from neuralsolver.report.tables import MARKS, STATIC, sizes


def ratios(results: Results) -> Table:
    """How many times smaller than that of FNO the error of ENS is."""
    blocks = []
    for spec in STATIC:
        block = []
        for regime, heading in spec.regimes.items():
            fno, ens = (printed(spec.label, row, heading, "error") for row in ("FNO", "ENS"))
            plain = results.get(spec.experiment, regime, "fno")
            ours = [
                measured_ratio(plain, results.get(spec.experiment, regime, method))
                for method in ("ens", "ens-contractive")
            ]
            labels = (EXPERIMENTS[spec.experiment], regime_label(spec.experiment, regime))
            block.append(Line(labels, (printed_ratio(fno, ens), *ours)))
        blocks.append(tuple(block))
    caption = (
        "Error of FNO over error of ENS, both relative L₂: above 1 ENS is better. First the ratio "
        "of the numbers the paper prints, then ours."
    )
    columns = ("paper", "here, paper's recipe", "here, contractive")
    return Table("ratios", caption, ("equation", "regime"), columns, tuple(blocks))


def printed_ratio(above: Printed | None, below: Printed | None) -> Cell:
    """The number printed above over the number printed below."""
    if above is None or below is None or above.value is None or not below.value:
        return Cell("n/a")
    return Cell(f"{above.value / below.value:.3g}")


def measured_ratio(above: Row | None, below: Row | None) -> Cell:
    """Our error above over our error below, and in words what did not go as asked."""
    if above is None or below is None:
        return Cell(NOT_RUN)
    remark = remarks(above) or remarks(below)
    if not above.error or not below.error or not isfinite(above.error / below.error):
        return Cell(remark or "n/a")
    ratio = above.error / below.error
    text = f"{ratio:.3g}" if ratio < 1e4 else f"{ratio:.1e}"
    answered = not (above.count(*FAILURES) or below.count(*FAILURES))
    return Cell(f"{text} ({remark})" if remark else text, ratio if answered else None)


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
    present = {(experiment, regime) for experiment, regime, _ in results.rows}
    methods = (*CONTESTANTS, "reference", "truth")
    blocks = []
    for regime in BEYOND:
        block = []
        for experiment in EXPERIMENTS:
            if (experiment, regime) not in present or experiment == "ablations":
                continue
            rows = [results.get(experiment, regime, method) for method in methods]
            labels = (EXPERIMENTS[experiment], regime_label(experiment, regime))
            for metric, name in (("error", "L₂"), ("residual", "residual"), ("steps", "steps")):
                cells = [measured(row, metric) for row in rows]
                learned, others = cells[: len(CONTESTANTS)], cells[len(CONTESTANTS) :]
                if metric != "steps":
                    learned = marked(learned)
                block.append(Line((*labels, name), (*learned, *others)))
                labels = ("", "")
        if block:
            blocks.append(tuple(block))
    if not blocks:
        blocks = [(Line(("", "", ""), (Cell(NOT_RUN),) * len(methods)),)]
    caption = (
        "Regimes beyond the paper. The last two columns, the classical solver and the "
        f"ground truth itself (the floor), take no part in the marks. {MARKS}"
    )
    columns = tuple(METHOD_STYLE[method].label for method in methods)
    return Table("beyond", caption, ("equation", "regime", "metric"), columns, tuple(blocks))


def seconds(results: Results) -> Table:
    """Seconds per sample of the static equations."""
    names = [spec.experiment for spec in STATIC]
    present = [name for name in (*names, "ablations") if name in results.experiments]
    return _seconds(results, "seconds", present or ["helmholtz"])


def flow_seconds(results: Results) -> Table | None:
    """Seconds per trajectory of the flows."""
    present = [name for name in FLOWS if name in results.experiments]
    return _seconds(results, "seconds-flows", present) if present else None


def _seconds(results: Results, name: str, experiments: list[str]) -> Table:
    """Seconds per sample, one sample at a time and 32 at once."""
    metrics = {"seconds_batch_1": "batch 1", "seconds_batch_32": "batch 32"}
    blocks: list[list[Line]] = [[], []]
    for method, style in styles_in(experiments[0]).items():
        rows = [results.get(experiment, "in-distribution", method) for experiment in experiments]
        if method in ("truth", "still", "zero") or all(row is None for row in rows):
            continue
        cells = tuple(_timing(row, metric) for row in rows for metric in metrics)
        learned = method.startswith(("ens", "fno", "pino", "operator"))
        blocks[0 if learned else 1].append(Line((style.label,), cells))
    kept = [block for block in blocks if block]
    if not kept:
        kept = [[Line(("",), (Cell(NOT_RUN),) * (len(experiments) * len(metrics)))]]
    machines = "on the machine named in the rows"
    caption = f"Seconds per sample in-distribution, {machines}; classical methods below the rule."
    return Table(
        name,
        caption,
        ("method",),
        tuple(metrics.values()) * len(experiments),
        tuple(tuple(block) for block in kept),
        tuple((EXPERIMENTS[experiment], 2) for experiment in experiments),
    )


def _timing(row: Row | None, metric: str) -> Cell:
    if row is None:
        return Cell(NOT_RUN)
    value = getattr(row, metric)
    return Cell("not timed") if value is None else Cell(f"{value:.2e}")


SIGNALS = ("ens", "ens-zero-field", "ens-gradient", "ens-residual-loss")


def signals(results: Results) -> Table:
    """What the corrector reads, and what it is trained on."""
    regimes = ("in-distribution", "shift", "noisy-input")
    lines = []
    for method in SIGNALS:
        cells: list[Cell] = []
        for regime in regimes:
            row = results.get(results.ablations, regime, method)
            cells += [measured(row, "error"), measured(row, "residual")]
        lines.append(Line((METHOD_STYLE[method].label,), tuple(cells)))
    caption = (
        "Helmholtz, ENS reading the residual, a zero field in its place, or the gradient of the "
        f"residual loss; last, trained on that loss. {sizes(results, results.ablations, regimes)}"
        f"{MARKS}"
    )
    return Table(
        "signals",
        caption,
        ("method",),
        ("L₂", "residual") * len(regimes),
        (tuple(mark_columns(lines)),),
        tuple((regime_label("helmholtz", regime), 2) for regime in regimes),
    )


STARTS = {
    "": "zero field",
    "-from-noise": "noise",
    "-from-prediction": "prediction",
    "-from-noised-prediction": "prediction with noise",
}


def newton(results: Results) -> Table:
    """Newton and Gauss-Newton from near and far."""
    metrics = ("error", "residual", "steps")
    places = dict.fromkeys((experiment, regime) for experiment, regime, _ in results.rows)
    blocks = []
    for experiment, regime in places:
        block = []
        for method in ("newton", "gauss-newton"):
            for start, words in STARTS.items():
                row = results.get(experiment, regime, f"{method}{start}")
                if row is None:
                    continue
                where = (EXPERIMENTS.get(experiment, experiment), regime_label(experiment, regime))
                cells = (_outcome(row), *(measured(row, metric) for metric in metrics))
                block.append(Line((*where, METHOD_STYLE[method].label, words), cells))
        if block:
            blocks.append(tuple(block))
    if not blocks:
        blocks = [(Line(("", "", "Newton", ""), (Cell(NOT_RUN),) * 4),)]
    return Table(
        "newton",
        "Newton and Gauss-Newton by their start; answered: samples that reached the tolerance.",
        ("equation", "regime", "method", "start"),
        ("answered", "L₂", "residual", "steps"),
        tuple(blocks),
    )


def _outcome(row: Row) -> Cell:
    total = sum(row.status.values())
    return Cell(f"{total - row.count(*FAILURES, 'STEP_LIMIT')} of {total}")
