"""POSEIDON's training on trajectories: every frame is asked for from every frame before it.

    L = Σ |ŵ(tᵢ → tₖ) − w(tₖ)| / Σ |w(tₖ)|      over pairs i ≤ k of frames 0 … T of a trajectory

There are (T+1)(T+2)/2 pairs, the most for short times. A batch takes a few of each trajectory by
chance; without chance it takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput

PAIRS = 2
"""Of a trajectory in a batch."""


def l1_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Σ |û − u| / Σ |u| over the whole batch."""
    size: Tensor = target.abs().mean() + 1e-10
    return (prediction - target).abs().mean() / size


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
