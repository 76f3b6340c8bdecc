"""What values on the walls cost: steps to a residual of 1e-8 with u = g there and with u = 0.

Each shipped static solver and the one that reads shapes, the same random inputs: once between zero
walls, once with

    g(x, y) = A (sin(3x + 1) y + x² − ½ cos 4y)

on them, A the largest value of the solution between zero walls, so that neither part is lost beside
the other. The target is thirty per cent more steps at most.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import EQUATIONS, Problem
from neuralsolver.experiments.rows import machine
from neuralsolver.training import load

Row = dict[str, Any]

SEED, SAMPLES, TOLERANCE = 20_266, 8, 1e-8
RESOLUTIONS = (64, 128)
ALLOWED = 1.3


def measure(samples: int = SAMPLES, seed: int = SEED) -> list[Row]:
    """One row per static equation, solver and grid."""
    torch.set_num_threads(1)
    rows = []
    static = [name for name, equation in EQUATIONS.items() if not equation.frames]
    cases = [(name, name) for name in static] + [(name, "shapes") for name in ("poisson", "darcy")]
    for name, model in cases:
        equation, solver = EQUATIONS[name], load(model)
        for n in RESOLUTIONS:
            plain = Problem.random(equation, n, samples, seed)
            between = solver.solve(plain, tolerance=TOLERANCE)
            size = between.tensor.flatten(1).abs().amax(1)
            values = size.view(-1, 1, 1) * pattern(*plain.grid.points())
            held = Problem(equation, plain.inputs, walls=values)
            solution = solver.solve(held, tolerance=TOLERANCE)
            steps = (between.steps.double().mean(), solution.steps.double().mean())
            rows.append(
                {
                    "equation": name,
                    "model": model,
                    "resolution": n,
                    "zero_walls": float(steps[0]),
                    "values": float(steps[1]),
                    "ratio": float(steps[1] / steps[0]),
                    "reached": bool(between.good and solution.good),
                    "samples": samples,
                    "tolerance": TOLERANCE,
                    "seed": seed,
                    "machine": machine(),
                }
            )
    return rows


def pattern(x: Tensor, y: Tensor) -> Tensor:
    """g/A: smooth, different on every wall, and continuous around the corners."""
    return torch.sin(3 * x + 1) * y + x.square() - 0.5 * torch.cos(4 * y)


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'equation':20} {'model':20} {'grid':>5} {'zero walls':>10} {'values':>8} {'ratio':>6}"
    ]
    for row in rows:
        missed = "" if row["ratio"] <= ALLOWED and row["reached"] else "  MISSED"
        lines.append(
            f"{row['equation']:20} {row['model']:20} {row['resolution']:5d} "
            f"{row['zero_walls']:10.1f} {row['values']:8.1f} {row['ratio']:6.2f}{missed}"
        )
    return "\n".join(lines)
