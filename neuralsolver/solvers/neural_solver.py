"""Neural solvers (Definition 1 of the paper).

    û⁰ = P(f, g),      û⁽ᵏ⁺¹⁾ = û⁽ᵏ⁾ + β ρ C(û⁽ᵏ⁾, e⁽ᵏ⁾; f, g),      k = 0 … K−1

with the predictor P, the corrector C, the error signal (e, ρ) and the step size β. Without a
corrector (K = 0) this is a neural operator; without a predictor the iteration starts from the first
guess of the equation, zero or a flow that stands still. To that guess a prediction is added.

A network may follow a clock that tells the corrections apart: (k+1)/T with the T steps of training,
growing past 1 where more are made (the paper's flows). A contraction is one map, without a clock.

What a network reads is part of the method. The paper's networks read everything: P the inputs, C
(f, u, r). A convergent corrector approximates −J⁻¹ with J = ∂F/∂u, so it reads the error and just
what J depends on; for a linear equation with constant coefficients that is nothing else, and the
iteration is then exactly equivariant under a change of scale. A predictor that reads "error" is
given the error signal of the zero field, so that a constant which the inputs do not show (the
factor a of Poisson, the forcing of Darcy) still reaches it.

A small error that oscillates from point to point has a large residual, under which that of a large
smooth error is hidden. `smoothing` puts that many classical sweeps before each correction: they
remove what oscillates, and the corrector reads the rest. The paper's solvers have none.

The iterate lives in the precision of the problem, the networks in their own. A float64 problem with
float32 networks is iterative refinement: each correction needs few digits, their sum has them all.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import jacobian_diagonal
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers.error_signals import ERROR_SIGNALS
from neuralsolver.solvers.iterate import (
    FixedSteps,
    Observer,
    ResidualPlateau,
    StoppingRule,
    iterate,
)
from neuralsolver.solvers.smoothing import chebyshev_weights, smooth
from neuralsolver.solvers.solution import Solution

READABLE = ("inputs", "solution", "error")


class NeuralSolver(nn.Module):
    """Predictor and corrector with their error signal, step size and stopping rule."""

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
        self._diagonal: tuple[Problem, Tensor] | None = None
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
            change = self._evaluate(self.predictor, reads, problem, guess, guess, clock=1.0)
        else:
            residual = problem.residual(guess)
            change = self._scaled(self.predictor, reads, problem, guess, residual, clock=1.0)
        return problem.impose(guess + change)

    def step(self, problem: Problem, u: Tensor, residual: Tensor, number: int = 0) -> Tensor:
        """û⁽ᵏ⁺¹⁾ from û⁽ᵏ⁾ and its residual, k = `number`, with the known values imposed."""
        if self.smoothing:
            u, residual = self._smooth(problem, u, residual)
        return problem.impose(u + self.correction(problem, u, residual, number))

    def correction(self, problem: Problem, u: Tensor, residual: Tensor, number: int = 0) -> Tensor:
        """β ρ C(û, e; f, g), what the corrector alone answers to a residual."""
        if self.corrector is None:
            raise InvalidInput("corrector", "a network: this solver can only predict", None)
        clock = 1.0 if self.clock_steps is None else (number + 1) / self.clock_steps
        reads = self.corrector_reads
        return self._scaled(self.corrector, reads, problem, u, residual, clock=clock)

    @torch.no_grad()
    def _smooth(self, problem: Problem, u: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        if self._diagonal is None or self._diagonal[0] is not problem:
            self._diagonal = (problem, jacobian_diagonal(problem, u))
        weights = chebyshev_weights(self.smoothing)
        return smooth(problem, u, residual, self._diagonal[1], weights)

    @torch.no_grad()
    def solve(
        self,
        problem: Problem,
        u0: Tensor | None = None,
        observe: Observer | None = None,
        *,
        stop: StoppingRule | None = None,
    ) -> Solution:
        """Predict (or start from `u0`) and correct until the stopping rule is content."""
        begin = time.perf_counter()
        start = self.predict(problem) if u0 is None else problem.impose(u0.to(problem.inputs))
        numbers = itertools.count()

        def step(problem: Problem, u: Tensor, residual: Tensor) -> Tensor:
            return self.step(problem, u, residual, next(numbers))

        solution = iterate(step, problem, start, stop or self.stop, observe)
        return replace(solution, seconds=time.perf_counter() - begin)

    def _scaled(
        self,
        network: nn.Module,
        reads: Sequence[str],
        problem: Problem,
        u: Tensor,
        residual: Tensor,
        *,
        clock: float,
    ) -> Tensor:
        """β ρ N(…, e)."""
        error, scale = ERROR_SIGNALS[self.error](problem, u, residual)
        answer = self._evaluate(network, reads, problem, u, error, clock=clock)
        return self.step_size * scale * answer

    def _evaluate(
        self,
        network: nn.Module,
        reads: Sequence[str],
        problem: Problem,
        u: Tensor,
        error: Tensor,
        *,
        clock: float,
    ) -> Tensor:
        """The network on what it reads, in its own precision.

        Frames are channels, unless the network has an axis for them: it then reads the inputs in
        every frame.
        """
        inputs = problem.equation.conditioning(problem.inputs)
        if getattr(network, "dimension", 2) == 3:
            frames = inputs[:, :, None].expand(-1, -1, u.shape[2], -1, -1)
            parts = {"inputs": frames, "solution": u, "error": error}
        else:
            parts = {"inputs": inputs, "solution": u.flatten(1, -3), "error": error.flatten(1, -3)}
        parameter = next(network.parameters())
        read = torch.cat([parts[name] for name in reads], 1).to(parameter)
        clocked = getattr(network, "clocked", False)
        output: Tensor = network(read, clock) if clocked else network(read)
        return output.to(u).view_as(u)
