"""The same solver without its network: what is left shows what the network adds.

Everything else stays: the loop, the sweeps, the acceleration, the stopping rule, the precision. In
place of the corrector stands what a classical iteration would do with the same residual,

    between walls    nothing: sweeps, with flexible GMRES or Anderson mixing around them
    flows            u ← u − L⁻¹F(u)      Picard, L = ∂ₜ − νΔ inverted mode by mode

and the start is the first guess of the equation.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.trained import TrainedSolver

SWEEPS = 2


class Multiple(nn.Module):
    """A number of times what is read: −1 for Picard's correction, 0 for none.

    Of many fields that are read the last `channels` count; all of them if that is zero.
    """

    def __init__(self, factor: float, channels: int = 0) -> None:
        super().__init__()
        self.channels = channels
        # what is read is converted to the precision of the weights
        self.factor = nn.Parameter(torch.tensor(factor, dtype=torch.float64), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """factor · x."""
        return self.factor * x[:, -self.channels :]


def without_network(solver: TrainedSolver) -> TrainedSolver:
    """The solver with its networks removed."""
    network = solver.network
    picard = network.error == "integrated_residual"
    shapes = network.reads_shape
    free = NeuralSolver(
        None,
        Multiple(-1.0 if picard else 0.0, int(shapes)),
        step_size=1.0,
        error=network.error if picard else "scaled_residual",
        corrector_reads=network.corrector_reads if shapes else ("error",),
        smoothing=0 if picard else network.smoothing or SWEEPS,
        stop=network.stop,
    )
    return replace(solver, network=free, record={})
