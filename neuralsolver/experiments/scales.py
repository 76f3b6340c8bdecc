"""Three scales of one code: the paper's sizes, what two cores train, what a test can afford."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.models.hdit import PAPER_SIZE


@dataclass(frozen=True)
class Scale:
    """Sizes of the data and the networks, and the compute of one training run.

    `network` are the arguments of the FNO backbones, and others change some of them: `predictor`
    those of a contractive predictor, which only has to find a start and may be smaller than the
    corrector; `operator` those of plain operators; `unrolled` those of the paper's ENS, `varying`
    of those for coefficients that vary in space. `unet` is the U-Net of the ablation, `transformer`
    the network of the flows, `space_time` what an FNO in space and time changes.

    `batches_of` are the batches of recipes whose compute differs from the others',
    `ablation_batches` those of every model of the ablations, `effort` the share of their official
    steps that methods which optimise each instance are given. A warm start is a share of the
    training spent on a coarser grid, where a step costs a fraction; the recipe says which share.

    `flow` replaces some of these fields for flows, whose samples are whole trajectories.
    """

    name: str
    resolution: int
    samples: int
    batch_size: int
    network: Mapping[str, Any]
    predictor: Mapping[str, Any] = field(default_factory=dict)
    operator: Mapping[str, Any] = field(default_factory=dict)
    varying: Mapping[str, Any] = field(default_factory=dict)
    unrolled: Mapping[str, Any] = field(default_factory=dict)
    unet: Mapping[str, Any] = field(default_factory=dict)
    transformer: Mapping[str, Any] = field(default_factory=dict)
    space_time: Mapping[str, Any] = field(default_factory=dict)
    budget_minutes: float | None = None
    batches: int | None = None
    batches_of: Mapping[str, int] = field(default_factory=dict)
    ablation_batches: int | None = None
    effort: float = 1.0
    warm_start_resolution: int | None = None
    flow: Mapping[str, Any] = field(default_factory=dict)

    def of(self, equation: Equation) -> Scale:
        """The scale for a kind of equation; batches given as "equation/recipe" count for it."""
        if not equation.frames:
            return self
        chosen = replace(self, **self.flow, flow={})
        prefix = f"{equation.name}/"
        own = {
            key.removeprefix(prefix): batches
            for key, batches in chosen.batches_of.items()
            if key.startswith(prefix)
        }
        return replace(chosen, batches_of={**chosen.batches_of, **own})


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
            unet={"width": 64},
            transformer=PAPER_SIZE,
            space_time={"max_wavenumber": [8, 8, 8], "time_padding": 3},
            batches=160_000,
            flow={"batch_size": 24},
        ),
        Scale(
            name="desk",
            resolution=64,
            samples=1000,
            batch_size=8,
            network={"width": 24, "layers": 4, "max_wavenumber": [10, 10]},
            predictor={"width": 16, "max_wavenumber": [8, 8]},
            operator={"width": 32},
            unrolled={"max_wavenumber": [8, 8]},
            unet={"width": 16},
            budget_minutes=18.0,
            batches_of={"paper": 4800, "pino": 1200, "operator": 1200, "operator-pino": 1200},
            ablation_batches=600,
            warm_start_resolution=32,
            space_time={"width": 16, "max_wavenumber": [6, 8, 8], "time_padding": 3},
            # a residual of 64 points still resolves these flows (docs/flows.md)
            flow={
                "unrolled": {},
                "batches": 960,
                "batches_of": {
                    "contractive": 3200,
                    "operator": 2400,
                    "operator-pino": 400,
                    "paper": 600,
                    "kolmogorov/paper": 250,
                    "fno": 400,
                    "pino": 240,
                },
                "effort": 0.2,
                "budget_minutes": None,
                "warm_start_resolution": None,
            },
        ),
        Scale(
            name="tiny",
            resolution=16,
            samples=64,
            batch_size=8,
            network={"width": 8, "layers": 2, "max_wavenumber": [4, 4]},
            unet={"width": 8, "multipliers": [1, 2]},
            transformer={"patch": 2, "widths": [16, 16], "head_width": 8, "mapping_width": 8},
            space_time={"max_wavenumber": [2, 4, 4], "time_padding": 1},
            batches=20,
            effort=0.02,
        ),
    )
}


def scale_named(name: str) -> Scale:
    """The scale called `name`."""
    if name not in SCALES:
        raise InvalidInput("scale", f"one of {', '.join(SCALES)}", name)
    return SCALES[name]
