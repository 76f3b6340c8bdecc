"""What the service offers: equations with their constants, the range of each, and what is drawn.

They are listed in `page/equations.toml`. A constant that is not listed keeps the value of the
training: the number of frames of a flow, say, decides how much memory a request takes. The range of
a constant is both that of the slider and that of a request.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

EQUATIONS = tomllib.loads((Path(__file__).parent / "page" / "equations.toml").read_text("utf-8"))


class Constant(BaseModel):
    """A constant that may be changed, with the values at which something happens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    symbol: str
    meaning: str
    low: float
    high: float
    step: float
    scale: Literal["linear", "logarithmic"] = "linear"
    resonances: tuple[int, ...] = ()


class Entry(BaseModel):
    """One equation as the page presents it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    formula: str
    story: str
    unknown: str
    given: str
    brush: Literal["source", "phases", "vortices"]
    amplitude: float
    largest: float
    constants: tuple[Constant, ...]

    @property
    def flow(self) -> bool:
        """Whether the solution moves."""
        return self.brush == "vortices"


CATALOGUE = {name: Entry(name=name, **values) for name, values in EQUATIONS.items()}


def described(entry: Entry, trained: dict[str, Any]) -> dict[str, Any]:
    """An entry as JSON; each constant with the value of the training and its marks."""
    values = entry.model_dump() | {"flow": entry.flow}
    for constant in values["constants"]:
        constant["trained"] = trained[constant["name"]]
        marks = constant.pop("resonances")
        constant["marks"] = [(math.pi * math.sqrt(n), "resonance") for n in marks]
    return values
