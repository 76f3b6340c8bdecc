"""What a number from a user may be, said where the number is declared and checked here.

A `Int`, `Float`, `Choice` or `Bool` is the type and the range of one option, constant, plan field
or card field. `read` takes what came, a text from a command line or a value from a file, and
returns it as that type or raises InvalidInput. NaN is in no range; infinity in none either.

Memory is a limit too: `check_memory` compares what a computation will allocate with what the
machine has left, before it allocates anything.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from neuralsolver.errors import InvalidInput

MOST_DIGITS = 400
"""No number of ours is written with more characters; Python refuses to convert some that are."""


class Limit(Protocol):
    """The type and range of one value."""

    def read(self, name: str, value: Any) -> Any:
        """`value` as this type, or InvalidInput."""

    def describe(self) -> dict[str, Any]:
        """Type and range as JSON values."""


@dataclass(frozen=True)
class Int:
    """A whole number, at least `least` and at most `most`."""

    least: int = 0
    most: int = 2**53

    def read(self, name: str, value: Any) -> int:
        """2, 2.0 and "2" are two; 2.5, True and "two" are refused."""
        number = _number(value)
        if number is None or number != math.floor(number) or not self.least <= number <= self.most:
            raise InvalidInput(name, self.expected, _quoted(value))
        return int(number)

    @property
    def expected(self) -> str:
        """The range in words."""
        if self.most == 2**53:
            return f"a whole number, at least {self.least}"
        return f"a whole number, at least {self.least} and at most {self.most}"

    def describe(self) -> dict[str, Any]:
        """Type and range as JSON values."""
        return {"type": "int", "least": self.least, "most": self.most}


@dataclass(frozen=True)
class Float:
    """A finite number from `least` to `most` and greater than `above`, or one of some words."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    words: tuple[str, ...] = ()

    def read(self, name: str, value: Any) -> Any:
        """The number as a float, or the word."""
        if isinstance(value, str) and value in self.words:
            return value
        number = _number(value)
        inside = number is not None and self.least <= number <= self.most and number > self.above
        # a whole number of 400 digits is below infinity too
        if number is None or not inside or abs(number) > sys.float_info.max:
            raise InvalidInput(name, self.expected, _quoted(value))
        return float(number)

    @property
    def expected(self) -> str:
        """The range in words."""
        parts = []
        if self.above > -math.inf and self.above != 0:
            parts.append(f"above {self.above:g}")
        if self.least > -math.inf:
            parts.append(f"at least {self.least:g}")
        if self.most < math.inf:
            parts.append(f"at most {self.most:g}")
        kind = "a positive finite number" if self.above == 0 else "a finite number"
        kind = " or ".join([kind, *self.words])
        return f"{kind}{', ' if parts else ''}{' and '.join(parts)}"

    def describe(self) -> dict[str, Any]:
        """Type and range as JSON values; null where there is no end."""
        ends = (self.least, self.most, self.above)
        least, most, above = (None if math.isinf(end) else end for end in ends)
        return {"type": "float", "least": least, "most": most, "above": above}


@dataclass(frozen=True)
class Choice:
    """A text, one of `choices` if there are any."""

    choices: Collection[str] = ()

    def read(self, name: str, value: Any) -> str:
        """The text as it came."""
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            raise InvalidInput(name, " or ".join(self.choices) or "a text", _quoted(value))
        return value

    def describe(self) -> dict[str, Any]:
        """Type and choices as JSON values."""
        return {"type": "str", "choices": list(self.choices)}


@dataclass(frozen=True)
class Bool:
    """True or false."""

    def read(self, name: str, value: Any) -> bool:
        """A bool, or the word for it."""
        known = {"true": True, "false": False, True: True, False: False}
        word = value.lower() if isinstance(value, str) else value
        if not isinstance(word, (str, bool)) or word not in known:
            raise InvalidInput(name, "true or false", _quoted(value))
        return known[word]

    def describe(self) -> dict[str, Any]:
        """The type as a JSON value."""
        return {"type": "bool"}


POSITIVE = Float(above=0.0)
FINITE = Float()
SEED = Int(0, 2**63 - 1)
RESOLUTION = Int(1, 100_000)
"""Grid points in each direction; an equation may ask for more, the machine's memory for fewer."""


def limit_of(value: Any) -> Limit:
    """The widest limit for values of the type of this one."""
    if isinstance(value, bool):
        return Bool()
    if isinstance(value, int):
        return Int(-(2**53))
    return FINITE if isinstance(value, float) else Choice()


def _number(value: Any) -> int | float | None:
    """A text or value as a number; None if it is none, NaN, or too long to be one of ours."""
    if isinstance(value, bool) or (isinstance(value, str) and len(value) > MOST_DIGITS):
        return None
    try:
        if isinstance(value, str):
            number = float(value)
            # whole numbers beyond 2⁵³ are exact only as such
            return int(value) if value.strip().lstrip("+-").isdecimal() else _finite(number)
        return value if isinstance(value, int) else _finite(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _finite(number: float) -> float | None:
    return None if math.isnan(number) or math.isinf(number) else number


def _quoted(value: Any) -> Any:
    """What came; a text as such."""
    return repr(value[:60]) if isinstance(value, str) else value


SHARE_OF_MEMORY = 0.9


def available_memory() -> int:
    """Bytes that this process may still allocate, as far as the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return sizes["MemAvailable"]
    except (OSError, KeyError, IndexError, ValueError):
        pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**21
        return int(pages) * 4096


def check_memory(name: str, value: object, needed: float) -> None:
    """Raise InvalidInput when `needed` bytes for `name` = `value` are more than there are."""
    there = available_memory()
    if needed > SHARE_OF_MEMORY * there:
        expected = f"one that fits in the {there / 1e9:.1f} GB of free memory"
        raise InvalidInput(name, expected, f"{value}, which needs about {needed / 1e9:.3g} GB")
