"""Networks with known behaviour: correctors whose convergence can be calculated."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from neuralsolver.solvers import NeuralSolver


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


def sine_solver(defect: float = 0.3, shift: float = 0.0) -> NeuralSolver:
    return NeuralSolver(
        None,
        SineInverse(defect, shift),
        step_size=1.0,
        error="scaled_residual",
        corrector_reads=("error",),
    )
