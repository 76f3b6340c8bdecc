"""What goes wrong, said in one line: the field, what was expected, what came."""

from __future__ import annotations

LONGEST = 240
"""Characters of a value that are repeated to the user."""


class InvalidInput(ValueError):
    """An input that cannot be used. The message names the field, the expectation and the value.

    >>> import neuralsolver as ns
    >>> ns.Poisson(scale=float("nan"))
    Traceback (most recent call last):
        ...
    neuralsolver.errors.InvalidInput: scale: expected a finite number, got nan
    """

    def __init__(self, field: str, expected: str, got: object) -> None:
        super().__init__(f"{field}: expected {expected}, got {_shown(got)}")
        self.field, self.expected, self.got = field, expected, got

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        # an exception is pickled by its arguments, which here are not its message
        return type(self), (self.field, self.expected, _shown(self.got))


def _shown(got: object) -> str:
    """What came, as one line of bearable length."""
    try:
        text = str(got).replace("\n", " ")
    except ValueError:  # Python does not write whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class ReferenceFailure(RuntimeError):
    """A classical solver that did not reach the accuracy it promises.

    >>> from neuralsolver.errors import ReferenceFailure
    >>> issubclass(ReferenceFailure, RuntimeError)
    True
    """


class PeerLost(RuntimeError):
    """Another process or machine that this one works with has gone or does not answer."""


class FileDamaged(InvalidInput):
    """A file that is truncated, foreign or inconsistent with its own description.

    >>> import neuralsolver as ns
    >>> from neuralsolver.errors import FileDamaged
    >>> issubclass(FileDamaged, ns.InvalidInput)
    True
    """
