"""The same function for many numbers, on Dask workers: local processes or a cluster elsewhere.

A worker that dies costs the task it was working on, which another one takes over. Local workers
are forked from one process that has loaded the libraries, single-threaded, and listen on the
loopback interface only.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from multiprocessing import forkserver
from typing import Any, TypeVar

from neuralsolver.errors import InvalidInput, PeerLost, ReferenceFailure

CONNECT_SECONDS = 10
WORKER_SECONDS = 30
"""How long a scheduler may be without any worker before that is called an error."""

THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Value = TypeVar("Value")


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def installed() -> bool:
    """Whether Dask is there: the extra `cluster`."""
    return all(find_spec(name) is not None for name in ("dask", "distributed", "cloudpickle"))


def compute_on_workers(
    function: Callable[[int], Value],
    numbers: Sequence[int],
    name: str,
    workers: int,
    scheduler: str | None,
) -> Iterator[tuple[int, Value]]:
    """(number, function(number)) for all numbers, as they are finished."""
    if not numbers:
        return
    if not installed():
        expected = "pip install 'neuralsolver[cluster]', or --workers 1"
        raise InvalidInput("several workers", expected, "no Dask")
    from distributed import KilledWorker, as_completed

    with _client(workers, scheduler) as client:

        def submit(number: int) -> Any:
            return client.submit(_task, function, number, key=f"{name}-{number:06d}", pure=False)

        waiting = iter(numbers)
        # a few tasks per worker at a time: results must not pile up in their memory
        ahead = 4 * max(1, sum(client.nthreads().values()))
        first = [submit(number) for number in islice(waiting, ahead)]
        futures = as_completed(first, loop=client.loop)
        for future in futures:
            try:
                result = future.result()
            except KilledWorker as error:
                reason = " ".join(str(error).split())
                raise ReferenceFailure(f"workers keep dying: {reason}") from None
            except (CancelledError, OSError) as error:
                reason = " ".join(str(error).split())
                raise PeerLost(f"the Dask scheduler is gone: {reason}") from None
            future.release()
            for following in islice(waiting, 1):
                futures.add(submit(following))
            yield result


def _task(function: Callable[[int], Value], number: int) -> tuple[int, Value]:
    return number, function(number)


@contextmanager
def _client(workers: int, scheduler: str | None) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    # what is lost becomes an exception of ours; the log would say it a second time
    for source in ("distributed", "distributed.client", "asyncio", "tornado.application"):
        logging.getLogger(source).setLevel(logging.CRITICAL)
    if scheduler is not None:
        try:
            _probe(scheduler)
            client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            got = f"{scheduler} ({' '.join(str(error).split())})"
            raise InvalidInput("scheduler", "the address of a running Dask cluster", got) from None
        with client:
            _await_workers(client, scheduler)
            yield client
        return
    _start_fork_server()
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.worker.memory.spill": False,
        "distributed.comm.timeouts.connect": "60s",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any port: the usual one may be taken
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _probe(scheduler: str) -> None:
    """Raise OSError at once where nobody listens; Dask itself tries for much longer."""
    kind, _, place = scheduler.partition("://")
    host, _, port = place.rpartition(":")
    if kind == "tcp" and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


def _await_workers(client: Any, scheduler: str) -> None:
    """Say that a cluster has no workers, wait a little, and give up."""
    if client.nthreads():
        return
    print(f"waiting for a worker to join {scheduler}", file=sys.stderr, flush=True)
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        got = f"{scheduler}, which had none in {WORKER_SECONDS} s"
        raise InvalidInput("scheduler", "a Dask cluster with workers", got) from None


def _start_fork_server() -> None:
    """Load the libraries once, in the process from which all workers are forked.

    Ctrl-C reaches every process of a terminal; only the one that was started answers it. Workers
    are silent: what goes wrong in a task is raised here, and a worker that is interrupted while it
    starts has nothing to tell.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["neuralsolver.data.generation", "distributed.nanny"])
    before = {name: os.environ.get(name) for name in THREAD_COUNTS}
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))
    here = threading.current_thread() is threading.main_thread()
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
    errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        forkserver.ensure_running()
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nowhere)
        if here:
            signal.signal(signal.SIGINT, interrupt)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
