"""What the residual of a true flow is made of, and whether the truth is one.

    floor      mean of F(w*)² over the points, w* from the reference solver: in the frames at least
               two away from the ends (interior), in the first and the last frame (ends), in all
    spacing    the same trajectory with half and twice the frame spacing
    grid       ‖w_n − w_m‖ / ‖w_m‖ frame by frame, the same initial function integrated on n and on
               m > n points, w_m cut to the modes of n

A floor of zero would make the truth a fixed point of a corrector; what is above it is noise to
learn from. Beside it stands "nothing moves", the residual of frame 0 repeated. A trajectory is
integrated on one grid, once, with half the frame spacing, and cut to the modes of another: data of
32 points come from 64 points, finer ones are not cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.data.reference_solution import solve_reference, truncate_spectrum
from neuralsolver.equations import NavierStokes, Problem, equation_named, generator
from neuralsolver.equations.base import Array
from neuralsolver.training.card import machine

Row = dict[str, Any]

EQUATIONS = ("navier-stokes", "kolmogorov")
TIME_ORDERS = (2, 4)
DEALIASING = ("none", "3/2", "2/3")
CASES = ((32, 64), (64, 64), (64, 128), (128, 128))
"""Points of the residual, and of the integration."""

GRIDS = ((64, 128), (128, 192))
SPACING_POINTS = 64
SAMPLES = 3
SEED = 20_264
PARTS = ("interior", "ends", "all")
"""The frames over which a residual is averaged."""


def residual_floor(
    equations: Sequence[str] = EQUATIONS,
    cases: Sequence[tuple[int, int]] = CASES,
    grids: Sequence[tuple[int, int]] = GRIDS,
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
    frames: int | None = None,
) -> list[Row]:
    """All rows, in about half a minute of an idle core; `frames` shortens the trajectories.

    Every row has kind ("floor", "spacing" or "grid"), equation, samples, seed and machine.
    """
    rows = []
    for name in equations:
        equation = equation_named(name, {} if frames is None else {"frames": frames})
        assert isinstance(equation, NavierStokes)
        flow = _Trajectories(equation, samples, seed)
        for row in (*_floors(flow, cases), *_spacings(flow), *_grids(flow, grids)):
            origin = {"equation": name, "samples": samples, "seed": seed, "machine": machine()}
            rows.append({**row, **origin})
    return rows


class _Trajectories:
    """The same few true flows on any grid, with half the frame spacing of `equation`."""

    def __init__(self, equation: NavierStokes, samples: int, seed: int) -> None:
        self.equation, self.samples, self.seed = equation, samples, seed
        self._integrated: dict[int, Array] = {}

    def on(self, resolution: int, fine: int, every: int = 2) -> Tensor:
        """(B, 1, T, n, n) on `resolution` points from `fine` ones, each frame or every so many."""
        if fine not in self._integrated:
            e = self.equation
            drawn = [e.sample(generator(self.seed, i), fine) for i in range(self.samples)]
            dense = replace(e, frame_spacing=e.frame_spacing / 2, frames=2 * e.frames)
            self._integrated[fine] = solve_reference(dense, np.stack(drawn)).solution
        frames = self._integrated[fine][:, :, ::every]
        return torch.from_numpy(truncate_spectrum(frames, resolution))


def _floors(flow: _Trajectories, cases: Sequence[tuple[int, int]]) -> Iterator[Row]:
    for points, integrated in cases:
        w = flow.on(points, integrated)
        for dealiasing, order in product(DEALIASING, TIME_ORDERS):
            residual = replace(flow.equation, time_order=order, dealiasing=dealiasing)
            row = {"kind": "floor", "points": points, "integrated": integrated}
            row |= {"time_order": order, "dealiasing": dealiasing, **_squares(residual, w)}
            still = _squares(residual, w[:, :, :1].expand_as(w))["all"]
            yield {**row, "nothing_moves": still}


def _spacings(flow: _Trajectories) -> Iterator[Row]:
    for every, order in product((1, 2, 4), TIME_ORDERS):
        w = flow.on(SPACING_POINTS, SPACING_POINTS, every)
        spacing = flow.equation.frame_spacing * every / 2
        if w.shape[2] > order:
            choice: Row = {"frame_spacing": spacing, "time_order": order}
            residual = replace(flow.equation, dealiasing="2/3", **choice)
            about = {"kind": "spacing", "points": SPACING_POINTS, **choice}
            yield {**about, **_squares(residual, w)}


def _grids(flow: _Trajectories, grids: Sequence[tuple[int, int]]) -> Iterator[Row]:
    for coarse, fine in grids:
        w, better = flow.on(coarse, coarse), flow.on(coarse, fine)
        size = better.flatten(3).norm(dim=3)
        worst = ((w - better).flatten(3).norm(dim=3) / size).amax((0, 1)).tolist()
        ends = {"first": worst[0], "middle": worst[len(worst) // 2], "last": worst[-1]}
        yield {"kind": "grid", "points": coarse, "against": fine, **ends}


def _squares(equation: NavierStokes, w: Tensor) -> dict[str, float]:
    """The mean squared residual in the frames that PARTS names."""
    frames = Problem(equation, w[:, :, 0]).residual(w).square().mean((0, 1, 3, 4))
    inner = frames[2:-2] if len(frames) > 4 else frames[1:-1]
    ends = (frames[0] + frames[-1]) / 2
    return {"interior": float(inner.mean()), "ends": float(ends), "all": float(frames.mean())}
