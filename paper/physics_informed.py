"""Solving one instance by training: the unknowns are the weights of a network.

    minimise over θ     ‖F(u_θ; f)‖ / ‖F(0; f)‖       by Adam, the learning rate falling in stages

    test-time optimisation    u_θ = P_θ(f), θ from a trained predictor (PINO, Li et al. 2021)
    PINN                      u_θ = 16 r₁(1−r₁) r₂(1−r₂) N_θ(r₁, r₂), θ random (Raissi et al. 2019)

F is the discrete residual of the equation on its grid, the one that every solver here sees. For the
PINN this stands for the automatic derivatives with respect to the coordinates of the original: its
answer is then comparable with all others, and a discontinuous permeability needs no extra care.

Nothing is learned from one instance for the next. A batch is solved instance after instance, each
from the same start, so that only one set of weights and moments is in memory; an observer sees all
steps of the first sample, then all of the second.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import MultiStepLR

from neuralsolver.equations import Problem
from neuralsolver.equations.base import check_positive
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.loop import Iterations, Observation, Solve, Solver, State, mapped
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.norms import residual_norm
from neuralsolver.solvers.solution import Solution
from neuralsolver.solvers.stopping import FixedSteps

Field = Callable[[Problem], Tensor]
"""u_θ on the grid of a problem, known values imposed, differentiable with respect to the weights θ
that it holds."""

MOMENTS = (0.9, 0.999)


class InstanceSolver(Solver):
    """A solver whose unknowns are weights: it solves one sample after another, never from `u0`."""

    @abstractmethod
    def optimisation(self, problem: Problem) -> tuple[_Update, int]:
        """The updates of the weights for one sample, and their number."""

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """The optimisation of one sample, from the field as it is."""
        if u0 is not None:
            raise InvalidInput("u0", "None: the start is what the network says", tuple(u0.shape))
        update, steps = self.optimisation(problem)
        return Solve(problem, update.start(), update, FixedSteps(steps))

    def run(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Iterations:
        """The solves of the single samples, one after another."""
        parts = []
        for i in range(problem.batch):
            place = partial(_placed, torch.tensor([i]))
            running = super().run(problem.select([i]), u0, **options)
            parts.append((yield from mapped(place, running)))
        norms = pad_sequence([part.residual_norms for part in parts], padding_value=torch.nan)
        return Solution(
            problem=problem,
            tensor=torch.cat([part.tensor for part in parts]),
            status=tuple(part.status[0] for part in parts),
            residual_norms=norms[..., 0],
            residual_scale=torch.cat([part.residual_scale for part in parts]),
            steps=torch.cat([part.steps for part in parts]),
            seconds=0.0,
        )


def _placed(samples: Tensor, seen: Observation) -> Observation:
    return replace(seen, samples=samples)


@dataclass(frozen=True, eq=False)
class TestTimeOptimisation(InstanceSolver):
    """PINO's fine-tuning of a trained predictor to each instance by its residual alone.

    Every instance begins with a copy of the predictor of `network`, which stays as it is; a
    corrector takes no part. PINO adds a term for the first frame of a flow. There is none here:
    `Problem.impose` puts the known frame into every prediction, and the term would be zero. The
    last iterate is returned. The optimisation runs in the precision of the weights, the answer and
    its residuals are in that of the problem.
    """

    __test__ = False  # pytest takes every class called Test… for one of its own

    network: NeuralSolver
    steps: int = 500
    learning_rate: float = 2.5e-3
    milestones: Sequence[int] = (100, 200, 300, 400)
    decay: float = 0.5

    def __post_init__(self) -> None:
        if self.network.predictor is None:
            raise InvalidInput("network", "a solver with a predictor", None)
        check_positive("learning_rate", self.learning_rate)
        FixedSteps(self.steps)

    def optimisation(self, problem: Problem) -> tuple[_Update, int]:
        """Adapt a copy of the predictor."""
        adapted = copy.deepcopy(self.network).requires_grad_(True)
        weights = list(adapted.predictor.parameters())  # type: ignore[union-attr]
        optimiser = torch.optim.Adam(weights, self.learning_rate, MOMENTS)
        update = _Update(problem, adapted.predict, optimiser, self.milestones, self.decay)
        return update, self.steps


@dataclass(frozen=True)
class PINN(InstanceSolver):
    """A network of the coordinates, trained from random weights for each instance between walls.

    `depth` hidden layers of `width` with tanh, Glorot's initialisation by `seed` (the same for all
    samples), multiplied by 16 r₁(1−r₁) r₂(1−r₂): zero walls hold exactly. The learning rate is
    multiplied by `decay` after 1/3, 1/2 and 2/3 of the steps. The last iterate is returned.
    """

    width: int = 50
    depth: int = 6
    steps: int = 3000
    learning_rate: float = 1e-2
    decay: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("width", self.width)
        check_positive("depth", self.depth)
        check_positive("learning_rate", self.learning_rate)
        FixedSteps(self.steps)

    def optimisation(self, problem: Problem) -> tuple[_Update, int]:
        """Train a network from its random weights."""
        equation = problem.equation
        if equation.boundary != "dirichlet":
            raise InvalidInput("equation", "a static equation between walls", equation.name)
        network = _perceptron(self.width, self.depth, self.seed).to(problem.inputs.device)
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, MOMENTS)
        milestones = [self.steps // 3, self.steps // 2, 2 * self.steps // 3]
        update = _Update(problem, _between_walls(network), optimiser, milestones, self.decay)
        return update, self.steps


class _Update:
    """A step: one update of the weights behind a field. The iterate is what the field then is."""

    def __init__(
        self,
        problem: Problem,
        field: Field,
        optimiser: torch.optim.Optimizer,
        milestones: Iterable[int],
        decay: float,
    ) -> None:
        weight = optimiser.param_groups[0]["params"][0]
        self.given, self.problem = problem, problem.in_precision(weight.dtype)
        self.field, self.optimiser = field, optimiser
        self.schedule = MultiStepLR(optimiser, milestones, decay)
        guess = residual_norm(self.problem.residual(self.problem.first_guess()))
        self.scale = torch.where(guess > 0, guess, 1.0).to(weight.dtype)
        self.current: Tensor | None = None

    def start(self) -> Tensor:
        """The field as it is."""
        return self.given.impose(self.field(self.problem).detach().to(self.given.inputs))

    def __call__(self, now: State) -> Tensor:
        with torch.enable_grad():
            # the field that this step returns is the one whose gradient the next one needs
            current = self.field(self.problem) if self.current is None else self.current
            # divided before it is squared: the square of a large residual overflows in float32
            relative = self.problem.residual(current) / self.scale
            loss = relative.norm() / relative.numel() ** 0.5
            if not bool(torch.isfinite(loss)):
                # its gradient would be zero, and standing still is not what happens here
                return torch.full_like(now.u, torch.nan)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            self.schedule.step()
            self.current = self.field(self.problem)
        return self.given.impose(self.current.detach().to(now.u))


def _perceptron(width: int, depth: int, seed: int) -> nn.Sequential:
    """Two coordinates to one value through `depth` tanh layers, Glorot uniform, zero biases."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise([2, *[width] * depth, 1]):
        # without torch's own initialisation, which draws from the global generator
        layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def _between_walls(network: nn.Module) -> Field:
    """16 r₁(1−r₁) r₂(1−r₂) N(r₁, r₂) on the grid of a problem; the factor is 1 in the centre."""

    def field(problem: Problem) -> Tensor:
        n = problem.resolution
        line = torch.linspace(0, 1, n).to(problem.inputs)
        hill = 4 * line * (1 - line)
        # the network reads 2r − 1: inputs around zero, where tanh is not flat
        points = torch.cartesian_prod(2 * line - 1, 2 * line - 1)
        values: Tensor = network(points)
        return problem.impose(torch.outer(hill, hill) * values.view(1, 1, n, n))

    return field
