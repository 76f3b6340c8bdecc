"""What `ens solve` knows beside the equations: heat and advection-diffusion in time, and waves.

heat, advection-diffusion
    --input      the initial state: a number or a file                   default: random
    --set        diffusivity, source: a number or a file; velocity: a number for each axis, as 1,0
    --frames     frames after the first
    --time       the last time                                           default: 0.1
waves
    --medium     the slowness at the points: a number or a file          default: random and smooth
    --input      the source f: a file, may be complex                    default: a beam
    --set        wavenumber (default: 8 points per wavelength), strength, order, length, layer
    --output     the complex wave, .npy
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.domain import Domain
from neuralsolver.cli.options import parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import FINITE, Float, Int

if TYPE_CHECKING:
    from neuralsolver.solvers.transient import Trajectory
    from neuralsolver.solvers.wave_solver import WaveSolution

WAVES = "waves"
TRANSIENTS = {
    "heat": ("diffusivity", "source"),
    "advection-diffusion": ("diffusivity", "source", "velocity"),
}
"""The names of what changes in time, and what may be set."""
WAVE_CONSTANTS = ("wavenumber", "strength", "order", "length", "layer")

Frames = Annotated[
    int | None,
    typer.Option(help="Heat, advection: number of frames after the first. [default: 20]"),
    Int(1, 100_000),
]
Time = Annotated[
    float | None,
    typer.Option(help="Heat, advection: time of the last frame. [default: 0.1]"),
    Float(above=0.0, most=1e100),
]
Medium = Annotated[
    str | None,
    typer.Option(help="Waves: the slowness, a number or a file. [default: random]"),
]


def evolve_in_time(
    name: str,
    domain: Domain,
    resolution: int | None,
    seed: int,
    settings: list[str] | None,
    frames: int,
    time: float,
    tolerance: float | None,
    plot: Path | None,
) -> Trajectory:
    """The trajectory that the options describe."""
    from neuralsolver.data.array_files import read_field
    from neuralsolver.equations import Helmholtz
    from neuralsolver.limits import check_memory
    from neuralsolver.solvers.transient import evolve

    def value(key: str, text: str) -> Any:
        if key == "velocity":
            return tuple(FINITE.read("--set velocity", part.strip()) for part in text.split(","))
        return read_field(f"--set {key}", text)

    given = parse_settings(settings, known=TRANSIENTS[name])
    if plot is not None and plot.suffix.lower() != ".gif":
        raise InvalidInput("--plot", "a .gif, because it moves", plot)
    # any static problem has the points and fixed values; this one is determined by any boundary
    still = domain.problem(Helmholtz(1.0, source_amplitude=1.0), resolution or 64, seed)
    initial = still.inputs[0, 0].numpy()
    check_memory("--frames", frames, 32.0 * (frames + 1) * initial.size)
    return evolve(
        initial,
        time,
        frames=frames,
        tolerance=1e-3 if tolerance is None else tolerance,
        lengths=still.grid.lengths,
        sides=domain.grid_options()[1],
        fixed=still.fixed,
        **{key: value(key, text) for key, text in given.items()},
    )


def solve_waves(
    medium: str | None,
    source: str | None,
    settings: list[str] | None,
    *,
    resolution: int | None,
    seed: int,
    tolerance: float | None,
    network: bool,
) -> WaveSolution:
    """The wave that the options describe."""
    import numpy as np

    from neuralsolver.data.array_files import read_field
    from neuralsolver.data.wave_media import random_medium
    from neuralsolver.waves import Waves

    given = parse_settings(settings, known=WAVE_CONSTANTS)
    points = Int(8, 20_000).read("--resolution", 64 if resolution is None else resolution)
    if medium is None:
        slowness = random_medium(np.random.default_rng(seed), points, "smooth", 0.2)
    else:
        slowness = read_field("--medium", medium)
        if slowness.ndim and resolution is not None:
            raise InvalidInput("--resolution", "no file as --medium beside it", resolution)
        slowness = slowness if slowness.ndim else np.full((points, points), float(slowness))
    constants: dict[str, Any] = {name: FINITE.read(name, text) for name, text in given.items()}
    length = constants.get("length", 1.0)
    constants.setdefault("wavenumber", 2 * math.pi * (slowness.shape[0] - 1) / (8 * length))
    f = None if source is None else read_field("--input", source)
    accuracy = {} if tolerance is None else {"tolerance": tolerance}
    return Waves(slowness, **constants).solve(f, network=WAVES if network else None, **accuracy)
