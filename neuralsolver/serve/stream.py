"""From the solver's thread to a client that may be slow, gone or asleep.

The solver puts frames into a mailbox of bounded size and never waits. The client takes them at its
own pace: what does not fit any more is dropped, the oldest first, so that a slow client sees fewer
iterates, but always the newest. Words (position, verdict, curves) are few and never dropped.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, TypeVar

from neuralsolver.serve.fields import encode_frame
from neuralsolver.serve.metrics import Metrics
from neuralsolver.serve.watch import Iterate, Outcome

ROOM = 24
"""Frames that wait for a client; at 64 × 64 points that is 1.5 million bytes."""

Result = TypeVar("Result")


class Mailbox:
    """What waits to be sent: filled from any thread, emptied by the event loop."""

    def __init__(self, metrics: Metrics, room: int = ROOM) -> None:
        self.metrics, self.room = metrics, room
        self.waiting: deque[str | bytes] = deque()
        self.frames = 0
        self.lock = threading.Lock()
        self.loop = asyncio.get_running_loop()
        self.filled = asyncio.Event()

    def say(self, kind: str, **content: Any) -> None:
        """Add a message in words."""
        self._put(json.dumps({"type": kind, **content}, allow_nan=False))

    def show(self, frame: bytes) -> None:
        """Add a frame, at the price of the oldest one where there is no room."""
        self._put(frame)

    def _put(self, item: str | bytes) -> None:
        with self.lock:
            if isinstance(item, bytes):
                if self.frames == self.room:
                    self.waiting.remove(next(i for i in self.waiting if isinstance(i, bytes)))
                    self.metrics.frames_skipped += 1
                else:
                    self.frames += 1
            self.waiting.append(item)
        self.loop.call_soon_threadsafe(self.filled.set)

    async def take(self) -> str | bytes:
        """The next message."""
        while True:
            with self.lock:
                if self.waiting:
                    item = self.waiting.popleft()
                    self.frames -= isinstance(item, bytes)
                    return item
                self.filled.clear()
            await self.filled.wait()


def play(solve: Generator[Iterate, None, Outcome], number: int, mailbox: Mailbox | None) -> Outcome:
    """Run a watched solve to its end and put its iterates into the mailbox."""
    while True:
        try:
            iterate = next(solve)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        if mailbox is not None:
            mailbox.show(encode_frame(_header(iterate, number), iterate.fields))


def _header(iterate: Iterate, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "index": iterate.index,
        "stage": iterate.stage,
        "step": iterate.step,
        "seconds": iterate.seconds,
        "residual": iterate.residual,
        "error": iterate.error,
        "correction": iterate.correction,
    }


async def in_thread(threads: Executor, gone: threading.Event, work: Callable[[], Result]) -> Result:
    """The result of `work`; a task that is cancelled tells it so, and waits until it has ended."""
    future = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        gone.set()
        with suppress(Exception):
            await future
        raise
