"""An evaluation that takes seconds."""

from __future__ import annotations

from dataclasses import replace

from neuralsolver.experiments.evaluate import Evaluation
from neuralsolver.experiments.paper import EXPERIMENTS
from neuralsolver.experiments.trainings import SCALES

TINY = replace(SCALES["tiny"], samples=16, batches=2)


def evaluation(tmp_path, name, **changes):
    return Evaluation(
        EXPERIMENTS[name],
        changes.pop("scale", TINY),
        results=tmp_path / "results",
        runs=tmp_path / "runs",
        data=tmp_path / "data",
        samples=changes.pop("samples", 2),
        **changes,
    )
