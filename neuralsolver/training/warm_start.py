"""The weights that a training continues from: `ens train EQUATION --start MODEL`.

A model of the same networks, shipped or in a folder: nothing warms up then, and what it has cost
before is part of its cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralsolver.equations import Equation
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.card import read_card
from neuralsolver.training.library import load, locate
from neuralsolver.training.presets import Scale
from neuralsolver.training.recipes import make_solver


@dataclass(frozen=True)
class Beginning:
    """A model, by the name of a shipped one or by its folder."""

    start: str | Path

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights."""
        return str(self._card()["sha256"])

    @property
    def changes(self) -> dict[str, Any]:
        """What it changes in a plan."""
        return {}

    @property
    def stages(self) -> dict[str, Any]:
        """The stages that the weights have behind them."""
        return {f"before: {name}": stage for name, stage in self._card().get("stages", {}).items()}

    def solver(self, recipe: str, equation: Equation, scale: Scale, seed: int = 0) -> NeuralSolver:
        """A solver with these weights."""
        solver = make_solver(recipe, equation, scale, seed)
        begin, own = load(self._folder()).network.state_dict(), solver.state_dict()
        if {n: v.shape for n, v in begin.items()} != {n: v.shape for n, v in own.items()}:
            raise InvalidInput("start", "a model of the same networks", str(self.start))
        solver.load_state_dict(begin)
        return solver

    def _folder(self) -> Path:
        folder = locate(self.start)
        if folder is None:
            raise InvalidInput("start", "a shipped model or the folder of one", str(self.start))
        return folder

    def _card(self) -> dict[str, Any]:
        return read_card(self._folder())


BEGINNINGS: dict[str, type[Beginning]] = {}
"""Recipes that can also continue from something else, such as a file of published weights."""
