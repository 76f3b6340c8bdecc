"""Many processes as one: the global batch is split, gradients are averaged.

Launched by `torchrun` (which sets RANK and WORLD_SIZE) every process holds the same weights, takes
its share of each batch and averages its gradients with the others before every update. With equal
shares this is the gradient of the global batch, so the number of processes changes rounding only.

A peer that is lost ends the others with one line, PeerLost, within `TIMEOUT`. What only the first
process does (data that take an hour) may take longer than that: the others wait for a word in the
store that connects all processes, not in a collective that gives up.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.utils import parameters_to_vector

from neuralsolver.errors import InvalidInput, PeerLost
from neuralsolver.limits import Int

Result = TypeVar("Result")

TIMEOUT = timedelta(minutes=5)
"""A process that died must not leave the others waiting for ever."""

PAUSE = 0.2
"""Seconds between two looks at what the first process has done."""


def device_named(name: str | None) -> torch.device:
    """The device called `name`; without a name a GPU if there is one."""
    cuda = torch.cuda.is_available()
    if name is None or name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    known = ["cpu", "cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if name not in (known if cuda else known[:1]):
        raise InvalidInput("--device", " or ".join(known if cuda else known[:1]), name)
    return torch.device(name)


@contextmanager
def _peers(doing: str) -> Iterator[None]:
    """Whatever the network libraries raise is a lost peer."""
    try:
        yield
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:160]
        raise PeerLost(f"lost another process of this training while {doing}: {reason}") from None


@dataclass(frozen=True)
class World:
    """This process among all: its rank, their number, and the device it computes on."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    store: Any = None
    works: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def join(cls, device: str | None = None) -> World:
        """The world that torchrun set up, or a world of one."""
        rank, size, local = (
            Int(0, 10**6).read(name, os.environ.get(name, usual))
            for name, usual in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
        )
        if rank >= size:
            raise InvalidInput("RANK", f"less than WORLD_SIZE = {size}", rank)
        place = device_named(device)
        if place.type == "cuda":
            place = torch.device("cuda", local) if place.index is None else place
            torch.cuda.set_device(place)
        if size == 1 or dist.is_initialized():
            return cls(rank, size, place)
        for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                expected = f"{name} beside it, as torchrun sets them"
                raise InvalidInput("WORLD_SIZE", expected, size)
        with _peers("joining it"):
            store, _, _ = next(rendezvous("env://", timeout=TIMEOUT))
            store.set_timeout(TIMEOUT)
            backend = "nccl" if place.type == "cuda" else "gloo"
            dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT
            )
        return cls(rank, size, place, store)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its mean over all processes, in one message."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = parameters_to_vector(gradients)
        with _peers("averaging gradients"):
            dist.all_reduce(flat)
        sizes = [gradient.numel() for gradient in gradients]
        parts = torch.split_with_sizes(flat / self.size, sizes)
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def gather(self, share: Tensor) -> Tensor:
        """The rows of all processes, in the order in which `rows[rank::size]` dealt them out."""
        if self.size == 1:
            return share
        parts = [torch.empty_like(share) for _ in range(self.size)]
        with _peers("gathering iterates"):
            dist.all_gather(parts, share.contiguous())
        return torch.stack(parts, 1).flatten(0, 1)

    def largest(self, value: float) -> float:
        """The largest value that any process has, in all of them."""
        if self.size == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        with _peers("agreeing to continue"):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return float(tensor)

    def first(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which the first process does before the others repeat it.

        They wait however long it takes, and hear of its failure.
        """
        if self.size == 1 or self.store is None:
            return work()
        key = f"neuralsolver work {next(self.works)}"
        if self.rank == 0:
            try:
                result = work()
            except BaseException:
                self.store.set(key, "failed")
                raise
            self.store.set(key, "done")
            return result
        with _peers("waiting for the first one"):
            while not self.store.check([key]):
                time.sleep(PAUSE)
            done = self.store.get(key) == b"done"
        if not done:
            raise PeerLost("the first process of this training failed; its line says why")
        return work()

    def leave(self) -> None:
        """Wait for the others and close the connection."""
        if self.size > 1:
            with _peers("waiting for it"):
                dist.barrier()
            dist.destroy_process_group()
