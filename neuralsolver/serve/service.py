"""What all requests of a process share: the models, the queue, the threads, the counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from neuralsolver.serve.admission import Notice, Places
from neuralsolver.serve.interruptible import Call, Interrupted, in_thread
from neuralsolver.serve.mailbox import Mailbox
from neuralsolver.serve.refusals import ServerStopping
from neuralsolver.serve.requests import SolveJob
from neuralsolver.serve.settings import ServerSettings
from neuralsolver.serve.solve_steps import MeasuredSolve, Outcome, ReferenceSolutions
from neuralsolver.serve.solver_choices import Method, Models
from neuralsolver.serve.telemetry import Telemetry
from neuralsolver.serve.verdict import verdict

Result = TypeVar("Result")


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
        self.calls: set[Call[Any]] = set()
        self.stopping = False
        self.begun = time.time()

    def stop(self) -> None:
        """Interrupt what is being solved, and send away what waits; from the event loop."""
        self.stopping = True
        self.places.stop()
        for call in list(self.calls):
            call.interrupt("stopping")

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
        self, work: Callable[[Call[Result]], Result], notice: Notice = lambda position: None
    ) -> Result:
        """Wait for a place and run `work` there within the time of a solve.

        Raises:
            QueueFull: No place, and no room to wait.
            ServerStopping: The server ends.
        """
        if self.stopping:
            raise ServerStopping
        async with self.places.place(notice):
            call = Call(work)
            self.calls.add(call)
            try:
                return await in_thread(self.solving, call, self.settings.seconds)
            finally:
                self.calls.discard(call)

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

        def work(call: Call[tuple[Outcome, dict[str, Any]]]) -> tuple[Outcome, dict[str, Any]]:
            try:
                outcome = solve.run()
            except Interrupted:
                call.caught()
                if call.reason != "time":
                    raise
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
