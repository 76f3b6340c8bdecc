"""Methods × regimes → rows on disk: what is there is kept, what is missing is measured.

The rows of an experiment are in `<results>/<scale>/<experiment>.jsonl`. A run that was killed goes
on with the first row that is missing. A model that is missing is trained first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.evaluation.measure import failed, measure
from neuralsolver.experiments.methods import Method, Setting, method_named
from neuralsolver.experiments.paper import Experiment, Regime, instances
from neuralsolver.experiments.rows import Row, append_row, read_rows
from neuralsolver.experiments.run import Report, Training, machine, train
from neuralsolver.experiments.scales import Scale
from neuralsolver.solvers import TrainedSolver
from neuralsolver.training import load, shipped

SAMPLES = 100
FINE_SHARE = 4
"""On a finer grid, where steps are slow, and in the regimes that are ours, this fraction of the
samples is measured; the row says how many."""
SEED = 20_264
"""Test data that nothing was trained or tuned on; the command takes any other."""

Progress = Callable[[float, str], None]
"""Called with the part that is done and the row that comes next."""


@dataclass(frozen=True)
class Evaluation:
    """One experiment at one scale: where its rows, runs and data live, and its test data."""

    experiment: Experiment
    scale: Scale
    results: Path = Path("results")
    runs: Path = Path("runs")
    data: Path | None = None
    seed: int = SEED
    samples: int = SAMPLES
    report: Report | None = None

    @property
    def file(self) -> Path:
        """The rows."""
        return self.results / self.scale.name / f"{self.experiment.name}.jsonl"

    def run(
        self,
        methods: list[str] | None = None,
        regimes: list[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Row]:
        """Measure what is missing and return the rows asked for, of this seed."""
        chosen = [method_named(key) for key in methods or self.experiment.methods]
        where = [self.experiment.regime(key) for key in regimes or self._all_regimes()]
        done = {self._key(row): row for row in read_rows(self.file)}
        pairs = [(regime, method) for regime in where for method in chosen]
        for position, (regime, method) in enumerate(pairs):
            key = (regime.key, method.key, self.seed)
            if key in done:
                continue
            if progress is not None:
                progress(position / len(pairs), f"{regime.key}, {method.key}")
            done[key] = self._measured(method, regime)
            append_row(self.file, done[key])
        return [done[regime.key, method.key, self.seed] for regime, method in pairs]

    def _all_regimes(self) -> list[str]:
        return [regime.key for regime in self.experiment.regimes]

    def _key(self, row: Row) -> tuple[str, str, int]:
        return row["regime"], row["method"], row["seed"]

    def _measured(self, method: Method, regime: Regime) -> Row:
        sized = self.experiment.sized(self.scale)
        count = self.samples
        if regime.refinement > 1 or regime.beyond:
            count = max(1, count // FINE_SHARE)
        # all rows of a regime are measured on the first of the same instances
        drawn = instances(regime, sized.resolution, count, self.seed, self.data)
        if method.samples is not None:
            count = min(count, max(1, method.samples // regime.refinement**2))
        subject = drawn.select(slice(0, count))
        try:
            setting = Setting(
                regime,
                subject.problem,
                subject.exact,
                self.seed,
                sized.of(regime.equation).effort,
                self.model,
            )
            measured = measure(method.prepare(setting), subject)
        except (torch.OutOfMemoryError, MemoryError):
            measured = failed(count, "OUT_OF_MEMORY")
        except (InvalidInput, ReferenceFailure) as error:
            measured = failed(count, "NOT_APPLICABLE") | {"reason": str(error)}
        return {
            "experiment": self.experiment.name,
            "regime": regime.key,
            "method": method.key,
            "scale": self.scale.name,
            "seed": self.seed,
            "resolution": subject.problem.resolution,
            "rejected": drawn.rejected,
            **measured,
            "machine": machine(),
        }

    def model(self, recipe: str) -> TrainedSolver:
        """The shipped model of a recipe, or the one of a run, trained now if there is none."""
        name = f"{self.experiment.equation.name}-{recipe}"
        if self.scale.name == "desk" and self.experiment.coarsening == 1 and name in shipped():
            return load(name)
        training = Training(self.experiment.equation, recipe, self.experiment.sized(self.scale))
        return load(train(training, self.runs, data=self.data, report=self.report))
