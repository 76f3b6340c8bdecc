"""What every backbone is, and the layers that all of them share.

A backbone remembers the arguments it was made with: a card stores them, and `models.build` makes
the same network from them again.

Between walls a convolution sees zeros outside and coordinates run from 0 to 1 inclusive, because
the first and the last point lie on the wall. On the torus (padding mode "circular") it sees the
other side, and a coordinate is an angle. Time, the first axis of a field of three dimensions,
always has walls: a trajectory begins and ends.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralsolver.errors import InvalidInput

PaddingMode = Literal["zeros", "circular"]
Make = TypeVar("Make", bound=Callable[..., Any])


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
            self.__dict__["arguments"] = {
                name: list(value) if isinstance(value, tuple | list) else value
                for name, value in values.items()
            }
            construct(self, *given, **named)

        cls.__init__ = remember  # type: ignore[assignment, method-assign]

    def check_arguments(self, *positive: str) -> None:
        """Raise InvalidInput unless these arguments are whole numbers of at least 1 and the padding
        mode is one of two."""
        for field in positive:
            check_positive(field, self.arguments[field])
        if "padding_mode" in self.arguments:
            check_choice("padding_mode", self.arguments["padding_mode"], ("zeros", "circular"))

    def check_input(self, x: Tensor, dimension: int = 2, smallest: int = 1) -> None:
        """Raise InvalidInput unless x is (batch, in_channels, *grid) on a grid that is not too
        small."""
        channels = self.arguments["in_channels"]
        if x.dim() != dimension + 2 or x.shape[1] != channels or min(x.shape[2:]) < smallest:
            expected = f"shape (batch, {channels}, {', '.join(['n'] * dimension)})"
            expected += f" with n >= {smallest}" if smallest > 1 else ""
            raise InvalidInput("input", expected, tuple(x.shape))


def kept(make: Make) -> Make:
    """The tables of a function, made once for its arguments."""

    @lru_cache(maxsize=128)
    def cached(*arguments: Any) -> Any:
        with torch.inference_mode(False):  # else autograd could not use what a prediction cached
            return make(*arguments)

    @wraps(make)
    def table(*arguments: Any) -> Any:
        # a traced tensor must not outlive its trace
        return make(*arguments) if torch.compiler.is_compiling() else cached(*arguments)

    table.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return table  # type: ignore[return-value]


def zeroed(module: nn.Module) -> None:
    """Let a module begin by answering zero."""
    for parameter in module.parameters():
        nn.init.zeros_(parameter)


def check_choice(field: str, value: str, choices: Sequence[str]) -> None:
    """Raise InvalidInput unless `value` is one of `choices`."""
    if value not in choices:
        raise InvalidInput(field, "one of " + ", ".join(map(repr, choices)), repr(value))


def check_positive(field: str, value: int) -> None:
    """Raise InvalidInput unless `value` is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(field, "an integer >= 1", repr(value))


def coordinate_channels(dimension: int, padding_mode: PaddingMode) -> int:
    """The number of channels of `places`."""
    return dimension + 2 if padding_mode == "circular" else dimension


def places(x: Tensor, padding_mode: PaddingMode) -> Tensor:
    """Where the points of x (batch, channels, *grid) are, as channels (batch, …, *grid).

    Between walls an axis is one channel in [0, 1]. On the torus that would jump, so a direction in
    space is its cosine and sine. The first of three axes is time, which always has two ends.
    """
    grid = x.shape[2:]
    channels = []
    for axis, n in enumerate(grid):
        shape = [-1 if a == axis else 1 for a in range(len(grid))]
        count = torch.arange(n, dtype=x.dtype, device=x.device).reshape(shape).expand(grid)
        if padding_mode == "circular" and not (len(grid) == 3 and axis == 0):
            angle = (2 * math.pi / n) * count
            channels += [angle.cos(), angle.sin()]
        else:
            channels.append(count / max(n - 1, 1))
    return torch.stack(channels).expand(x.shape[0], -1, *grid)


class Convolution(nn.Module):
    """A convolution of odd kernel size that keeps the grid, between walls or on the torus.

    `gain` is the variance gain: 1 after a linear layer, 2 after a GELU, which halves the variance.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        dimension: int = 2,
        stride: int = 1,
        padding_mode: PaddingMode = "zeros",
        gain: float = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise InvalidInput("kernel_size", "an odd number >= 1", kernel_size)
        half = kernel_size // 2
        circular = padding_mode == "circular" and half > 0
        # the innermost axis comes first in functional.pad; time is never wrapped around
        self.wrap = [half, half] * 2 + [0, 0] * (dimension - 2) if circular else []
        padding: Any = (half,) * (dimension - 2) + (0 if circular else half,) * 2
        kind: type[nn.Conv2d] | type[nn.Conv3d] = nn.Conv2d if dimension == 2 else nn.Conv3d
        self.convolution = kind(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        fan_in = in_channels * kernel_size**dimension
        nn.init.normal_(self.convolution.weight, std=math.sqrt(gain / fan_in))
        if self.convolution.bias is not None:
            nn.init.zeros_(self.convolution.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.wrap:
            x = functional.pad(x, self.wrap, mode="circular")
        if _misjudged(x):
            kind = self.convolution
            sizes: Any = (kind.padding, kind.stride, kind.dilation, kind.groups)
            return torch.mkldnn_convolution(x, kind.weight, kind.bias, *sizes)
        result: Tensor = self.convolution(x)
        return result


def _misjudged(x: Tensor) -> bool:
    """Whether torch would not give a field to oneDNN though it should.

    It takes a single sample for too small when the product of its first four sizes is at most
    20,480, of which a box has five: a convolution at 32³ points then takes twelve times as long.
    """
    if torch.compiler.is_compiling():  # a compiler chooses by itself
        return False
    small = x.shape[0] == 1 and math.prod(x.shape[1:4]) <= 20480
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() > 4096
    library: Any = torch.backends.mkldnn
    usable = library.is_available() and library.enabled
    return bool(small and plain and usable and not torch.is_autocast_enabled("cpu"))
