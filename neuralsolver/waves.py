"""Waves in a medium, from the field of slowness to the picture.

    −Δu − k² s² (1 − iγ + ε|u|²) u = f       u complex, absorbing layers γ along all sides

    waves = ns.Waves(slowness, wavenumber=40.0)       ε = 0: one factorisation for all sources
    waves.solve(source).amplitude
    ns.Waves(slowness, 40.0, strength=0.3).solve()    a beam that changes its own medium

With ε > 0 Anderson's method is tried on the factors of the linear equation. What is too strong for
it is given to the shipped network and Newton's method, and then to classical methods
(`solvers.wave_solver`); the answer says whose it is.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from neuralsolver.data.wave_media import beam_source
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import POSITIVE, Float, check_memory
from neuralsolver.solvers.sparse_lu import SingularMatrix, SparseLU
from neuralsolver.solvers.wave_operator import Complex, Real, WaveOperator
from neuralsolver.solvers.wave_solver import WaveSolution, solve_waves
from neuralsolver.training.checkpoint import load_corrector
from neuralsolver.training.library import shipped_wave_corrector

FEWEST_POINTS_EVER = 2.0
"""Fewer points per shortest wavelength carry no wave."""


class Waves:
    """A medium with absorbing sides, ready for any number of sources.

    >>> import numpy as np, neuralsolver as ns
    >>> waves = ns.Waves(np.ones((65, 65)), wavenumber=40.0)
    >>> solution = waves.solve()
    >>> solution.method, bool(solution.amplitude.max() > 0.99)
    ('sparse LU', True)
    """

    def __init__(
        self,
        slowness: npt.ArrayLike,
        wavenumber: float,
        *,
        strength: float = 0.0,
        length: float = 1.0,
        order: int = 4,
        layer: float | None = None,
    ) -> None:
        """Check the medium; nothing is factorised yet.

        Args:
            slowness: s > 0, the refractive index or the inverse speed, at the points of a grid with
                equal spacing along both axes, sides included: (n, m).
            wavenumber: k of a medium of slowness 1, in units of 1 / `length`'s.
            strength: ε ≥ 0 of the Kerr effect, in units of 1 / |u|².
            length: Of the first axis.
            order: 4 for the compact stencil of nine points, 2 for the one of five.
            layer: Width of the absorbing layers; 1.25 wavelengths unless given, 0 for none.

        Raises:
            InvalidInput: Of the arguments, or a grid too coarse to carry the wave.
        """
        self.slowness: Real = _real_field("slowness", slowness)
        if not (self.slowness > 0).all():
            raise InvalidInput("slowness", "positive numbers", f"{self.slowness.min():g}")
        self.wavenumber = POSITIVE.read("wavenumber", wavenumber)
        self.strength = Float(least=0.0).read("strength", strength)
        spacing = POSITIVE.read("length", length) / (self.slowness.shape[0] - 1)
        self.layer = None if layer is None else Float(least=0.0).read("layer", layer)
        if order not in (2, 4):
            raise InvalidInput("order", "2 or 4", order)
        points = 2 * math.pi / (self.wavenumber * spacing * float(self.slowness.max()))
        if not points >= FEWEST_POINTS_EVER:
            expected = "one of at least 2 points per shortest wavelength on this grid"
            raise InvalidInput("wavenumber", expected, f"{self.wavenumber:g}, {points:.2g} points")
        size = self.slowness.size
        check_memory("slowness", self.slowness.shape, 128.0 * size * math.log2(size))
        silent = np.zeros(self.slowness.shape, np.complex128)
        self._medium = WaveOperator(
            self.slowness, silent, self.wavenumber, self.strength, order, spacing, self.layer
        )

    @functools.cached_property
    def factor(self) -> SparseLU:
        """The factors of the linear equation, made when they are first needed and then kept."""
        try:
            return self._medium.complex_factor(np.zeros(math.prod(self._medium.shape), complex))
        except SingularMatrix:
            expected = "one that is no resonance of the box"
            raise InvalidInput("wavenumber", expected, self.wavenumber) from None

    def solve(
        self,
        source: npt.ArrayLike | None = None,
        tolerance: float = 1e-9,
        *,
        network: nn.Module | str | None = "waves",
    ) -> WaveSolution:
        """The wave of one source.

        Args:
            source: f at the points, real or complex: (n, m). Unless given, a beam enters at the
                first row, so strong that the linear wave has a largest amplitude of 1.
            tolerance: Of ‖F(u)‖ / ‖F(0)‖.
            network: Where the Kerr effect is strong, a corrector, the folder of one, "waves" for
                the shipped one, or None for classical methods only.

        Returns:
            The solution. A tolerance that was not reached is `converged` false, not an exception.

        Raises:
            InvalidInput: Of the arguments.
        """
        tolerance = Float(above=0.0, most=1.0).read("tolerance", tolerance)
        if source is None:
            problem = self._medium.with_source(self._beam())
            unit = np.abs(self.factor.solve(problem.right_hand_side)).max()
            problem = problem.with_source(problem.source / unit)
        else:
            problem = self._medium.with_source(_complex_field(source, self.slowness.shape))
        if not np.any(problem.right_hand_side):
            raise InvalidInput("source", "one that is not zero everywhere inside", "zeros")
        corrector = _corrector(network) if self.strength > 0 else None
        return solve_waves(problem, corrector, tolerance=tolerance, factor=self.factor)

    def _beam(self) -> Complex:
        points = 2 * math.pi / (self.wavenumber * self._medium.spacing)
        rows, columns = self.slowness.shape
        waist = 0.4 * math.sqrt(rows * points)
        return beam_source((rows, columns), points, (columns - 1) / 2, waist)


def _corrector(network: nn.Module | str | None) -> nn.Module | None:
    if network == "waves":
        return shipped_wave_corrector()
    return load_corrector(network) if isinstance(network, str) else network


def _array(name: str, values: npt.ArrayLike, kinds: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInput(name, "an array of numbers", "rows of different lengths") from None
    if array.dtype.kind not in kinds:
        words = "real" if "c" not in kinds else "real or complex"
        raise InvalidInput(name, f"{words} numbers", f"{array.dtype}")
    if not np.isfinite(array).all():
        raise InvalidInput(name, "finite numbers", "NaN or infinity")
    return array


def _real_field(name: str, values: npt.ArrayLike) -> Real:
    array = _array(name, values, "biuf")
    if array.ndim != 2 or min(array.shape) < 8:
        raise InvalidInput(name, "shape (n, m) with at least 8 points a side", array.shape)
    return array.astype(np.float64)


def _complex_field(values: npt.ArrayLike, shape: tuple[int, ...]) -> Complex:
    array = _array("source", values, "biufc")
    if array.shape != shape:
        raise InvalidInput("source", f"shape {shape}, as the slowness", array.shape)
    return array.astype(np.complex128)
