"""All figures by name: which function draws them, from which part of the results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from neuralsolver.report import convergence, cost, flow_panels, panels
from neuralsolver.report.rows import Results
from neuralsolver.report.style import FLOWS

Maker = Callable[[Results], Figure | None]
"""A figure of the results, or None where they lack its data."""

STATIC = ("helmholtz", "poisson", "darcy", "nonlinear-helmholtz")


def makers(results: Results) -> dict[str, Maker]:
    """Every figure that exists in principle, by the name of its file without .png."""
    found: dict[str, Maker] = {
        "noisy-start": lambda r: convergence.noisy_start(r.study("noisy-start")),
        "starts": lambda r: convergence.starts(r.study("starts")),
        "refinement": convergence.refinement,
        "gradient-conditioning": convergence.gradient_conditioning,
        "backbones": convergence.backbones,
        "darcy-time-to-accuracy": lambda r: cost.time_to_accuracy(r.study("solve")),
        "conditioning": lambda r: cost.conditioning(r.study("conditioning")),
    }
    found["evolution-ablations"] = partial(convergence.evolution, experiment="ablations")
    for name in (*STATIC, *FLOWS):
        found[f"evolution-{name}"] = partial(convergence.evolution, experiment=name)
        found[f"accuracy-{name}"] = partial(cost.accuracy_against_seconds, experiment=name)
    for experiment, regime in panels.CASES:
        found[f"qualitative-{experiment}-{regime}"] = partial(
            panels.qualitative, experiment=experiment, regime=regime
        )
    for experiment, regime in flow_panels.places(results):
        found[f"qualitative-{experiment}-{regime}"] = partial(
            flow_panels.qualitative, experiment=experiment, regime=regime
        )
    return found | _snapshot_makers(results)


def _snapshot_makers(results: Results) -> dict[str, Maker]:
    """A figure for whatever has snapshots, and the comparisons of Helmholtz in any case."""
    places = sorted(
        {
            (experiment, regime, item.split("@")[0])
            for experiment, regime, item in (name.split("/", 2) for name in results.fields)
            if item.endswith("/error")
        }
    )
    found: dict[str, Maker] = {}
    for experiment in dict.fromkeys(["helmholtz", *(place[0] for place in places)]):
        for quantity in ("error", "residual"):
            found[f"iterations-{experiment}-{quantity}"] = partial(
                panels.iterations_side_by_side, experiment=experiment, quantity=quantity
            )
    for experiment, regime, method in places:
        found[f"snapshots-{experiment}-{regime}-{method}"] = partial(
            panels.snapshots, experiment=experiment, regime=regime, method=method
        )
    return found
