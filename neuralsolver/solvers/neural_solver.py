"""Neural solvers (Definition 1 of the paper).

    û⁰ = P(f, g),      û⁽ᵏ⁺¹⁾ = û⁽ᵏ⁾ + β ρ C(û⁽ᵏ⁾, e⁽ᵏ⁾; f, g),      k = 0 … K−1

with the predictor P, the corrector C, the error signal (e, ρ) and the step size β. Without a
corrector (K = 0) this is a neural operator; without a predictor the iteration starts from the first
guess of the equation, zero or the initial frame repeated. To that guess a prediction is added.

A network may follow a clock that tells the corrections apart: (k+1)/T with the T steps of training,
growing past 1 where more are made (the paper's flows). A contraction is one map, without a clock.

What a network reads is part of the method. The paper's networks read everything: P the inputs, C
(f, u, r). A convergent corrector approximates −J⁻¹ with J = ∂F/∂u, so it reads the error and just
what J depends on; for a linear equation with constant coefficients that is nothing else, and the
iteration is then exactly equivariant under a change of scale. A predictor that reads "error" is
given the error signal of the zero field, so that a constant which the inputs do not show (the
factor a of Poisson, the forcing of Darcy) still reaches it.

A corrector for domains of any shape reads two fields more, both of J: "free", one where u is solved
for and zero where it is known, and "coefficient", log₂ of diag J over its mean. Together with the
error in the units of u (`error_signals.jacobi_residual`) they do not tell one equation from another
of the same kind. What such a network makes of them once (`prepare`) serves a whole solve.

A small error that oscillates from point to point has a large residual, under which that of a large
smooth error is hidden. `smoothing` puts that many classical sweeps before each correction: they
remove what oscillates, and the corrector reads the rest. The paper's solvers have none.

The iterate lives in the precision of the problem, the networks in their own. A float64 problem with
float32 networks is iterative refinement: each correction needs few digits, their sum has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.error_signals import ERROR_SIGNALS
from neuralsolver.solvers.loop import Solve, Solver, State
from neuralsolver.solvers.smoothing import chebyshev_weights, smooth
from neuralsolver.solvers.stopping import FixedSteps, ResidualPlateau, StoppingRule

READABLE = ("inputs", "solution", "coefficient", "free", "error")
Map = Callable[[Tensor], Tensor]


class NeuralSolver(nn.Module, Solver):
    """Predictor and corrector with their error signal, step size and stopping rule.

    >>> import neuralsolver as ns
    >>> from neuralsolver.solvers import FixedSteps, NeuralSolver
    >>> from neuralsolver.models import FNO
    >>> solver = NeuralSolver(None, FNO(3, 1, width=4, layers=1, max_wavenumber=(2, 2)))
    >>> problem = ns.Problem.random(ns.Poisson(), 16)
    >>> solver.solve(problem, stop=FixedSteps(2)).steps.tolist()
    [2]
    """

    def __init__(
        self,
        predictor: nn.Module | None,
        corrector: nn.Module | None = None,
        *,
        step_size: float = 0.05,
        error: str = "residual",
        predictor_reads: Sequence[str] = ("inputs",),
        corrector_reads: Sequence[str] = ("inputs", "solution", "error"),
        smoothing: int = 0,
        clock_steps: int | None = None,
        stop: StoppingRule | None = None,
    ) -> None:
        super().__init__()
        if error not in ERROR_SIGNALS:
            raise InvalidInput("error", f"one of {', '.join(ERROR_SIGNALS)}", error)
        for field in (*predictor_reads, *corrector_reads):
            if field not in READABLE:
                raise InvalidInput("reads", f"some of {', '.join(READABLE)}", field)
        self.predictor = predictor
        self.corrector = corrector
        self.step_size = step_size
        self.error = error
        self.predictor_reads = tuple(predictor_reads)
        self.corrector_reads = tuple(corrector_reads)
        self.smoothing = smoothing
        self.clock_steps = clock_steps
        self.stop: StoppingRule = stop or (
            FixedSteps(0) if corrector is None else ResidualPlateau()
        )

    def predict(self, problem: Problem) -> Tensor:
        """û⁰, with the known values imposed."""
        guess = problem.first_guess()
        if self.predictor is None:
            return problem.impose(guess)
        reads = self.predictor_reads
        if "error" not in reads:
            blind = State(problem, guess, torch.zeros_like(guess))
            change = self._evaluate(self.predictor, reads, blind, guess, clock=1.0)
            change = change * problem.network_unit
        else:
            now = State(problem, guess, problem.residual(guess))
            change = self._scaled(self.predictor, reads, now, clock=1.0)
        return problem.impose(guess + change)

    def correction(self, now: State, number: int = 0, prepared: Map | None = None) -> Tensor:
        """β ρ C(û, e; f, g), what the corrector alone answers to a residual, k = `number`."""
        if self.corrector is None:
            raise InvalidInput("corrector", "a network: this solver can only predict", None)
        clock = 1.0 if self.clock_steps is None else (number + 1) / self.clock_steps
        reads = self.corrector_reads
        return self._scaled(self.corrector, reads, now, clock=clock, prepared=prepared)

    @property
    def reads_shape(self) -> bool:
        """Whether the corrector is told which points are solved for."""
        return "free" in self.corrector_reads

    def prepared(self, now: State) -> Map | None:
        """The corrector of a linear problem as a map of the error alone, if it is one."""
        network: Any = self.corrector
        if not hasattr(network, "prepare") or not now.problem.equation.linear:
            return None
        found: Map = network.prepare(self._read(network, self.corrector_reads[:-1], now, now.u))
        return found

    def stepper(self) -> NeuralStepper:
        """The corrections of one solve."""
        return NeuralStepper(self)

    def compose(self, problem: Problem, u0: Tensor | None = None, **options: Any) -> Solve:
        """Predict (or start from `u0`) and correct until the rule `stop` is content."""
        stop = options.pop("stop", None) or self.stop
        if options:
            raise InvalidInput("options", "stop", ", ".join(options))
        start = self.predict(problem) if u0 is None else problem.impose(u0.to(problem.inputs))
        return Solve(problem, start, self.stepper(), stop)

    def _scaled(
        self,
        network: nn.Module,
        reads: Sequence[str],
        now: State,
        *,
        clock: float,
        prepared: Map | None = None,
    ) -> Tensor:
        """β ρ N(…, e)."""
        error, scale = ERROR_SIGNALS[self.error](now)
        if prepared is not None:
            answer = prepared(error.to(next(network.parameters()))).to(now.u)
        else:
            answer = self._evaluate(network, reads, now, error, clock=clock)
        return self.step_size * scale * answer

    def _evaluate(
        self, network: nn.Module, reads: Sequence[str], now: State, error: Tensor, *, clock: float
    ) -> Tensor:
        """The network on what it reads, in its own precision."""
        read = self._read(network, reads, now, error)
        clocked = getattr(network, "clocked", False)
        output: Tensor = network(read, clock) if clocked else network(read)
        return output.to(now.u).view_as(now.u)

    def _read(self, network: nn.Module, reads: Sequence[str], now: State, error: Tensor) -> Tensor:
        """What a network reads, as its channels.

        Frames are channels, unless the network has an axis for them: it then reads the inputs in
        every frame.
        """
        u, problem = now.u / now.problem.network_unit, now.problem
        inputs = problem.equation.conditioning(problem.inputs)
        if problem.grid.dimension == 3:
            parts = {"inputs": inputs, "solution": u, "error": error}
        elif getattr(network, "dimension", 2) == 3:
            frames = inputs[:, :, None].expand(-1, -1, u.shape[2], -1, -1)
            parts = {"inputs": frames, "solution": u, "error": error}
        else:
            parts = {"inputs": inputs, "solution": u.flatten(1, -3), "error": error.flatten(1, -3)}
        if "free" in reads:
            parts["free"] = problem.free.to(u)
            parts["coefficient"] = relative_coefficient(now.diagonal, parts["free"])
        return torch.cat([parts[name] for name in reads], 1).to(next(network.parameters()))


def relative_coefficient(diagonal: Tensor, free: Tensor) -> Tensor:
    """log₂ of |D| over its mean where something is solved for, else zero."""
    size = diagonal.abs()
    mean = (size * free).sum((-2, -1), keepdim=True) / free.sum((-2, -1), keepdim=True)
    return free * torch.log2(size / mean)


class NeuralStepper:
    """û⁽ᵏ⁾ → û⁽ᵏ⁺¹⁾ with the known values imposed: it counts the corrections for the clock, and
    keeps the blocks that its sweeps divide by and what a network prepares for a problem."""

    def __init__(self, solver: NeuralSolver) -> None:
        self.solver = solver
        self.number = 0
        self.blocks: Tensor | None = None
        self.prepared: Map | None = None

    def __call__(self, now: State) -> Tensor:
        if self.solver.smoothing:
            now = self._smoothed(now)
        if self.prepared is None and not torch.is_grad_enabled():
            self.prepared = self.solver.prepared(now)
        correction = self.solver.correction(now, self.number, self.prepared)
        self.number += 1
        return now.problem.impose(now.u + correction)

    def keep(self, mask: Tensor) -> None:
        """Forget the samples that have stopped."""
        self.blocks = None if self.blocks is None else self.blocks[mask]
        self.prepared = None

    @torch.no_grad()
    def _smoothed(self, now: State) -> State:
        if self.blocks is None:
            self.blocks = now.blocks
        weights = chebyshev_weights(self.solver.smoothing, now.problem.grid.dimension)
        smoothed = State(
            now.problem, *smooth(now.problem, now.u, now.residual, self.blocks, weights)
        )
        if now.problem.equation.linear:
            smoothed.__dict__["blocks"] = self.blocks
        return smoothed
