"""Fine-tuning of published weights: `ens train EQUATION --recipe poseidon --start FILE`.

The network has the size of the file, whatever the scale; data, batches and grid are the scale's.
Rates are those of the published fine-tuning: 5e-4 for lifting, recovery and norms, a tenth of it
for the transformer, decay 1e-6 but not of norms and biases, gradients clipped at 5, a cosine to
zero.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import torch

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.experiments.trainings import Scale, network_row, preset
from neuralsolver.solvers.neural_solver import NeuralSolver
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


def started_solver(
    recipe: str, equation: Equation, scale: Scale, start: Path, seed: int = 0
) -> NeuralSolver:
    """A solver with the published weights of a file; the seed is that of what stays new."""
    row = preset(recipe, equation)
    described = None if row.predictor is None else network_row(row.predictor, scale, equation)
    if described is None or described.model != "poseidon":
        raise InvalidInput("--start", "the recipe poseidon beside it", recipe)
    usual = {name: described.arguments[name] for name in USUAL if name in described.arguments}
    channels = len(equation.input_names), equation.frames + 1
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return NeuralSolver(from_published(start, *channels, **usual)[0])


def fingerprint(start: Path) -> str:
    """The SHA-256 of a file."""
    if not start.is_file():
        raise InvalidInput("--start", "a safetensors file of published weights", str(start))
    found = start.stat()
    return _digest(start, found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _digest(start: Path, size: int, changed: int) -> str:
    with start.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
