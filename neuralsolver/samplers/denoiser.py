"""A denoiser of pairs (input, solution): a network in EDM's units that is told about sensors."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from neuralsolver.samplers.conditions import CONDITION_CHANNELS, Conditions, Sizes
from neuralsolver.samplers.edm import precondition


class AnyDenoiser(Protocol):
    """Anything that takes noise off pairs and knows its units."""

    sizes: Sizes

    def __call__(self, x: Tensor, sigma: Tensor, told: Conditions) -> Tensor: ...


PALETTE_CHANNELS = 2 + CONDITION_CHANNELS


class Denoiser(nn.Module):
    """D(x; σ, sensors) for one equation and grid. Without sensors it denoises the prior."""

    def __init__(self, network: nn.Module, sizes: Sizes) -> None:
        super().__init__()
        self.network = network
        self.sizes = sizes

    def forward(self, x: Tensor, sigma: Tensor, told: Conditions) -> Tensor:
        """The mean of x before noise of size σ (a number or (B,)) was added, in the type of x."""
        level = sigma.to(x).expand(x.shape[0]).view(-1, 1, 1, 1)
        skip, out, scale, noise = precondition(level)
        read = torch.cat([scale * x, told.channels()], 1)
        parameter = next(self.network.parameters())
        answer: Tensor = self.network(read.to(parameter), noise.flatten().to(parameter))
        return skip * x + out * answer.to(x)
