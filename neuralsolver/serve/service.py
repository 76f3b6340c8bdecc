"""What all requests of a process share: the models, the queue, the threads, the counters."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from neuralsolver.cancellation import Cancelled, cancellable
from neuralsolver.serve.admission import Notice, Places
from neuralsolver.serve.mailbox import Mailbox
from neuralsolver.serve.refusals import OutOfTime, ServerStopping
from neuralsolver.serve.requests import SolveJob
from neuralsolver.serve.settings import ServerSettings
from neuralsolver.serve.solve_steps import MeasuredSolve, Outcome, ReferenceSolutions
from neuralsolver.serve.solver_choices import Method, Models
from neuralsolver.serve.telemetry import Telemetry
from neuralsolver.serve.verdict import verdict

Result = TypeVar("Result")


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
        self.stopping = False
        self.begun = time.time()

    def stop(self) -> None:
        """Tell every client that the server stops, and what is being solved to end.

        Clients are told at once: they need not wait until the work has come to its checkpoint.
        """
        self.stopping = True
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
        if self.stopping:
            raise ServerStopping
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
        number: int = 0,
        mailbox: Mailbox | None = None,
        notice: Notice = lambda position: None,
        with_reference: bool = True,
    ) -> tuple[Outcome, dict[str, Any]]:
        """Wait for a place, solve and judge; steps go into the mailbox."""
        solve = MeasuredSolve(
            method, job.problem, self.references if with_reference else None, mailbox, number
        )

        def work(call: Call) -> tuple[Outcome, dict[str, Any]]:
            try:
                outcome = solve.run()
                return outcome, verdict(outcome)
            except Cancelled:
                if call.cancelled:
                    raise
                call.deadline = math.inf  # there is time to show what there is
                outcome = solve.out_of_time()
                return outcome, verdict(outcome)

        begin, status = time.perf_counter(), "FAILED"
        try:
            outcome, judgement = await self.compute(work, notice)
            status = outcome.status
        except (asyncio.CancelledError, ServerStopping):
            status = "CANCELLED"
            raise
        finally:
            if solve.begun:
                self.telemetry.solved(status, time.perf_counter() - begin)
        return outcome, judgement
