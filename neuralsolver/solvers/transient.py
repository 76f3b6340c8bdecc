"""Heat and advection-diffusion in time, by implicit steps of second order.

    ∂u/∂t = L u + f,   L u = ∇·(a∇u) − v·∇u         u given at t = 0 and on Dirichlet points

One step of length τ takes the two stages of Alexander's L-stable method with γ = 1 − 1/√2:

    U = u + γτ (L U + f),    u⁺ = u + (1−γ)/γ (U − u) + γτ (L u⁺ + f)

Both solve c w − L w = f + c b with c = 1/(γτ) and a known b: the same operator, factorised once for
all steps. Where the grid is large it is solved by multigrid instead.

The time error of the result is estimated by comparison with half as many steps, e ≈ |u − u'| / 3,
and steps are doubled until the estimate is below the tolerance.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.advection_diffusion import AdvectionDiffusion
from neuralsolver.equations.given import FixedValues, WallValues
from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.fields.grid import Side
from neuralsolver.solvers.direct import LARGE, DirectStep
from neuralsolver.solvers.solve import ClassicalSolver

GAMMA = 1 - 1 / math.sqrt(2)
MOST_STEPS = 1024
"""Steps from one frame to the next."""
STAGE_TOLERANCE = 1e-10
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A field at several times, as `evolve` returns it.

    >>> import neuralsolver as ns, numpy as np
    >>> print(ns.evolve(np.ones((17, 17)), 0.1, frames=2).times)
    [0.   0.05 0.1 ]

    Attributes:
        u: The field, (frame, x, y) or (frame, x, y, z); the first frame is the initial state.
        times: The time of every frame.
        time_error: An estimate of the largest L2 error of a frame due to the time steps, relative
            to the largest frame; None where the steps were given.
        steps: Steps from one frame to the next.
        reached: Whether the estimate is below the tolerance.
        seconds: What it took.
        remarks: What a user should know.
    """

    u: Array
    times: Array
    time_error: float | None
    steps: int
    reached: bool
    seconds: float
    remarks: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        shape = "x".join(map(str, self.u.shape[1:]))
        words = f"{shape}, {len(self.u) - 1} frames to t = {self.times[-1]:.4g}, {self.steps} steps"
        lines = [f"{words} each, {self.seconds:.2f} s"]
        if self.time_error is not None:
            estimate = f"relative error of the time steps about {self.time_error:.1e} (estimate"
            lines.append(f"{estimate}: comparison with half as many)")
        return "\n".join([*lines, *self.remarks])

    def animate(self, path: str | Path) -> None:
        """Write the frames as an animated .gif (of a box its middle)."""
        from neuralsolver.plotting.animation import animate

        frames = self.u if self.u.ndim == 3 else self.u[:, self.u.shape[1] // 2]
        animate(path, {"u": frames}, self.times)


def evolve(
    initial: npt.ArrayLike,
    time: float,
    *,
    frames: int = 20,
    diffusivity: npt.ArrayLike = 1.0,
    velocity: Sequence[float] = (),
    source: npt.ArrayLike = 0.0,
    tolerance: float = 1e-3,
    steps: int | None = None,
    lengths: Sequence[float] | None = None,
    sides: Sequence[Side] | None = None,
    walls: WallValues | None = None,
    fixed: FixedValues | None = None,
) -> Trajectory:
    """Solve ∂u/∂t = ∇·(a∇u) − v·∇u + f from an initial state.

    >>> import neuralsolver as ns, numpy as np
    >>> hot = np.zeros((33, 33)); hot[10:20, 10:20] = 1.0
    >>> ns.evolve(hot, 0.01, frames=4, sides=("neumann", "neumann")).u.shape
    (5, 33, 33)

    Args:
        initial: u at t = 0, (x, y) or (x, y, z).
        time: The last time.
        frames: How many frames to return after the first one, equally spaced.
        diffusivity: a, a number or a field.
        velocity: v, one number per axis.
        source: f, a number or a field.
        tolerance: Largest estimated error of the time steps, relative to the largest frame.
        steps: Take exactly this many steps between frames instead.
        lengths: Lengths of the domain.
        sides: Boundary condition of every axis, as for `Problem`.
        walls: u on the Dirichlet sides.
        fixed: u at other points.

    Returns:
        The trajectory. A tolerance that was not reached is told by `reached`.

    Raises:
        InvalidInput: The fields, the time or the grid are not possible.
    """
    start = clock.perf_counter()
    u = np.asarray(initial, dtype=float)
    if not (math.isfinite(time) and time > 0 and frames >= 1 and u.ndim in (2, 3)):
        expected = "a positive time, at least one frame, and a field (x, y) or (x, y, z)"
        raise InvalidInput("evolve", expected, f"time {time}, {frames} frames, {u.ndim} axes")
    if not np.isfinite(u).all():
        raise InvalidInput("initial", "finite values", "NaN or infinite values")
    given = (np.asarray(part, float) for part in (diffusivity, source))
    try:
        fields = np.stack([np.broadcast_to(part, u.shape) for part in given])
    except ValueError:
        expected = f"numbers, or fields of shape {u.shape}"
        raise InvalidInput("diffusivity and source", expected, "other shapes") from None
    grid: dict[str, Any] = {"lengths": lengths or (1.0,) * u.ndim, "sides": sides}
    grid |= {"walls": walls, "fixed": fixed}
    spacing = time / frames

    def run(count: int) -> Array:
        return _frames(u, fields, tuple(velocity), frames, count, spacing / count, grid)

    found, estimate, count = run(steps or 1), None, steps or 1
    while steps is None and (estimate is None or estimate > tolerance) and count < MOST_STEPS:
        before, count = found, 2 * count
        found = run(count)
        size = np.sqrt(np.square(found).sum((*range(1, found.ndim),)).max()) or 1.0
        off = np.sqrt(np.square(found - before).sum((*range(1, found.ndim),))).max()
        estimate = float(off / size / 3)
    reached = estimate is None or estimate <= tolerance
    remarks = _remarks(AdvectionDiffusion(tuple(velocity), reaction=1.0), fields, grid)
    seconds = clock.perf_counter() - start
    times = np.linspace(0.0, time, frames + 1)
    return Trajectory(found, times, estimate, count, reached, seconds, remarks)


def _frames(
    u: Array,
    fields: Array,
    velocity: tuple[float, ...],
    frames: int,
    steps: int,
    tau: float,
    grid: dict[str, Any],
) -> Array:
    """The initial state and the frames after it, `steps` steps of length τ apart."""
    rate = 1 / (GAMMA * tau)
    problem = Problem(AdvectionDiffusion(velocity, rate), torch.from_numpy(fields)[None], **grid)
    stage = _stage(problem, rate)
    now = problem.impose(torch.from_numpy(u)[None, None])
    kept = [now]
    for _ in range(frames):
        for _ in range(steps):
            middle = stage(now, now)
            now = stage(now + (1 - GAMMA) / GAMMA * (middle - now), middle)
        kept.append(now)
    return torch.cat(kept)[:, 0].numpy()


def _stage(problem: Problem, rate: float) -> Callable[[Tensor, Tensor], Tensor]:
    """(b, guess) → w with c w − L w = f + c b."""
    grid = problem.grid
    direct = grid.dimension == 2 or grid.size <= LARGE[3]
    factor = DirectStep.factorised(problem).inverses[0] if direct else None

    def solve(known: Tensor, guess: Tensor) -> Tensor:
        source = problem.inputs[:, 1:] + rate * known
        inputs = torch.cat([problem.inputs[:, :1], source], 1)
        stage = Problem(problem.equation, inputs, fixed=problem.fixed, grid=grid)
        if factor is None:
            solution = ClassicalSolver().solve(stage, guess, tolerance=STAGE_TOLERANCE)
            if not solution.good:
                raise ReferenceFailure(f"an implicit step: {solution.status[0].value}")
            return solution.tensor
        residual = grid.flatten(stage.residual(guess)).numpy()
        change = torch.from_numpy(np.ascontiguousarray(factor(residual.T).T))
        return stage.impose(guess - grid.unflatten(change, guess))

    return solve


def _remarks(equation: AdvectionDiffusion, fields: Array, grid: dict[str, Any]) -> tuple[str, ...]:
    problem = Problem(equation, torch.from_numpy(fields)[None], **grid)
    peclet = equation.largest_cell_peclet(problem.grid, problem.inputs[:, :1])
    if peclet <= 2:
        return ()
    return (f"cell Péclet number |v|h/a = {peclet:.3g} > 2: u may oscillate; take more points",)
