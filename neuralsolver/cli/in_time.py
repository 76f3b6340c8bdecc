"""ens solve heat | advection-diffusion: fields that change in time, from an initial state.

--input      the initial state: a number or a file                   default: random
--set        diffusivity, source: a number or a file; velocity: a number for each axis, as 1,0
--frames     frames after the first
--time       the last time                                           default: 0.1
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.domain import Domain
from neuralsolver.cli.options import parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import FINITE, Float, Int

if TYPE_CHECKING:
    from neuralsolver.solvers.transient import Trajectory

TRANSIENTS = {
    "heat": ("diffusivity", "source"),
    "advection-diffusion": ("diffusivity", "source", "velocity"),
}
"""The names of what changes in time, and what may be set."""

Frames = Annotated[
    int | None,
    typer.Option(help="In time: frames after the initial state. [default: 20]"),
    Int(1, 100_000),
]
Time = Annotated[
    float | None,
    typer.Option(help="In time: the last time. [default: 0.1]"),
    Float(above=0.0, most=1e100),
]


def evolve_in_time(
    name: str,
    domain: Domain,
    resolution: int | None,
    seed: int,
    settings: list[str] | None,
    frames: int | None,
    time: float | None,
    tolerance: float | None,
    plot: Path | None,
) -> Trajectory:
    """The trajectory that the options describe."""
    from neuralsolver.equations import Helmholtz
    from neuralsolver.limits import check_memory
    from neuralsolver.solvers.transient import evolve

    given = parse_settings(settings)
    for key in given:
        if key not in TRANSIENTS[name]:
            raise InvalidInput("--set", f"{' or '.join(TRANSIENTS[name])} of {name}", key)
    if plot is not None and plot.suffix.lower() != ".gif":
        raise InvalidInput("--plot", "a .gif, because it moves", plot)
    # any static problem has the points and fixed values; this one is determined by any boundary
    still = domain.problem(Helmholtz(1.0, source_amplitude=1.0), resolution or 64, seed)
    initial = still.inputs[0, 0].numpy()
    check_memory("--frames", frames or 20, 32.0 * ((frames or 20) + 1) * initial.size)
    return evolve(
        initial,
        0.1 if time is None else time,
        frames=frames or 20,
        tolerance=1e-3 if tolerance is None else tolerance,
        lengths=still.grid.lengths,
        sides=domain.grid_options()[1],
        fixed=still.fixed,
        **{key: _value(key, text) for key, text in given.items()},
    )


def described(found: Trajectory) -> dict[str, Any]:
    """A trajectory as JSON values, without its fields."""
    return {
        "shape": list(found.u.shape),
        "times": found.times.tolist(),
        "steps": found.steps,
        "time_error": found.time_error,
        "reached": found.reached,
        "seconds": round(found.seconds, 4),
        "remarks": list(found.remarks),
    }


def _value(key: str, text: str) -> Any:
    from neuralsolver.data.array_files import read_field

    if key == "velocity":
        return tuple(FINITE.read("--set velocity", part.strip()) for part in text.split(","))
    return read_field(f"--set {key}", text)
