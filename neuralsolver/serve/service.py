"""What all requests of a process share: the models, the places, the threads, the counters.

A place is a core's worth of work. Whoever finds all taken waits in order of arrival and is told the
position whenever it changes; whoever finds the line full is sent away at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from neuralsolver.cancellation import Cancelled, cancellable
from neuralsolver.serve.refusals import OutOfTime, QueueFull, ServerStopping
from neuralsolver.serve.requests import SolveJob
from neuralsolver.serve.settings import ServerSettings
from neuralsolver.serve.solve_steps import MeasuredSolve, ReferenceSolutions, Show
from neuralsolver.serve.solver_choices import Method, Models
from neuralsolver.serve.verdict import Verdict, verdict
from neuralsolver.solvers import Status

BUCKETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
ENDINGS = frozenset({*(status.name for status in Status), "TIME_LIMIT", "CANCELLED", "FAILED"})
_REQUEST = {"request", "equation", "constants", "input", "grid", "steps", "tolerance"}
_CONNECTION = {"host", "origin", "address", "connections", "queue", "body", "content-type"}
REASONS = frozenset(_REQUEST | _CONNECTION | {"time", "reading", "stopping", "server"})
"""Why something was refused; anything else counts as "other"."""

Result = TypeVar("Result")
Notice = Callable[[int], None]
"""Called with the number of solves ahead in the line, the own one included."""


class Telemetry:
    """Counters for Prometheus. The labels are closed sets: no client can add one."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._solves = Counter("ens_solves", "Solves by ending", ["status"], registry=registry)
        self._refused = Counter("ens_refused", "Refusals by reason", ["field"], registry=registry)
        self._seconds = Histogram(
            "ens_solve_seconds", "Seconds of a solve", buckets=BUCKETS, registry=registry
        )
        self.running = Gauge("ens_solves_running", "Solves under way", registry=registry)
        self.waiting = Gauge("ens_solves_waiting", "Solves in the queue", registry=registry)
        self.streams = Gauge("ens_streams_open", "Open streams", registry=registry)
        self.frames_sent = Counter("ens_frames_sent", "Frames sent", registry=registry)
        self.frames_skipped = Counter("ens_frames_skipped", "Frames dropped", registry=registry)

    def solved(self, status: str, seconds: float) -> None:
        """Count a solve that has ended."""
        self._solves.labels(status if status in ENDINGS else "other").inc()
        self._seconds.observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._refused.labels(reason if reason in REASONS else "other").inc()


class Places:
    """A number of places and a line of bounded length; to be used from one event loop."""

    def __init__(self, places: int, waiting: int) -> None:
        self.free, self.room = asyncio.Semaphore(places), waiting
        self.running = 0
        self.line: list[Notice] = []
        self.stopping = False

    @asynccontextmanager
    async def place(self, notice: Notice = lambda position: None) -> AsyncIterator[None]:
        """A place for as long as the context lasts.

        Raises:
            QueueFull: No place, and no room to wait.
            ServerStopping: The server ends.
        """
        if self.free.locked() and not self.stopping:
            await self._wait(partial(notice))
        else:
            await self.free.acquire()
        self.running += 1
        try:
            if self.stopping:
                raise ServerStopping
            yield
        finally:
            self.running -= 1
            self.free.release()

    async def _wait(self, notice: Notice) -> None:
        if len(self.line) >= self.room:
            raise QueueFull(len(self.line))
        self.line.append(notice)
        notice(len(self.line))
        try:
            await self.free.acquire()
        finally:
            self.line.remove(notice)
            for position, other in enumerate(self.line, 1):
                other(position)

    def stop(self) -> None:
        """Send everybody in the line away, and whoever comes."""
        self.stopping = True
        for _ in range(len(self.line) + 1):
            self.free.release()


class Call:
    """One piece of work in a thread: it ends at its next checkpoint after it is told to.

    Args:
        seconds: Its time limit, from when it begins.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.deadline = seconds, math.inf
        self.cancelled = False
        """Nobody waits for it any more: the client has left, or the server stops."""

    def is_over(self) -> bool:
        """Whether it is to end."""
        return self.cancelled or time.monotonic() > self.deadline

    def run(self, work: Callable[[Call], Result]) -> Result:
        """Do the work in this thread.

        Raises:
            OutOfTime: Its time was up, and the work had nothing to show for it.
        """
        self.deadline = time.monotonic() + self.seconds
        try:
            with cancellable(self.is_over):
                return work(self)
        except Cancelled:
            raise OutOfTime(self.seconds) from None


class Service:
    """The one object behind the routes."""

    def __init__(self, settings: ServerSettings) -> None:
        torch.set_num_threads(1)
        self.settings = settings
        self.telemetry = Telemetry()
        self.models = Models()
        self.references = ReferenceSolutions()
        self.places = Places(settings.solves, settings.waiting)
        self.telemetry.running.set_function(lambda: self.places.running)
        self.telemetry.waiting.set_function(lambda: len(self.places.line))
        self.solving = ThreadPoolExecutor(settings.solves, "solve")
        self.reading = ThreadPoolExecutor(1, "read")
        self.calls: dict[Call, asyncio.Future[Any]] = {}
        self.begun = time.time()

    def stop(self) -> None:
        """Tell every client that the server stops, and what is being solved to end.

        Clients are told at once: they need not wait until the work has come to its checkpoint.
        """
        self.places.stop()
        for call, future in self.calls.items():
            call.cancelled = True
            future.cancel()

    def close(self) -> None:
        """Let the threads end."""
        self.stop()
        self.solving.shutdown(wait=False, cancel_futures=True)
        self.reading.shutdown(wait=False, cancel_futures=True)

    async def read(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Parse, check or encode something in a thread, so that others are answered meanwhile."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.reading, work, *arguments)

    async def compute(
        self, work: Callable[[Call], Result], notice: Notice = lambda position: None
    ) -> Result:
        """Wait for a place and run `work` there within the time of a solve.

        A client that leaves ends the work at its next checkpoint; its place is free after that.

        Raises:
            QueueFull: No place, and no room to wait.
            ServerStopping: The server ends.
            OutOfTime: The time was up, and the work did not catch that.
        """
        async with self.places.place(notice):
            call = Call(self.settings.seconds)
            loop = asyncio.get_running_loop()
            future = self.calls[call] = loop.run_in_executor(self.solving, call.run, work)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                call.cancelled = True
                if future.cancelled():
                    raise ServerStopping from None
                await asyncio.gather(future, return_exceptions=True)
                raise
            finally:
                del self.calls[call]

    async def solve(
        self,
        job: SolveJob,
        method: Method,
        show: Show | None = None,
        notice: Notice = lambda position: None,
        with_reference: bool = True,
    ) -> tuple[MeasuredSolve, Verdict]:
        """Wait for a place, solve and judge; steps are given to `show`."""
        solve = MeasuredSolve(
            method, job.problem, self.references if with_reference else None, show
        )

        def work(call: Call) -> Verdict:
            try:
                solve.run()
                return verdict(solve)
            except Cancelled:
                if call.cancelled:
                    raise
                call.deadline = math.inf  # there is time to show what there is
                solve.end_out_of_time()
                return verdict(solve)

        begin, status = time.perf_counter(), "FAILED"
        try:
            judged = await self.compute(work, notice)
            status = judged.status
        except (asyncio.CancelledError, ServerStopping):
            status = "CANCELLED"
            raise
        finally:
            if solve.begun:
                self.telemetry.solved(status, time.perf_counter() - begin)
        return solve, judged
