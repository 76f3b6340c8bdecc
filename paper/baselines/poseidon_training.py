"""The training of POSEIDON: its losses, and fine-tuning from a file of published weights.

    static        L = Σ |û − u| / Σ |u|                       over a batch
    trajectory    L = Σ |ŵ(tᵢ → tₖ) − w(tₖ)| / Σ |w(tₖ)|      over pairs i ≤ k of frames 0 … T

Each frame of a trajectory is asked for from every frame before it. There are (T+1)(T+2)/2 pairs,
the most for short times. A batch takes a few of each trajectory by chance; without chance it takes
all of them.

A fine-tuned network has the size of the file, whatever the scale; data, batches and grid are the
scale's. Rates are those of the published fine-tuning: 5e-4 for lifting, recovery and norms, a tenth
of it for the transformer, decay 1e-6 but not of norms and biases, gradients clipped at 5, a cosine
to zero.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.objectives import Batch
from neuralsolver.training.presets import Scale, network_row, preset
from neuralsolver.training.warm_start import Beginning
from paper.baselines.poseidon_weights import from_published

PAIRS = 2
"""Of a trajectory in a batch."""
FINE_TUNING: dict[str, Any] = {
    "learning_rate": 5e-4,
    "weight_decay": 1e-6,
    "clip": 5.0,
    "warmup": 0,
}
"""What fine-tuning changes in a plan."""
USUAL = ("input_mean", "input_size", "output_size")
"""The arguments that belong to the equation, not to the size of a network."""


def l1_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Σ |û − u| / Σ |u| over the whole batch."""
    size: Tensor = target.abs().mean() + 1e-10
    return (prediction - target).abs().mean() / size


def relative_l1(solver: NeuralSolver, batch: Batch) -> Iterator[Tensor]:
    """L¹ distance of the predictions over the L¹ norm of the truths, of a whole batch."""
    yield l1_error(solver.predict(batch.problem), batch.target)


def all_to_all(solver: Any, batch: Any) -> Iterator[Tensor]:
    """Relative L¹ error of frames, each from one at or before its time."""
    network: Any = getattr(solver, "predictor", None)
    if not hasattr(network, "after"):
        expected = "a network that is asked for one frame from another"
        raise InvalidInput("objective all_to_all", expected, type(network).__name__)
    trajectories = batch.target[:, 0]
    count, frames = trajectories.shape[:2]
    first, last = torch.triu_indices(frames, frames)
    if batch.chance is None:
        chosen = torch.arange(len(first)).expand(count, -1)
    else:
        chosen = (batch.chance[:, :PAIRS] * len(first)).long()
    sample = torch.arange(count)[:, None]
    origin, target = (
        trajectories[sample, end[chosen]].flatten(0, 1)[:, None] for end in (first, last)
    )
    elapsed = (last - first)[chosen].flatten()
    weights = next(network.parameters())
    yield l1_error(network.after(origin.to(weights), elapsed.to(weights)), target.to(weights))


class PublishedWeights(Beginning):
    """A file of published weights to fine-tune, or, as elsewhere, a model of the same networks."""

    @property
    def _file(self) -> Path | None:
        """The file; a model is a folder."""
        path = Path(self.start).expanduser()
        return path if path.is_file() else None

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights."""
        if self._file is None:
            return super().digest
        found = self._file.stat()
        return _digest(self._file, found.st_size, found.st_mtime_ns)

    @property
    def changes(self) -> dict[str, Any]:
        """What it changes in a plan."""
        return {} if self._file is None else FINE_TUNING

    @property
    def stages(self) -> dict[str, Any]:
        """The stages that the weights have behind them, as far as they are known."""
        return super().stages if self._file is None else {}

    def solver(self, recipe: str, equation: Equation, scale: Scale, seed: int = 0) -> NeuralSolver:
        """A solver with these weights; the seed is that of what stays new."""
        if self._file is None:
            return super().solver(recipe, equation, scale, seed)
        described = network_row(preset(recipe, equation).predictor or "", scale, equation)
        usual = {name: described.arguments[name] for name in USUAL if name in described.arguments}
        channels = len(equation.input_names), equation.frames + 1
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return NeuralSolver(from_published(self._file, *channels, **usual)[0])


@functools.lru_cache(maxsize=8)
def _digest(file: Path, size: int, changed: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
