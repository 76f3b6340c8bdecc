"""Long work that can be left in the middle: its loops call `checkpoint`, which may raise.

Whoever runs the work says when it is to end; the work needs no argument for that, and without such
a rule a checkpoint costs a look-up. Nothing is raised anywhere else, so a step is never torn apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(BaseException):
    """The work is to end; not an Exception, so that no solver takes it for its own."""


_is_over: ContextVar[Callable[[], bool] | None] = ContextVar("is_over", default=None)


def checkpoint() -> None:
    """End the work here where that was asked for.

    Raises:
        Cancelled: The work is over; every later checkpoint says so again.
    """
    is_over = _is_over.get()
    if is_over is not None and is_over():
        raise Cancelled


@contextmanager
def cancellable(is_over: Callable[[], bool]) -> Iterator[None]:
    """Checkpoints of this thread ask `is_over` for as long as the context lasts."""
    before = _is_over.set(is_over)
    try:
        yield
    finally:
        _is_over.reset(before)
