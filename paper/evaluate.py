"""Methods × regimes → rows on disk: what is there is kept, what is missing or stale is measured.

The rows of an experiment are in `<results>/<scale>/<experiment>.jsonl`. A run that was killed goes
on with the first row that is missing. A model that is missing is trained first.

The exact solutions stay in this module: a method is prepared from a `Setting`, which has none, and
is then given problems, which have none either. The row of the truth is measured here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.loop import Solver
from neuralsolver.training import load, shipped
from neuralsolver.training.card import machine
from neuralsolver.training.checkpoint import CARD, read_card
from neuralsolver.training.library import SHIPPED, load_sampler
from neuralsolver.training.presets import Scale
from neuralsolver.training.run import Report, Training, train
from paper.measure import EvaluationSet, failed, measure
from paper.methods import LEARNED, Method, Setting, method_named, methods_of
from paper.metrics import four_digits, residual_mse
from paper.regimes import Experiment, Regime, instances
from paper.rows import PUBLISHED_SEED, Budget, Row, Tell, budget_of_all, combined, ledger

FINE_SHARE = 4
"""On a finer grid, where steps are slow, and in the regimes that are ours, this fraction of the
samples is measured; the row says how many."""

Progress = Callable[[float, str], None]
"""Called with the part that is done and the row that comes next."""


@dataclass(frozen=True)
class Evaluation:
    """One experiment at one scale: where its rows, runs and data live, and its test data.

    Without a number of `samples` the experiment's own counts.
    """

    experiment: Experiment
    scale: Scale
    results: Path = Path("results")
    runs: Path = Path("runs")
    data: Path | None = None
    seed: int = PUBLISHED_SEED
    samples: int | None = None
    report: Report | None = None
    tell: Tell | None = None

    def of(self, experiment: Experiment) -> Evaluation:
        """The same for another experiment."""
        return replace(self, experiment=experiment)

    @property
    def file(self) -> Path:
        """The rows."""
        return self.results / self.scale.written / f"{self.experiment.name}.jsonl"

    @property
    def resolution(self) -> int:
        """The grid that the models are trained on."""
        return self.scale.resolution // self.experiment.coarsening

    def run(
        self,
        methods: list[str] | None = None,
        regimes: list[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Row]:
        """Measure what is missing or stale and return the rows asked for, of this seed."""
        keys = methods or [method.key for method in methods_of(self.experiment)]
        where = regimes or [regime.key for regime in self.experiment.regimes]
        chosen = [method_named(key) for key in keys]
        pairs = [(self.experiment.regime(key), method) for key in where for method in chosen]
        rows = []
        with ledger(self.file, self.tell) as written:
            for position, (regime, method) in enumerate(pairs):
                if progress is not None:
                    progress(position / len(pairs), f"{regime.key}, {method.key}")
                count = self.count(method, regime)
                key = {"regime": regime.key, "method": method.key}
                key |= {"seed": self.seed, "samples": count}  # type: ignore[dict-item]
                rows.append(
                    written.settle(
                        key,
                        method.version,
                        self.weights(method),
                        lambda method=method, regime=regime: self._measured(method, regime),  # type: ignore[misc]
                    )
                )
        return rows

    def count(self, method: Method, regime: Regime) -> int:
        """How many instances are measured."""
        count = self._drawn(regime)
        most = method.samples_in(self.experiment)
        if most is not None:
            slow = regime.beyond and method.kind == "optimised" and most > FINE_SHARE
            count = min(count, max(1, most // (FINE_SHARE if slow else regime.refinement**2)))
        return count

    def _drawn(self, regime: Regime) -> int:
        count = self.samples or self.experiment.samples
        share = FINE_SHARE if regime.refinement > 1 or regime.beyond else 1
        return max(1, count // share)

    def draw(self, regime: Regime, count: int = 1, resolution: int | None = None) -> EvaluationSet:
        """Instances of a regime with their solutions."""
        return instances(regime, resolution or self.resolution, count, self.seed, self.data)

    def prepare(self, method: Method, regime: Regime) -> Solver:
        """A method ready to solve problems of the regime; its models are trained if missing."""
        assert method.prepare is not None, "the truth is measured, not prepared"
        return method.prepare(self._setting(method, regime))

    def _setting(self, method: Method, regime: Regime) -> Setting:
        models = {recipe: self.model(recipe) for recipe in method.recipes}
        effort = self.scale.effort_on(regime.equation)
        sampler = partial(load_sampler, self.experiment.equation.name)
        return Setting(regime, self.seed, effort, models.__getitem__, sampler)

    def _measured(self, method: Method, regime: Regime) -> Row:
        # all rows of a regime are measured on the first of the same instances
        drawn = self.draw(regime, self._drawn(regime))
        count = self.count(method, regime)
        subject = drawn.select(slice(0, count))
        found = subject.problem.batch
        # what fails before the method is asked says nothing of the method
        setting = self._setting(method, regime)
        try:
            if method.prepare is None:
                measured = truth_row(subject)
            else:
                measured = measure(method.prepare(setting), subject)
        except (torch.OutOfMemoryError, MemoryError):
            measured = failed(found, "OUT_OF_MEMORY")
        except (InvalidInput, ReferenceFailure) as error:
            measured = failed(found, "NOT_APPLICABLE") | {"reason": str(error)}
        return {
            "experiment": self.experiment.name,
            "regime": regime.key,
            "method": method.key,
            "scale": self.scale.written,
            "seed": self.seed,
            "resolution": subject.problem.resolution,
            "rejected": drawn.rejected,
            **({} if found == count else {"requested": count}),
            **measured,
            **({} if method.kind in LEARNED else {"network_answers": 0}),
            "machine": machine(),
            "weights": self.weights(method),
            "version": method.version,
            "training": self.budget(method),
            **({"effort": setting.effort} if method.kind == "optimised" else {}),
        }

    def weights(self, method: Method) -> str | None:
        """The SHA-256 of all weights that a method uses; None if not all of them are at hand."""
        places = [self.place(recipe) for recipe in method.recipes]
        name = self.experiment.equation.name
        places += [SHIPPED / f"{name}-{denoiser}" for denoiser in method.denoisers]
        if not all((place / CARD).is_file() for place in places):
            return None
        return combined([str(read_card(place)["sha256"]) for place in places])

    def budget(self, method: Method) -> Budget | None:
        """What the models of a method were given; None if not all of them are at hand."""
        places = [self.place(recipe) for recipe in method.recipes]
        return budget_of_all(places) if all((p / CARD).is_file() for p in places) else None

    def place(self, recipe: str) -> Path:
        """The folder of a recipe's model: the shipped one, or that of its run."""
        name = f"{self.experiment.equation.name}-{recipe}"
        if self.scale.name == "small" and not self.experiment.ablation and name in shipped():
            return SHIPPED / name
        return self._training(recipe).folder(self.runs) / "model"

    def model(self, recipe: str) -> TrainedSolver:
        """The model of a recipe, trained now if there is none."""
        place = self.place(recipe)
        if not (place / CARD).is_file():
            place = train(self._training(recipe), self.runs, data=self.data, report=self.report)
        return load(place)

    def _training(self, recipe: str) -> Training:
        experiment = self.experiment
        return Training(experiment.equation, recipe, self.scale, coarsening=experiment.coarsening)


def truth_row(subject: EvaluationSet) -> dict[str, Any]:
    """The measured part of the row of the truth: no error, and the residual that it leaves."""
    residual = residual_mse(subject.true_problem, subject.exact).mean()
    exact = dict.fromkeys(("error", "error_spread", "error_worst", "steps"), 0.0)
    row = failed(subject.problem.batch, "FINISHED")
    return row | exact | {"residual": four_digits(residual)}
