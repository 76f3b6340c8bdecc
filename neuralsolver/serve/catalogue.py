"""What the service offers: equations with their constants, the range of each, and what is drawn.

A constant that is not listed here keeps the value of the training: the number of frames of a flow,
say, decides how much memory a request takes. The range of a constant is both that of the slider and
that of a request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

RESONANCE = math.sqrt(2) * math.pi


@dataclass(frozen=True)
class Constant:
    """A constant that may be changed, with the values at which something happens."""

    name: str
    symbol: str
    meaning: str
    low: float
    high: float
    step: float
    scale: Literal["linear", "logarithmic"] = "linear"
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Entry:
    """One equation as the page presents it."""

    name: str
    title: str
    formula: str
    story: str
    unknown: str
    given: str
    brush: Literal["source", "phases", "vortices"]
    amplitude: float
    """Of a stroke of the brush."""
    largest: float
    """The largest absolute value of an input: what the reference solver still does in time."""
    constants: tuple[Constant, ...]

    @property
    def flow(self) -> bool:
        """Whether the solution moves."""
        return self.brush == "vortices"


def _viscosity(low: float, high: float) -> Constant:
    return Constant("viscosity", "ν", "viscosity", low, high, 0.01, "logarithmic")


def _forcing(amplitude: float, waves: int) -> tuple[Constant, Constant]:
    return (
        Constant("forcing_wavenumber", "m", "waves of the forcing", 1, waves, 1),
        Constant("forcing_amplitude", "A", "strength of the forcing", 0, amplitude, 0.01),
    )


CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(
            "helmholtz",
            "Helmholtz",
            "Δu + κ²u = f",
            "A membrane shaken with frequency κ. Near a resonance a small push moves it far.",
            "displacement u",
            "source f",
            "source",
            100.0,
            1e6,
            (
                Constant(
                    "wavenumber",
                    "κ",
                    "frequency",
                    0.5,
                    10.0,
                    0.01,
                    marks=(
                        (RESONANCE, "resonance"),
                        (math.sqrt(5) * math.pi, "resonance"),
                        (math.sqrt(8) * math.pi, "resonance"),
                    ),
                ),
            ),
        ),
        Entry(
            "poisson",
            "Poisson",
            "Δu = a f",
            "A membrane under a load, a temperature under heating, a potential around charges.",
            "potential u",
            "source f",
            "source",
            100.0,
            1e6,
            (Constant("scale", "a", "factor of the source", 0.1, 8.0, 0.1),),
        ),
        Entry(
            "nonlinear-helmholtz",
            "Nonlinear Helmholtz",
            "Δu + κ²u + λu³ = f",
            "The membrane grows stiffer or softer as it moves. Push too hard and no answer exists.",
            "displacement u",
            "source f",
            "source",
            40.0,
            1e4,
            (
                Constant("wavenumber", "κ", "frequency", 0.5, 4.0, 0.01),
                Constant("nonlinearity", "λ", "nonlinearity", 0.1, 6.0, 0.1),
            ),
        ),
        Entry(
            "darcy",
            "Darcy flow",
            "−∇·(a∇u) = f",
            "Water pressed through rock: fast where it is open, slow where it is dense.",
            "pressure u",
            "permeability a",
            "phases",
            1.0,
            1e3,
            (
                Constant("source", "f", "inflow", 10.0, 400.0, 5.0),
                Constant("low", "a₋", "dense rock", 0.5, 6.0, 0.5),
                Constant("high", "a₊", "open rock", 6.0, 100.0, 1.0),
            ),
        ),
        Entry(
            "navier-stokes",
            "Navier-Stokes",
            "∂ₜw + v·∇w = νΔw + f",
            "Eddies in a thin layer of fluid, stirred along the diagonal. Twenty frames at once.",
            "vorticity w",
            "first frame",
            "vortices",
            0.5,
            5.0,
            (_viscosity(1e-5, 1e-3), *_forcing(0.3, 4)),
        ),
        Entry(
            "kolmogorov",
            "Kolmogorov flow",
            "∂ₜw + v·∇w = νΔw − A cos 2πm r₂",
            "A fluid pushed in stripes that wants to roll up into eddies. Forty frames at once.",
            "vorticity w",
            "first frame",
            "vortices",
            6.0,
            30.0,
            (_viscosity(2e-4, 2e-3), *_forcing(6.0, 6)),
        ),
    )
}


def described(entry: Entry, trained: dict[str, Any]) -> dict[str, Any]:
    """An entry as JSON; each constant with the value of the training."""
    values = {
        "name": entry.name,
        "title": entry.title,
        "formula": entry.formula,
        "story": entry.story,
        "unknown": entry.unknown,
        "given": entry.given,
        "brush": entry.brush,
        "amplitude": entry.amplitude,
        "flow": entry.flow,
    }
    constants = [
        {
            "name": constant.name,
            "symbol": constant.symbol,
            "meaning": constant.meaning,
            "low": constant.low,
            "high": constant.high,
            "step": constant.step,
            "scale": constant.scale,
            "marks": constant.marks,
            "trained": trained[constant.name],
        }
        for constant in entry.constants
    ]
    return {**values, "constants": constants}
