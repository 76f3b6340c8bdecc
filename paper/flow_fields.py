"""The content of flow-fields.npz: one fresh trajectory a flow and regime, truth and errors.

    <flow>/<regime>/times             (T,)       times of the stored frames, the given one first
    <flow>/<regime>/truth             (T, n, n)  vorticity w
    <flow>/<regime>/<method>/error    (T, n, n)  answer of the method minus w
    <flow>/<regime>/<method>/residual (T, n, n)  the residual of its answer; of the truth as well

Everything but the times is in half precision: three digits of the truth, and three of each error
whatever its size. Frames and points are thinned out to `FRAMES` and `POINTS`; with six fields of
21 × 64 × 64 values, two flows and two regimes are 4 MB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from neuralsolver.training.presets import moving
from paper.evaluate import Evaluation
from paper.methods import METHODS
from paper.regimes import EXPERIMENTS

REGIMES = ("in-distribution", "forcing-shift")
ANSWERS = ("operator", "ens-accelerated")
"""A backbone alone, and inside ENS."""

FRAMES, POINTS = 21, 64


def flow_fields(evaluation: Evaluation) -> dict[str, np.ndarray[Any, Any]]:
    """Solve one instance of every regime that is drawn; a study, as the fields of the others."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, experiment in EXPERIMENTS.items():
        if not moving(experiment.equation):
            continue
        here = evaluation.of(experiment)
        for key in REGIMES:
            regime = experiment.regime(key)
            drawn = here.draw(regime)
            answers = {
                method: here.prepare(METHODS[method], regime).solve(drawn.problem).tensor
                for method in ANSWERS
            }
            times: np.ndarray[Any, Any] = regime.equation.frame_times  # type: ignore[attr-defined]
            residuals = {
                name: drawn.true_problem.residual(u.to(drawn.true_problem.inputs))
                for name, u in {"truth": drawn.exact, **answers}.items()
            }
            stored = thinned(times, drawn.exact, answers, residuals)
            arrays |= {f"{name}/{key}/{item}": values for item, values in stored.items()}
    return arrays


def thinned(
    times: np.ndarray[Any, Any],
    truth: Tensor,
    answers: Mapping[str, Tensor],
    residuals: Mapping[str, Tensor] | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """The first trajectory of a batch (B, 1, T, n, n) with the errors and residuals of its answers,
    as stored."""
    later = math.ceil((len(times) - 1) / (FRAMES - 1)) or 1
    apart = math.ceil(truth.shape[-1] / POINTS)

    def kept(field: Tensor) -> np.ndarray[Any, Any]:
        return field[0, 0, ::later, ::apart, ::apart].detach().cpu().numpy().astype(np.float16)

    stored = {"times": np.asarray(times[::later], dtype=np.float32), "truth": kept(truth)}
    for method, answer in answers.items():
        stored[f"{method}/error"] = kept(answer.to(truth) - truth)
    for method, residual in (residuals or {}).items():
        stored[f"{method}/residual"] = kept(residual)
    return stored
