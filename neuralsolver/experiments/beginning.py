"""The weights that a training goes on from: `ens train EQUATION --start MODEL`.

A model of the same networks, shipped or in a folder: nothing warms up then, and what it has cost
before is part of its cost. Or a file of published weights, which the recipe poseidon fine-tunes:
the network has the size of the file, whatever the scale; data, batches and grid are the scale's.
Rates are those of the published fine-tuning: 5e-4 for lifting, recovery and norms, a tenth of it
for the transformer, decay 1e-6 but not of norms and biases, gradients clipped at 5, a cosine to
zero.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.recipes import make_solver
from neuralsolver.experiments.trainings import Scale, network_row, preset
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.card import read_card
from neuralsolver.training.library import load, locate
from neuralsolver.training.published import from_published

FINE_TUNING: dict[str, Any] = {
    "learning_rate": 5e-4,
    "weight_decay": 1e-6,
    "clip": 5.0,
    "warmup": 0,
}
"""What fine-tuning changes in a plan."""
USUAL = ("input_mean", "input_size", "output_size")
"""The arguments that belong to the equation, not to the size of a network."""


@dataclass(frozen=True)
class Beginning:
    """A model, by the name of a shipped one or by its folder, or a file of published weights."""

    start: str | Path

    @property
    def published(self) -> bool:
        """Whether it is a file; a model is a folder."""
        return Path(self.start).expanduser().is_file()

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights."""
        if not self.published:
            return str(self._card()["sha256"])
        file = Path(self.start).expanduser()
        found = file.stat()
        return _digest(file, found.st_size, found.st_mtime_ns)

    @property
    def changes(self) -> dict[str, Any]:
        """What it changes in a plan."""
        return FINE_TUNING if self.published else {}

    @property
    def stages(self) -> dict[str, Any]:
        """The stages that the weights have behind them, as far as they are known."""
        stages = {} if self.published else self._card().get("stages", {})
        return {f"before: {name}": stage for name, stage in stages.items()}

    def scale(self, scale: Scale) -> Scale:
        """The scale, without a warm start."""
        return replace(scale, warm_resolution=None)

    def solver(self, recipe: str, equation: Equation, scale: Scale, seed: int = 0) -> NeuralSolver:
        """A solver with these weights; the seed is that of what stays new."""
        if self.published:
            return self._fine_tuned(recipe, equation, scale, seed)
        solver = make_solver(recipe, equation, scale, seed)
        begin, own = load(self._folder()).network.state_dict(), solver.state_dict()
        if {n: v.shape for n, v in begin.items()} != {n: v.shape for n, v in own.items()}:
            raise InvalidInput("start", "a model of the same networks", str(self.start))
        solver.load_state_dict(begin)
        return solver

    def _fine_tuned(self, recipe: str, equation: Equation, scale: Scale, seed: int) -> NeuralSolver:
        row = preset(recipe, equation)
        described = None if row.predictor is None else network_row(row.predictor, scale, equation)
        if described is None or described.model != "poseidon":
            expected = "a model of the same networks; a file goes with the recipe poseidon"
            raise InvalidInput("start", expected, recipe)
        usual = {name: described.arguments[name] for name in USUAL if name in described.arguments}
        channels = len(equation.input_names), equation.frames + 1
        file = Path(self.start).expanduser()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return NeuralSolver(from_published(file, *channels, **usual)[0])

    def _folder(self) -> Path:
        folder = locate(self.start)
        if folder is None:
            expected = "a shipped model, a folder, or a file of published weights"
            raise InvalidInput("start", expected, str(self.start))
        return folder

    def _card(self) -> dict[str, Any]:
        return read_card(self._folder())


@functools.lru_cache(maxsize=8)
def _digest(file: Path, size: int, changed: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
