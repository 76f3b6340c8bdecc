"""Places for solves, and the line in front of them.

A place is a core's worth of work. Whoever finds all taken waits in order of arrival and is told the
position whenever it changes; whoever finds the line full is sent away at once. A waiting solve that
is cancelled leaves the line, and those behind it move up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from neuralsolver.serve.refusals import QueueFull, ServerStopping

Notice = Callable[[int], None]
"""Called with the number of solves ahead in the line, the own one included."""


class Places:
    """A number of places and a line of bounded length; to be used from one event loop."""

    def __init__(self, places: int, waiting: int) -> None:
        self.places, self.room = places, waiting
        self.running = 0
        self.line: deque[tuple[asyncio.Future[None], Notice]] = deque()

    @asynccontextmanager
    async def place(self, notice: Notice = lambda position: None) -> AsyncIterator[None]:
        """A place for as long as the context lasts."""
        if self.running >= self.places:
            await self._wait(notice)
        else:
            self.running += 1
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, notice: Notice) -> None:
        if len(self.line) >= self.room:
            raise QueueFull(len(self.line))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, notice)
        self.line.append(entry)
        notice(len(self.line))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled() and entry in self.line:
                self.line.remove(entry)
                self._announce()
            elif not turn.cancelled() and turn.exception() is None:
                self._leave()  # the turn came in the same moment
            raise

    def stop(self) -> None:
        """Send everybody in the line away."""
        while self.line:
            turn, _ = self.line.popleft()
            if not turn.done():
                turn.set_exception(ServerStopping())

    def _leave(self) -> None:
        """Hand the place to the first in the line."""
        while self.line:
            turn, _ = self.line.popleft()
            if not turn.done():  # else it has just been cancelled
                turn.set_result(None)
                self._announce()
                return
        self.running -= 1

    def _announce(self) -> None:
        for position, (_, notice) in enumerate(self.line, 1):
            notice(position)
