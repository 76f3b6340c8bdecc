"""ens solve waves: the wave of a source in a medium with absorbing sides.

--medium     the slowness at the points: a number or a file    default: random and smooth
--input      the source f: a file, may be complex              default: a beam
--set        wavenumber (default: 8 points per wavelength), strength, order, length, layer
--output     the complex wave, .npy
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import FINITE, Int

if TYPE_CHECKING:
    from neuralsolver.solvers.wave_solver import WaveSolution

WAVES = "waves"
Medium = Annotated[
    str | None,
    typer.Option(help="Of waves: the slowness, a number or a file. [default: random]"),
]
CONSTANTS = ("wavenumber", "strength", "order", "length", "layer")


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
    """Read the fields that the options name, and solve.

    Args:
        medium: Number or file of the slowness; a random smooth medium unless given.
        source: File of the source; a beam unless given.
        settings: NAME=VALUE texts.
        resolution: Points a side of a random or constant medium.
        seed: Of a random medium.
        tolerance: Of the relative residual.
        network: Whether to use the shipped network.

    Returns:
        The wave.

    Raises:
        InvalidInput: Of the options.
    """
    import numpy as np

    from neuralsolver.data.array_files import read_field
    from neuralsolver.data.wave_media import random_medium
    from neuralsolver.waves import Waves

    given = parse_settings(settings)
    for name in given:
        if name not in CONSTANTS:
            raise InvalidInput("--set", f"{', '.join(CONSTANTS)} of waves", name)
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
    waves = Waves(slowness, **constants)
    f = None if source is None else read_field("--input", source)
    accuracy = {} if tolerance is None else {"tolerance": tolerance}
    return waves.solve(f, network=WAVES if network else None, **accuracy)
