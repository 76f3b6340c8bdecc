"""Random permeabilities as functions of standard normal numbers.

    a = low + (high − low) p(ξ),   ξ ~ N(0, I),   p ∈ {0, 1}       two phases
    ln a = ½ ln(low·high) + ½ ln(high/low) z(ξ)/‖z‖                 log-normal

    two-phase    p = 1 where the cosine field z = Σ σ ξ φφ is not negative
    channels     2 or 3 sinuous channels of the high phase in one random direction
    ellipses     3 to 8 ellipses of the high phase
    log-normal   the same cosine field, scaled to deviation 1 on average

The first and the last have a Gaussian field behind them, with n² numbers on n × n points. Channels
and ellipses have none: their numbers are the normal scores of a few geometric parameters. Because
every prior is a map of N(0, I), one Markov chain and one ensemble smoother serve all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from neuralsolver.errors import InvalidInput
from neuralsolver.reference.posterior import field_prior
from neuralsolver.reference.random_fields import cosine_variance

Array = npt.NDArray[np.float64]

CHANNELS, ELLIPSES = 3, 8
"""The most of each; the number that is there is random."""


@dataclass(frozen=True)
class Prior:
    """A distribution of permeabilities on n × n vertices of the unit square.

    Args:
        name: How it is called on the command line.
        low: Permeability of the background phase.
        high: Permeability of the other phase.
        inverse_length: τ of the cosine field; larger is rougher.
    """

    name: str
    low: float = 3.0
    high: float = 12.0
    inverse_length: float = 3.0

    def __post_init__(self) -> None:
        if self.name not in FIELDS:
            raise InvalidInput("prior", f"one of {', '.join(FIELDS)}", self.name)
        if not 0 < self.low < self.high:
            raise InvalidInput("low and high", "0 < low < high", (self.low, self.high))

    @property
    def binary(self) -> bool:
        """Whether the permeability has two values only."""
        return self.name != "log-normal"

    @property
    def gaussian(self) -> bool:
        """Whether a Gaussian field of the same size is behind it."""
        return self.name in ("two-phase", "log-normal")

    def dimension(self, resolution: int) -> int:
        """The number of standard normals that make a field."""
        if self.gaussian:
            return len(field_prior(resolution, 1.0, True, self.inverse_length).deviation) ** 2
        return 1 + 6 * CHANNELS if self.name == "channels" else 6 * ELLIPSES

    def latent(self, normals: Array, resolution: int) -> Array:
        """The Gaussian fields (S, n, n) behind normals (S, dimension), or the phases as 0 and 1."""
        return FIELDS[self.name](self, np.atleast_2d(normals), resolution)

    def permeability(self, latent: Array) -> Array:
        """The permeability of what `latent` returns."""
        if self.binary:
            cut = 0.0 if self.gaussian else 0.5
            return np.where(latent >= cut, self.high, self.low)
        deviation = np.sqrt(cosine_variance(inverse_length=self.inverse_length))
        values: Array = np.sqrt(self.low * self.high) * (self.high / self.low) ** (
            latent / (2 * deviation)
        )
        return values

    def fields(self, normals: Array, resolution: int) -> Array:
        """The permeabilities (S, n, n) of normals (S, dimension)."""
        return self.permeability(self.latent(normals, resolution))

    def draw(self, rng: np.random.Generator, resolution: int, count: int = 1) -> Array:
        """Random permeabilities (count, n, n)."""
        size = (count, self.dimension(resolution))
        return self.fields(rng.standard_normal(size), resolution)


def _gaussian(prior: Prior, normals: Array, resolution: int) -> Array:
    field = field_prior(resolution, 1.0, True, prior.inverse_length)
    return field.field(normals.reshape(-1, *field.deviation.shape))


def _points(resolution: int) -> tuple[Array, Array]:
    line = np.linspace(0.0, 1.0, resolution)
    return line[:, None], line[None, :]


def _channels(prior: Prior, normals: Array, resolution: int) -> Array:
    x, y = _points(resolution)
    drawn = np.zeros((len(normals), resolution, resolution))
    for phases, uniform in zip(drawn, ndtr(normals), strict=True):
        angle = np.pi * uniform[0]
        along = (x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle)
        across = (y - 0.5) * np.cos(angle) - (x - 0.5) * np.sin(angle)
        parts = enumerate(uniform[1:].reshape(CHANNELS, 6))
        for i, (there, place, width, height, length, phase) in parts:
            if i >= 2 and there < 0.5:
                continue
            bend = (0.03 + 0.09 * height) * np.sin(
                2 * np.pi * (along / (0.4 + 0.6 * length) + phase)
            )
            half = 0.035 + 0.035 * width
            phases[np.abs(across - (place - 0.5) - bend) <= half] = 1.0
    return drawn


def _ellipses(prior: Prior, normals: Array, resolution: int) -> Array:
    x, y = _points(resolution)
    drawn = np.zeros((len(normals), resolution, resolution))
    for phases, uniform in zip(drawn, ndtr(normals), strict=True):
        for i, (there, u, v, long, short, turn) in enumerate(uniform.reshape(ELLIPSES, 6)):
            if i >= 3 and there < 0.5:
                continue
            angle = np.pi * turn
            along = (x - u) * np.cos(angle) + (y - v) * np.sin(angle)
            across = (y - v) * np.cos(angle) - (x - u) * np.sin(angle)
            first, second = 0.06 + 0.14 * long, 0.05 + 0.07 * short
            phases[(along / first) ** 2 + (across / second) ** 2 <= 1.0] = 1.0
    return drawn


FIELDS: dict[str, Callable[[Prior, Array, int], Array]] = {
    "two-phase": _gaussian,
    "channels": _channels,
    "ellipses": _ellipses,
    "log-normal": _gaussian,
}
