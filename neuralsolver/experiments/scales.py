"""Three scales of one code: the paper's sizes, what two cores train, what a test can afford."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neuralsolver.errors import InvalidInput


@dataclass(frozen=True)
class Scale:
    """Sizes of the data and the networks, and the compute of one training run.

    `network` are the arguments of the FNO backbones, `predictor` what a contractive predictor
    changes in them: it only has to find a start and may be smaller than the corrector. `operator`
    is what plain operators change, `varying` what the paper's networks change for coefficients that
    vary in space. A warm start is a share of the training spent on a coarser grid, where a step
    costs a fraction.
    """

    name: str
    resolution: int
    samples: int
    batch_size: int
    network: Mapping[str, Any]
    predictor: Mapping[str, Any] = field(default_factory=dict)
    operator: Mapping[str, Any] = field(default_factory=dict)
    varying: Mapping[str, Any] = field(default_factory=dict)
    budget_minutes: float | None = None
    batches: int | None = None
    warm_start_resolution: int | None = None
    warm_start_share: float = 0.25


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            name="paper",
            resolution=128,
            samples=1000,
            batch_size=32,
            # "20 modes" of both signs together in the ENS networks, of each sign in the baselines
            network={"width": 64, "layers": 4, "max_wavenumber": [10, 10]},
            operator={"max_wavenumber": [20, 19]},
            varying={"kernel_size": 5, "cnn_layers": 5},
            batches=160_000,
        ),
        Scale(
            name="desk",
            resolution=64,
            samples=1000,
            batch_size=8,
            network={"width": 24, "layers": 4, "max_wavenumber": [10, 10]},
            predictor={"width": 16, "max_wavenumber": [8, 8]},
            operator={"width": 32},
            budget_minutes=18.0,
            warm_start_resolution=32,
            warm_start_share=0.3,
        ),
        Scale(
            name="tiny",
            resolution=16,
            samples=64,
            batch_size=8,
            network={"width": 8, "layers": 2, "max_wavenumber": [4, 4]},
            batches=20,
        ),
    )
}


def scale_named(name: str) -> Scale:
    """The scale called `name`."""
    if name not in SCALES:
        raise InvalidInput("scale", f"one of {', '.join(SCALES)}", name)
    return SCALES[name]
