"""Networks with known behaviour: correctors whose convergence can be calculated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from neuralsolver.models import MODELS
from neuralsolver.solvers import NeuralSolver
from neuralsolver.training import presets


class SineInverse(nn.Module):
    """−(1 − defect)·(Δ + shift)⁻¹ of the residual in float32: the error shrinks by `defect`."""

    def __init__(self, defect: float = 0.3, shift: float = 0.0) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(1 - defect))
        self.shift = shift
        self.calls = 0
        self.samples = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.samples += len(x)
        n = x.shape[-1]
        k = torch.arange(1, n - 1, dtype=torch.float64)
        sine = torch.sin(math.pi * torch.outer(k, k) / (n - 1)).to(x)
        symbol = -4 * (n - 1) ** 2 * torch.sin(math.pi * k / (2 * (n - 1))) ** 2
        table = (symbol[:, None] + symbol[None, :] + self.shift).to(x)
        inner = x[:, -1:, 1:-1, 1:-1]
        spectrum = sine @ inner @ sine * (2 / (n - 1)) ** 2
        solved = sine @ (spectrum / table) @ sine
        return nn.functional.pad(-self.gain * solved, (1, 1, 1, 1))


class Constant(nn.Module):
    """A network that always answers the same, whatever it reads."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, x: Tensor) -> Tensor:
        return self.value * torch.ones_like(x[:, :1])


class Clocked(nn.Module):
    """A network with a clock: it writes down what it is shown and answers next to nothing."""

    clocked = True

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(1e-3))
        self.channels = channels
        self.seen: list[float] = []

    def forward(self, x: Tensor, clock: float) -> Tensor:
        self.seen.append(clock)
        return self.value * torch.ones_like(x[:, :1]).expand(-1, self.channels, -1, -1)


class SpaceTime(nn.Module):
    """A network with an axis for time that answers with the first channel it reads."""

    dimension = 3

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(1.0))
        self.read = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        self.read = x
        return self.gain * x[:, :1]


def sine_solver(defect: float = 0.3, shift: float = 0.0) -> NeuralSolver:
    return NeuralSolver(
        None,
        SineInverse(defect, shift),
        step_size=1.0,
        error="scaled_residual",
        corrector_reads=("error",),
    )


@contextmanager
def restored_registrations() -> Iterator[None]:
    """Backbones and recipes that are registered meanwhile are forgotten afterwards."""
    models, rows, networks = dict(MODELS), list(presets.PRESETS), dict(presets.NETWORKS)
    yield
    presets.PRESETS[:] = rows
    for known, before in ((MODELS, models), (presets.NETWORKS, networks)):
        known.clear()
        known.update(before)
