"""What every backbone is: a module that remembers the arguments it was made with.

A checkpoint card stores them, and `models.build` makes the same network from them again.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

from torch import nn


class Backbone(nn.Module):
    """A network whose `arguments` are those of its constructor, as plain values.

    They are there before the constructor runs, so that it can check them.
    """

    arguments: dict[str, Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        construct = cls.__init__
        signature = inspect.signature(construct)

        @wraps(construct)
        def remember(self: Backbone, *given: Any, **named: Any) -> None:
            bound = signature.bind(self, *given, **named)
            bound.apply_defaults()
            values = dict(list(bound.arguments.items())[1:])
            self.__dict__["arguments"] = {name: _plain(value) for name, value in values.items()}
            construct(self, *given, **named)

        cls.__init__ = remember  # type: ignore[assignment, method-assign]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value
