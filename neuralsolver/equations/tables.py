"""Tables that take long to make, kept for the next call: the latest ones, up to a number of bytes.

A bound on their number would be none on memory: a table grows with the grid.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from torch import Tensor


class Tables:
    """Tensors by key; beyond `limit` bytes those not asked for longest are forgotten."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: OrderedDict[Hashable, Tensor] = OrderedDict()
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """What the kept tables occupy."""
        return sum(table.nbytes for table in self._kept.values())

    def get(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """The table of a key, made now if it is not at hand."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self._kept[key] = made
            while self.bytes > self.limit and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return made
