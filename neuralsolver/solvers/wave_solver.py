"""Solving a wave problem: linear factorisation, corrections by a network, then Newton.

    u₀ = −P(0)⁻¹ F(0)                         the linear solution, whose factors are kept
    u ← u + C(u, g, …),  g = −P(0)⁻¹ F(u)     a few corrections; the one with the smallest g counts
    Newton from there                         GMRES on the factors of P at that iterate

What Newton does not finish from the network's iterate is solved classically, and the answer says
whose it is. Weak nonlinearity needs no network: Anderson's method on the linear factors is tried
first, and given up after a few triangular solves where it does not contract.

Everything is in units in which the linear solution has a maximum of 1 (`WaveOperator.normalised`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.sparse_lu import SingularMatrix, SparseLU
from neuralsolver.solvers.wave_newton import WaveAnswer, anderson, damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import Complex, Real, WaveOperator, norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST_POINTS = {2: 10.0, 4: 7.0}
"""Points per shortest wavelength that a stencil of this order needs."""
LARGEST_CHANGE = 1e3
"""ε|u|² of the linear solution beyond which nothing is tried."""


@dataclass(frozen=True)
class WaveSolution:
    """A wave and how it was found.

    Args:
        slowness: Of the medium: (n, m).
        field: u at the points, sides included: (n, m), complex.
        linear: The linear solution, likewise.
        residual: ‖F(u)‖ / ‖F(0)‖.
        converged: Whether that is below the tolerance.
        method: Whose answer it is.
        remarks: What the reader should know of it.
    """

    slowness: Real
    field: Complex
    linear: Complex
    residual: float
    converged: bool
    method: str
    remarks: tuple[str, ...] = ()

    @property
    def amplitude(self) -> Real:
        """|u|."""
        return np.abs(self.field)

    @property
    def phase(self) -> Real:
        """arg u, between −π and π."""
        return np.angle(self.field)

    def __str__(self) -> str:
        reached = "reached the tolerance" if self.converged else "missed the tolerance"
        lines = [f"{reached}: residual {self.residual:.1e}, by {self.method}"]
        lines.append(f"largest amplitude {self.amplitude.max():.4g}")
        return "\n".join(lines + [f"note: {remark}" for remark in self.remarks])

    def described(self) -> dict[str, Any]:
        """JSON values, without the fields."""
        return {
            "equation": "waves",
            "shape": list(self.field.shape),
            "good": self.converged,
            "relative_residual": self.residual,
            "method": self.method,
            "largest_amplitude": float(self.amplitude.max()),
            "remarks": list(self.remarks),
        }

    def plot(self, path: str | Path) -> Figure:
        """Draw medium, amplitude, phase and, if it differs, the linear amplitude; write them."""
        from neuralsolver.plotting.pictures import draw_waves

        return draw_waves(self, path)


def solve_waves(
    problem: WaveOperator,
    network: nn.Module | None = None,
    *,
    tolerance: float = 1e-9,
    factor: SparseLU | None = None,
) -> WaveSolution:
    """Solve a wave problem, linear or not.

    Args:
        problem: The equation with its medium and source, in any units.
        network: A corrector (`load_corrector` of `training.checkpoint`). Without one every
            method is classical.
        tolerance: Of the relative residual.
        factor: Of the linear equation, if it is known.

    Returns:
        The solution. A tolerance that was not reached is `converged` false, not an exception.

    >>> import numpy as np
    >>> source = np.zeros((33, 33), complex)
    >>> source[16, 16] = 1.0
    >>> solve_waves(WaveOperator(np.ones((33, 33)), source, 20.0, 0.0)).method
    'sparse LU'
    """
    scaled, factor, linear, unit = problem.normalised(factor)
    remarks = _remarks(problem)
    if problem.strength == 0.0:
        answer = WaveAnswer(linear, scaled.relative_residual(linear), True)
        answer.converged = answer.residual <= tolerance
        method = "sparse LU"
    else:
        # in these units ε is the change of the medium by the largest linear intensity
        strength = scaled.strength * unit**2
        if not strength <= LARGEST_CHANGE:
            raise InvalidInput("strength", f"ε|u|² of at most {LARGEST_CHANGE:g}", f"{strength:g}")
        scaled = replace(scaled, strength=strength)
        answer, method = _solve_kerr(scaled, factor, linear, network, tolerance)
    if not answer.converged:
        remarks += ("no method reached the tolerance; a solution may not exist at this strength",)
    return WaveSolution(
        problem.slowness,
        unit * problem.embed(answer.u),
        unit * problem.embed(linear),
        answer.residual,
        answer.converged,
        method,
        remarks,
    )


def _solve_kerr(
    problem: WaveOperator,
    factor: SparseLU,
    linear: Complex,
    network: nn.Module | None,
    tolerance: float,
) -> tuple[WaveAnswer, str]:
    """The methods in order of price; the first that converges answers."""
    tried: list[tuple[WaveAnswer, str]] = []

    def found(name: str, method: Callable[[], WaveAnswer]) -> bool:
        with contextlib.suppress(SingularMatrix):
            tried.append((method(), name))
        return bool(tried) and tried[-1][0].converged

    if found(
        "Anderson on the linear factors", lambda: anderson(problem, factor, linear, tolerance)
    ):
        return tried[-1]
    if network is not None:
        start, size = corrected(network, problem, factor, linear)
        if math.isfinite(size) and found(
            "network, then Newton", lambda: newton_krylov(problem, start, tolerance)
        ):
            return tried[-1]
    for name, method in CLASSICAL.items():
        if found(f"classical: {name}", partial(method, problem, factor, linear, tolerance)):
            return tried[-1]
    return min((answer for answer, _ in tried), key=lambda one: one.residual), "none, best residual"


CLASSICAL: dict[str, Callable[[WaveOperator, SparseLU, Complex, float], WaveAnswer]] = {
    "Newton-GMRES": lambda problem, factor, linear, tolerance: newton_krylov(
        problem, linear, tolerance, preconditioner="frozen", factor=factor
    ),
    "damped Newton": lambda problem, factor, linear, tolerance: damped_newton(
        problem, linear, tolerance
    ),
}
"""From the linear solution, in order of price."""


def _remarks(problem: WaveOperator) -> tuple[str, ...]:
    found = []
    largest = float(problem.slowness.max())
    points = 2 * math.pi / (problem.wavenumber * problem.spacing * largest)
    needed = FEWEST_POINTS[problem.order]
    if points < needed:
        found.append(
            f"{points:.1f} points per shortest wavelength; order {problem.order} needs {needed:g}"
        )
    if problem.depth[1:-1, 1:-1].all():
        found.append("the absorbing layers fill the box: it is smaller than 2.5 wavelengths")
    return tuple(found)


def features(
    problem: WaveOperator,
    factor: SparseLU,
    linear: Complex,
    u: Complex,
    signal: str = "preconditioned",
) -> tuple[Tensor, float]:
    """What the network reads of an iterate.

    Args:
        problem: In units in which the linear solution has a maximum of 1.
        factor: Of its linear part.
        linear: The linear solution.
        u: The iterate.
        signal: "preconditioned" for g, "raw" for −F(u), "none" for zeros in its place.

    Returns:
        (9, n, m) in single precision, and ‖g‖ / ‖u₀‖.
    """
    residual = problem.residual(u)
    g: Complex = -factor.solve(residual)
    size = norm(g) / norm(linear)
    if signal == "raw":
        g = -residual / (problem.wavenumber * problem.spacing) ** 2
    elif signal == "none":
        g = np.zeros_like(g)
    g = g / (1.0 + norm(g) / math.sqrt(g.size))
    waves = [problem.embed(v) for v in (u, g, linear)]
    medium = 4 * (1.0 - problem.slowness**2)
    kerr = problem.strength * (problem.depth == 0.0)
    parts = [part for wave in waves for part in (wave.real, wave.imag)]
    stacked = np.stack([*parts, medium, problem.depth, kerr]).astype(np.float32)
    return torch.from_numpy(stacked), size


def corrected(
    network: nn.Module,
    problem: WaveOperator,
    factor: SparseLU,
    linear: Complex,
    *,
    corrections: int = 2,
    signal: str = "preconditioned",
) -> tuple[Complex, float]:
    """The network's best iterate from the linear solution.

    Args:
        network: The corrector.
        problem: In units in which the linear solution has a maximum of 1.
        factor: Of its linear part.
        linear: The linear solution.
        corrections: How many.
        signal: What the network reads of its error.

    Returns:
        The iterate whose preconditioned residual is smallest, and that over the linear solution.
    """
    u, best, smallest = linear, linear, math.inf
    for step in range(corrections + 1):
        inputs, size = features(problem, factor, linear, u, signal)
        if step and size < smallest:
            best, smallest = u, size
        if step == corrections or not math.isfinite(size):
            break
        with torch.inference_mode():
            change = network(inputs[None])[0].double().numpy()
        if not np.isfinite(change).all():
            break
        u = u + (change[0] + 1j * change[1])[1:-1, 1:-1].ravel()
    return best, smallest
