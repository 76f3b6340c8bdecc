"""A network of a user as predictor and corrector of a solver.

    C(x) = g N(x)      N: any module from (batch, channels, x, y) to (batch, fields, x, y)

The gain g is one number that is learnt. It begins at zero where a solver must begin by answering
zero (as in ReZero), so that N needs no initialisation of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from neuralsolver.errors import InvalidInput
from neuralsolver.models import MODELS
from neuralsolver.models.backbone import Backbone
from neuralsolver.training.presets import PRESETS, SCALES, Preset, network, static

Make = Callable[[int, int], nn.Module]


def register_backbone(name: str, make: Make) -> list[str]:
    """Make a network of yours known by a name, so that solvers can be trained and loaded with it.

    >>> import neuralsolver as ns, torch
    >>> ns.register_backbone("small", lambda i, o: torch.nn.Conv2d(i, o, 3, padding=1))
    ['contractive-small', 'paper-small', 'operator-small']

    Args:
        name: What it is called in recipes and on the cards of models.
        make: Called with the number of input and output channels; returns any module that maps
            (batch, channels, x, y) to (batch, fields, x, y) on every grid.

    Returns:
        The recipes that train a solver with it: `ns.train(equation, recipe=...)`.

    Raises:
        InvalidInput: The name belongs to a network of the package.
    """
    known = MODELS.get(name)
    if known is not None and not issubclass(known, _Gained):
        raise InvalidInput("backbone", "a name that the package does not use", name)

    class Own(_Gained, Backbone):
        """The user's network."""

        def __init__(self, in_channels: int, out_channels: int, zero_output: bool = False) -> None:
            with torch.device("cpu"):  # a user's network need not know torch's device "meta"
                inner = make(in_channels, out_channels)
            super().__init__(inner, zero_output)

    MODELS[name] = Own
    recipes = [f"{recipe}-{name}" for recipe in ("contractive", "paper", "operator")]
    if known is None:
        row = f"own-{name}"
        for scale in SCALES:
            network(row, scale, name)
        corrects = {"error": "scaled_residual", "reads": "jacobian", "smoothing": 2}
        PRESETS.extend(
            [
                Preset(recipes[0], static, row, row, "contract", warm=0.3, **corrects),  # type: ignore[arg-type]
                Preset(recipes[1], static, row, row, "unroll", warm=0.75),
                Preset(recipes[2], static, row, None, "data"),
            ]
        )
    return recipes


class _Gained(nn.Module):
    """g N(x)."""

    def __init__(self, inner: nn.Module, zero_output: bool) -> None:
        super().__init__()
        if not isinstance(inner, nn.Module):
            raise InvalidInput("backbone", "a torch.nn.Module", type(inner).__name__)
        self.inner = inner
        self.gain = nn.Parameter(torch.full((1,), 0.0 if zero_output else 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """The answer of the user's network, times the gain."""
        answer: Tensor = self.gain * self.inner(x)
        return answer
