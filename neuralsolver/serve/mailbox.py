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
from typing import Any

from neuralsolver.serve.telemetry import Telemetry

ROOM = 24
"""Frames that wait for a client; at 64 × 64 points that is 1.5 million bytes."""


class Mailbox:
    """What waits to be sent: filled from any thread, emptied by the event loop."""

    def __init__(self, telemetry: Telemetry, room: int = ROOM) -> None:
        self.telemetry, self.room = telemetry, room
        self.waiting: deque[str | bytes] = deque()
        self.frames = 0
        self.lock = threading.Lock()
        self.loop = asyncio.get_running_loop()
        self.filled = asyncio.Event()

    def say(self, kind: str, **content: Any) -> None:
        """Add a message in words."""
        self.show(json.dumps({"type": kind, **content}, allow_nan=False))

    def show(self, item: str | bytes) -> None:
        """Add a message or a frame, which takes the place of the oldest where there is no room."""
        with self.lock:
            if isinstance(item, bytes):
                if self.frames == self.room:
                    self.waiting.remove(next(i for i in self.waiting if isinstance(i, bytes)))
                    self.telemetry.frames_skipped.inc()
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
