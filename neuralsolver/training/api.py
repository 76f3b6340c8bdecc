"""Training what is yours: an equation, a network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver.equations import Equation, equation_named
from neuralsolver.equations.contract import check_equation
from neuralsolver.errors import InvalidInput
from neuralsolver.models import MODELS
from neuralsolver.models.backbone import Backbone
from neuralsolver.progress import Progress
from neuralsolver.solvers import TrainedSolver
from neuralsolver.training import Record, load
from neuralsolver.training.presets import (
    PRESETS,
    SCALES,
    Preset,
    Scale,
    network,
    scale_named,
    static,
)
from neuralsolver.training.run import Report, Training
from neuralsolver.training.run import train as train_model


def train(
    equation: Equation,
    *,
    recipe: str = "contractive",
    scale: str | Scale = "small",
    runs: str | Path = "runs",
    data: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
    start: str | Path | None = None,
    device: str | None = None,
    callback: Report | None = None,
    **plan: Any,
) -> TrainedSolver:
    """Train a solver of an equation of the package or of your own.

    The same call continues an interrupted run and finds a finished one.

    >>> import neuralsolver as ns, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> solver = ns.train(ns.Poisson(), scale="tiny", runs=folder, data=folder, batches=2)
    >>> solver.resolution
    16

    Args:
        equation: The equation.
        recipe: How; `ens list` shows all, `register_backbone` adds some.
        scale: "tiny", "small" or "paper", or one of your own.
        runs: Folder of the runs.
        data: Folder of the datasets; $ENS_DATA or ./data unless given.
        seed: Seed of weights and batches.
        progress: Whether to show on stderr how far it is.
        start: The model to continue from, of the same networks.
        device: cpu, cuda or cuda:N; a GPU if there is one unless given.
        callback: Called after every batch with the name of the stage, the part of it that is done
            (0 to 1), and the record so far: `losses` of the last batches, `validation`, `updates`.
        **plan: Fields of `Plan` to replace, such as `batches`.

    Returns:
        The trained solver.
    """
    check_equation(equation)
    equation_named(equation.name, equation.constants())  # as a loaded model will ask for it
    size = scale_named(scale) if isinstance(scale, str) else scale
    training = Training(equation, recipe, size, seed, changes=plan, start=start)
    with ExitStack() as shown:
        told = [] if callback is None else [callback]
        if progress:
            told.append(reporting(shown.enter_context(Progress(f"{equation.name} {recipe}"))))

        def report(stage: str, done: float, record: Record) -> None:
            for tell in told:
                tell(stage, done, record)

        place = None if data is None else Path(data)
        folder = train_model(training, Path(runs), data=place, report=report, device=device)
    return load(folder)


def reporting(progress: Progress) -> Report:
    """What `train` calls to show how it stands."""

    def report(stage: str, done: float, record: Record) -> None:
        loss = sum(record.losses) / max(1, len(record.losses))
        text = f"{stage}, batch {record.batches}, loss {loss:.2e}"
        if record.validation:
            text += f", validation {record.validation[0]:.1e} to {record.validation[-1]:.1e}"
        progress.fraction(done, text)

    return report


def register_backbone(name: str, make: Callable[[int, int], nn.Module]) -> list[str]:
    """Make a network of yours known by a name, so that solvers can be trained and loaded with it.

    >>> import neuralsolver as ns, torch
    >>> ns.register_backbone("small", lambda i, o: torch.nn.Conv2d(i, o, 3, padding=1))
    ['contractive-small', 'paper-small', 'backbone-only-small']

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
    recipes = [f"{recipe}-{name}" for recipe in ("contractive", "paper", "backbone-only")]
    if known is None:
        row = f"own-{name}"
        for scale in SCALES:
            network(row, scale, name)
        reads: dict[str, Any] = {"error": "scaled_residual", "reads": "jacobian", "smoothing": 2}
        PRESETS.extend(
            [
                Preset(recipes[0], static, row, row, "contract", warm=0.3, **reads),
                Preset(recipes[1], static, row, row, "unroll", warm=0.75),
                Preset(recipes[2], static, row, None, "data"),
            ]
        )
    return recipes


class _Gained(nn.Module):
    """g N(x) with any module N.

    The gain g is one number that is learnt. It begins at zero where a solver must begin by
    answering zero (as in ReZero), so that N needs no initialisation of its own.
    """

    def __init__(self, inner: nn.Module, zero_output: bool) -> None:
        super().__init__()
        if not isinstance(inner, nn.Module):
            raise InvalidInput("backbone", "a torch.nn.Module", type(inner).__name__)
        self.inner = inner
        self.gain = nn.Parameter(torch.full((1,), 0.0 if zero_output else 1.0))
        self.register_state_dict_post_hook(_only_tensors)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """The answer of the user's network, times the gain."""
        answer: Tensor = self.gain * self.inner(x)
        return answer


def _only_tensors(module: nn.Module, state: dict[str, Any], *unused: Any) -> None:
    """Drop what else a network puts into its state: neuraloperator's add their arguments."""
    for name in [name for name, value in state.items() if not isinstance(value, Tensor)]:
        del state[name]
