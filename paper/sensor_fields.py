"""The content of sensor-fields.npz: one instance of each equation seen by 500 sensors, and samples.

    <equation>/sensors               (N, 2)      where the input is seen
    <equation>/input, solution       (n, n)      the truth
    <equation>/<method>/error        (S, n, n)   samples of the solution minus the truth

A method that has one answer only has one sample. Errors are in half precision: three digits of each
to look at, whatever its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralsolver.training.library import load_sampler
from paper.evaluate import Evaluation
from paper.sensors import EQUATIONS, STEPS, Instances, Task

DRAWN = {
    "exact": None,
    "diffusion-ens": STEPS,
    "palette": STEPS,
    "pcfm": 50,
    "correction": None,
    "spline": None,
}
"""The methods that are drawn, with their steps."""
SINGLE = ("correction", "spline")
SAMPLES = 8


def sensor_fields(evaluation: Evaluation) -> dict[str, np.ndarray[Any, Any]]:
    """Samples of one fresh instance of every equation; a study, as the fields of the others."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name in EQUATIONS:
        instance = Instances(Task(name, instances=1), evaluation.seed)
        seen = instance.observed[0]
        arrays[f"{name}/sensors"] = seen.sensors.positions.astype(np.float32)
        arrays[f"{name}/input"] = instance.inputs[0, 0].float().numpy()
        arrays[f"{name}/solution"] = instance.solutions[0, 0].float().numpy()
        for method, steps in DRAWN.items():
            count = 1 if method in SINGLE else SAMPLES
            samples = load_sampler(name, method, steps).sample(seen, count, evaluation.seed)
            error = (samples.solutions - instance.solutions)[:, 0]
            arrays[f"{name}/{method}/error"] = error.numpy().astype(np.float16)
    return arrays
