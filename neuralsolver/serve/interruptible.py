"""Work in a thread that can be interrupted: by its time limit, a client that left, or the end.

A solver loops in Python over short calls of torch and NumPy, so an exception that CPython raises in
its thread stops it within one such call, in the middle of a step. CPython is never asked to take
such an exception back (it would then look for one at every instruction): work that ends first waits
until the exception has come, and drops it.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, Literal, TypeVar

from neuralsolver.serve.refusals import OutOfTime, ServerStopping

Result = TypeVar("Result")
Reason = Literal["time", "gone", "stopping"]


class Interrupted(BaseException):
    """Raised inside the work; not an Exception, so that no solver takes it for its own."""


class Call(Generic[Result]):
    """One call of `work` that other threads may interrupt once."""

    def __init__(self, work: Callable[[Call[Result]], Result]) -> None:
        self.work = work
        self.reason: Reason | None = None
        self._thread: int | None = None
        self._ended = False
        self._lock = threading.Lock()

    def run(self) -> Result:
        """Do the work in this thread."""
        with self._lock:
            if self.reason is not None:
                raise Interrupted
            self._thread = threading.get_ident()
        raised = False
        try:
            return self.work(self)
        except Interrupted:
            raised = True
            raise
        finally:
            self._end(raised)

    def caught(self) -> None:
        """Tell that the work has caught its interruption."""
        with self._lock:
            self._ended = True

    def interrupt(self, reason: Reason) -> None:
        """Interrupt the work, or keep it from beginning."""
        with self._lock:
            first = self.reason is None and not self._ended
            self.reason = self.reason or reason
            if first and self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted)
                )

    def _end(self, raised: bool) -> None:
        with self._lock:
            expected = self.reason is not None and not self._ended and not raised
            self._ended = True
        if expected:
            try:
                while True:
                    time.sleep(0.001)
            except Interrupted:
                pass


async def in_thread(threads: Executor, call: Call[Result], seconds: float | None = None) -> Result:
    """Run a call in a thread.

    Args:
        threads: Where it runs.
        call: The work; after `seconds` it is interrupted for the reason "time".
        seconds: Its time limit.

    Returns:
        The result, which work that catches `Interrupted` may give after an interruption.

    Raises:
        ServerStopping: The work was interrupted because the server ends.
        OutOfTime: It was interrupted by its time limit and did not catch that.
        asyncio.CancelledError: This task was cancelled; the work has ended by then.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(threads, _without_base_exception, call)
    timer = None if seconds is None else loop.call_later(seconds, call.interrupt, "time")
    try:
        result, interrupted = await asyncio.shield(future)
    except asyncio.CancelledError:
        call.interrupt("gone")
        await asyncio.wait({future})
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if interrupted:
        raise ServerStopping() if call.reason == "stopping" else OutOfTime(seconds)
    return result  # type: ignore[return-value]


def _without_base_exception(call: Call[Result]) -> tuple[Result | None, bool]:
    try:
        return call.run(), False
    except Interrupted:
        return None, True
