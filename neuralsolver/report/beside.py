"""The tables of the paper with our numbers beside the printed ones.

A line named "here" is ours, a line named "paper" repeats what the paper prints, with the paper's
own marks. Ours are marked among the learned methods that gave an answer for every sample. Classical
solvers and floors stand below a rule and take no part.
"""

from __future__ import annotations

from typing import NamedTuple

from neuralsolver.experiments.methods import METHODS, methods_of
from neuralsolver.experiments.paper import Experiment
from neuralsolver.experiments.trainings import moving
from neuralsolver.report.layout import Table
from neuralsolver.report.results import Results, published
from neuralsolver.report.specification import BUDGET, Place, build, column, line, quote, sizes

LEARNED = ("learned", "optimised", "generative")
METRICS = {"error": "L₂", "residual": "residual"}
MARKS = (
    "Ours are marked among the learned methods with an answer for every sample (best bold, second "
    "underlined, in Markdown italic), the paper's numbers as in the paper. ± is the longer side of "
    "the 95 % interval of the mean over the samples (bootstrap; normal, from the spread, for rows "
    "without their errors), from 8 samples on. In brackets: over how many samples a mean is, where "
    "they are fewer than those of other methods, and the share of the official steps that an "
    "instance was optimised for."
)
BUDGETS = (
    "Minutes are CPU minutes of one core that the models of a row were trained for; after ≈ those "
    "that as many batches take on a core of its own (`ens bench training`), for models trained by "
    "the clock on a shared machine; with a star such minutes of the clock; a dash: not kept."
)
FLOOR = (
    "The truth of a flow has a residual too, the floor below the rule: under it, less is no better."
)


class Beside(NamedTuple):
    """A table beside one of the paper, called `label` there: blocks of our methods with the names
    that it prints for them, floors, and whether it begins with seconds.
    """

    name: str
    experiment: Experiment
    label: str
    caption: str
    blocks: list[dict[str, str]]
    floors: list[str]
    timed: bool = False

    def table(self, results: Results) -> Table | None:
        """Ours above what the paper prints for it, then its others; a flow once it has been run."""
        e, label = self.experiment, self.label
        if moving(e.equation) and e.name not in results.experiments:
            return None
        regimes = {r.key: r.printed for r in e.regimes if r.printed}
        trained = {"regime": "in-distribution", "heading": "In-distribution"}
        columns = [column(words, **trained, metric=metric) for metric, words in BUDGET.items()]
        columns += [column("seconds", **trained, metric="seconds_batch_1")] if self.timed else []
        for key, heading in regimes.items():
            for metric, words in METRICS.items():
                columns.append(column(words, heading, regime=key, heading=heading, metric=metric))

        def ours(method: str, compared: bool) -> Place:
            words = (METHODS[method].label_in(e), "here")
            return line(*words, compared=compared, experiment=e.name, method=method)

        blocks = []
        for block in self.blocks:
            lines = []
            for method, row in block.items():
                lines.append(ours(method, True))
                lines += [line("", "paper", by=quote, label=label, row=row)] if row else []
            blocks.append(lines)
        known = {row for block in self.blocks for row in block.values()}
        rows = dict.fromkeys(row for table, row, *_ in published() if table == label)
        blocks.append(
            [line(r, "paper", by=quote, label=label, row=r) for r in rows if r not in known]
        )
        blocks.append([ours(method, False) for method in self.floors])
        text = f"{self.caption} {FLOOR}" if moving(e.equation) else self.caption
        caption = f"{text} {sizes(results, e.name, regimes)}{MARKS} {BUDGETS}"
        return build(results, self.name, caption, "method, source", columns=columns, blocks=blocks)


def forward(e: Experiment) -> Beside:
    """Every method that belongs into a table of forward predictions."""
    compared = [method for method in methods_of(e) if method.table == "forward"]
    names = {method.key: method.printed for method in compared if method.kind in LEARNED}
    floors = [method.key for method in compared if method.kind not in LEARNED]
    caption = f"{e.label}: forward prediction (the paper's tab:{e.printed})."
    timed = moving(e.equation) or e.name == "helmholtz"
    return Beside(f"forward-{e.name}", e, e.printed, caption, [names], floors, timed)


MATCHED = {"helmholtz": "HZ_AB", "navier-stokes": "NS_AB", "kolmogorov": "KF_AB"}
"""The paper's tables of matched backbones."""


def matched(e: Experiment) -> Beside:
    """One architecture alone, with a residual loss, fitted to each instance, and inside ENS."""
    label, flow = MATCHED[e.name], moving(e.equation)
    network = "VideoPDE" if flow else "CNN-FNO-CNN"
    plain = {"operator": network, "operator-pino": f"{network}(PINO)"}
    plain["operator-ttop"] = f"{network}(TTOP)"
    if not flow:
        caption = f"{e.label}, every method with the same backbone (the paper's tab:{label})."
        return Beside("matched-backbone", e, label, caption, [{"ens": "ENS", **plain}], ["truth"])
    caption = f"{e.label}, methods with the same backbone (the paper's tab:{label}): first the "
    caption += "transformer, then CNN-FNO-CNN, marked each by itself."
    blocks = [
        {"ens": "ENS", "ens-contractive": "", "ens-accelerated": "", **plain},
        {"ens-contractive-cnn": "", "operator-cnn": ""},
    ]
    return Beside(f"matched-backbone-{e.name}", e, label, caption, blocks, ["truth", "still"])
