"""An evaluation that takes seconds."""

from __future__ import annotations

from dataclasses import replace

from neuralsolver import cli
from neuralsolver.training.presets import SCALES
from paper.__main__ import app
from paper.evaluate import Evaluation
from paper.regimes import EXPERIMENTS

TINY = replace(SCALES["tiny"], samples=16, batches=2)


def run(arguments):
    return cli.run(arguments, commands=app, name="python -m paper")


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
