"""What may be done to samples afterwards, to make input and solution agree.

    gauss-newton    one least-norm step u ← u − Jᵀ(JJᵀ + ε)⁻¹ F(u; f), ε = 1e-6, the input as it is
                    (the paper's DiffENS+GN)
    ens             the shipped contractive solver on all samples in one batch: residual 1e-10

A denoiser knows the smooth part of a solution better than that of the input, which it has to find
under the rough one. Where the input enters linearly, `ens` therefore first moves both by the least
amount, in the units of the denoiser, that makes them agree: u keeps its smooth part and f its rough
one. Solving for the sampled f alone would throw the better half away.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from neuralsolver.equations import Darcy, Equation, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.stencils import from_interior, interior
from neuralsolver.samplers.conditions import Sizes
from neuralsolver.samplers.projection import least_norm_step, project, sine_table
from neuralsolver.samplers.samples import Samples
from neuralsolver.solvers.loop import Solver

FINISHES = ("gauss-newton", "ens")
SOLVED = 1e-10


def finished(
    samples: Sequence[Samples], how: str, sizes: Sizes, solver: Solver | None = None
) -> list[Samples]:
    """Samples of several problems of one equation and grid, finished in one batch."""
    if how not in FINISHES:
        raise InvalidInput("finish", " or ".join(FINISHES), how)
    begin = time.perf_counter()
    counts = [len(sample) for sample in samples]
    inputs = torch.cat([sample.inputs for sample in samples])
    u = torch.cat([sample.solutions for sample in samples])
    first = samples[0].observed
    notes: dict[str, float] = {}
    if how == "gauss-newton":
        u = least_norm_step(first.complete(inputs), u)
    else:
        if solver is None:
            raise InvalidInput("solver", "one for the finish ens", None)
        scale = [sizes.of(len(s.observed.sensors)) for s in samples for _ in range(len(s))]
        inputs, u = agreeing(first.equation, inputs, u, torch.tensor(scale, dtype=u.dtype))
        solution = solver.solve(first.complete(inputs), u0=u, tolerance=SOLVED)
        u = solution.tensor
        if solution.error_bound is not None:
            notes["error_bound"] = float(solution.error_bound.max())
    seconds = (time.perf_counter() - begin) / len(samples)
    suffix = "+gn" if how == "gauss-newton" else "+ens"
    return [
        replace(
            sample,
            inputs=part,
            solutions=solved,
            seconds=sample.seconds + seconds,
            method=sample.method + suffix,
            notes={**sample.notes, **notes},
        )
        for sample, part, solved in zip(
            samples, torch.split(inputs, counts), torch.split(u, counts), strict=True
        )
    ]


def agreeing(equation: Equation, inputs: Tensor, u: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest pair with F(u; f) = 0, distances in units of `scale` (B, 2); for an input of two
    phases, which cannot move by a little, the pair as it is."""
    if isinstance(equation, Darcy):
        return inputs, u
    units = scale[:, :, None, None]
    n = u.shape[-1]
    points = (units[:, :1], units[:, 1:])

    def constraint(x: Tensor) -> Tensor:
        problem = Problem(equation, x[:, :1] * points[0])
        return problem.residual(problem.impose(x[:, 1:] * points[1])) / points[0]

    stiffness = points[1] / points[0]

    def precondition(rows: Tensor) -> Tensor:
        sines, symbol = sine_table(n, rows.dtype)
        modes = sines @ interior(rows) @ sines / ((stiffness * symbol) ** 2 + 1.0)
        return from_interior(sines @ modes @ sines)

    pair = torch.cat([inputs, u], 1) / units
    pair = (pair - project(constraint, pair, precondition)) * units
    return pair[:, :1], equation.impose(pair[:, 1:], pair[:, :1])
