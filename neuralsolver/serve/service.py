"""What all requests of a process share: the models, the queue, the threads, the counters."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from neuralsolver.serve.asks import Ask, Task, make_task
from neuralsolver.serve.limits import Limits
from neuralsolver.serve.methods import Method, Models
from neuralsolver.serve.metrics import Metrics
from neuralsolver.serve.queue import Notice, Places
from neuralsolver.serve.stream import Mailbox, in_thread, play
from neuralsolver.serve.verdict import verdict
from neuralsolver.serve.watch import Cancelled, Outcome, Truths, watch


class Service:
    """The one object behind the routes."""

    def __init__(self, limits: Limits) -> None:
        torch.set_num_threads(1)
        self.limits = limits
        self.metrics = Metrics()
        self.models = Models()
        self.truths = Truths()
        self.places = Places(limits.solves, limits.waiting)
        self.solving = ThreadPoolExecutor(limits.solves, "solve")
        self.reading = ThreadPoolExecutor(2, "read")
        self.begun = time.time()

    def close(self) -> None:
        """Wait for the threads; their solves have been cancelled with their requests."""
        self.solving.shutdown(wait=True, cancel_futures=True)
        self.reading.shutdown(wait=True, cancel_futures=True)

    async def task(self, ask: Ask, field: np.ndarray[Any, Any] | None = None) -> Task:
        """An ask as a task; drawing a random flow takes a while, so it is done in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self.reading, make_task, ask, self.models, self.limits, field
        )

    async def solve(
        self,
        task: Task,
        method: Method,
        *,
        number: int = 0,
        mailbox: Mailbox | None = None,
        notice: Notice = lambda position: None,
        with_truth: bool = True,
    ) -> tuple[Outcome, dict[str, Any]]:
        """Wait for a place, solve and judge; iterates go into the mailbox."""
        gone = threading.Event()

        def work() -> tuple[Outcome, dict[str, Any]]:
            truths = self.truths if with_truth else None
            watched = watch(
                method,
                task.problem,
                truths,
                self.limits.seconds,
                gone.is_set,
                with_fields=mailbox is not None,
            )
            outcome = play(watched, number, mailbox)
            return outcome, verdict(outcome)

        async with self.places.place(notice):
            begin = time.perf_counter()
            how = "failed"
            try:
                outcome, judgement = await in_thread(self.solving, gone, work)
                how = outcome.status
            except (asyncio.CancelledError, Cancelled):
                how = "cancelled"
                raise
            finally:
                self.metrics.solved(how, time.perf_counter() - begin)
        return outcome, judgement
