"""Many processes as one: the global batch is split, gradients are averaged.

Launched by `torchrun` (which sets RANK and WORLD_SIZE) every process holds the same weights, takes
its share of each batch and averages its gradients with the others before every update. With equal
shares this is the gradient of the global batch, so the number of processes changes rounding only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

Result = TypeVar("Result")

TIMEOUT = timedelta(minutes=5)
"""A process that died must not leave the others waiting for ever."""


@dataclass(frozen=True)
class World:
    """This process among all: its rank, their number, and the device it computes on."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def join(cls, device: str = "auto") -> World:
        """The world that torchrun set up, or a world of one."""
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        cuda = torch.cuda.is_available() if device == "auto" else device.startswith("cuda")
        place = torch.device("cpu")
        if cuda:
            place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(place)
        if size > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo", timeout=TIMEOUT)
        return cls(rank, size, place)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its mean over all processes, in one message."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        offset = 0
        for gradient in gradients:
            gradient.copy_(flat[offset : offset + gradient.numel()].view_as(gradient))
            offset += gradient.numel()

    def gather(self, share: Tensor) -> Tensor:
        """The rows of all processes, in the order in which `rows[rank::size]` dealt them out."""
        if self.size == 1:
            return share
        parts = [torch.empty_like(share) for _ in range(self.size)]
        dist.all_gather(parts, share.contiguous())
        return torch.stack(parts, 1).flatten(0, 1)

    def agree(self, value: float) -> float:
        """The value of the first process, in all of them."""
        if self.size == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(tensor, 0)
        return float(tensor)

    def first(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which the first process does before the others repeat it."""
        if self.rank == 0:
            result = work()
            self.wait()
            return result
        self.wait()
        return work()

    def wait(self) -> None:
        """Until every process has come here."""
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        """Wait for the others and close the connection."""
        if self.size > 1:
            self.wait()
            dist.destroy_process_group()
