"""Finishing classically: Newton with a preconditioned Krylov method on the same discrete equation.

    J(u) δ = −F(u),   u ← u + δ,      J sparse and exact, GMRES with an incomplete LU factorisation

A neural iterate is a good start, and a start is all that Newton asks for. `polish` ends in a
residual below the tolerance or says that it did not get there, and counts what the start was worth.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator, MatrixRankWarning, gmres, spilu
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.solvers.solution import Solution, Status, residual_norm

MAX_NEWTON = 30
MAX_KRYLOV = 400


def polish(solution: Solution, tolerance: float, *, compare: bool = False) -> Solution:
    """`solution` carried on to a relative residual of `tolerance`, in float64.

    The notes gain `classical_iterations` (Krylov iterations per sample); with `compare`, also
    `classical_iterations_from_zero`, what the same method needs without the neural start.
    """
    begin = time.perf_counter()
    problem = solution.problem.in_precision(torch.float64)
    u = solution.tensor.double().clone()
    status, iterations, norms = [], [], []
    for i in range(problem.batch):
        one, scale = problem.select([i]), float(solution.residual_scale[i])
        u[i : i + 1], count, norm = _newton(one, u[i : i + 1], tolerance * scale)
        status.append(Status.TOLERANCE if norm <= tolerance * scale else Status.STEP_LIMIT)
        iterations.append(count)
        norms.append(norm)
    notes = {**solution.notes, "classical_iterations": iterations}
    seconds = time.perf_counter() - begin
    if compare:
        zero = problem.zeros()
        notes["classical_iterations_from_zero"] = [
            _newton(
                problem.select([i]), zero[i : i + 1], tolerance * float(solution.residual_scale[i])
            )[1]
            for i in range(problem.batch)
        ]
    return replace(
        solution,
        problem=problem,
        tensor=u,
        status=tuple(status),
        residual_norms=torch.cat([solution.residual_norms, torch.tensor([norms]).double()]),
        seconds=solution.seconds + seconds,
        notes=notes,
    )


def _newton(problem: Problem, u: Tensor, target: float) -> tuple[Tensor, int, float]:
    """(u, Krylov iterations, residual norm) of one sample; the best iterate if it fails."""
    residual = problem.residual(u)
    norm, total = float(residual_norm(residual)), 0
    for _ in range(MAX_NEWTON):
        if not norm > target:
            break
        (jacobian,) = sparse_jacobian(problem, u)
        right = -residual[0, 0, 1:-1, 1:-1].flatten().numpy()
        step, count = _krylov(jacobian.tocsc(), right, max(0.1 * target / norm, 1e-12))
        total += count
        proposal = u.clone()
        proposal[0, 0, 1:-1, 1:-1] += torch.from_numpy(step).view(u.shape[-2] - 2, -1)
        residual = problem.residual(proposal)
        reached = float(residual_norm(residual))
        if not reached < norm:
            break
        u, norm = proposal, reached
    return u, total, norm


def _krylov(
    matrix: Any, right: npt.NDArray[np.float64], tolerance: float
) -> tuple[npt.NDArray[np.float64], int]:
    """Solution of a sparse system by GMRES with incomplete LU, and the number of iterations."""
    count = 0

    def tick(_: object) -> None:
        nonlocal count
        count += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatrixRankWarning)
        factor = spilu(matrix, drop_tol=1e-3, fill_factor=8)
    preconditioner = LinearOperator(matrix.shape, factor.solve)
    solution, _ = gmres(
        matrix,
        right,
        rtol=tolerance,
        restart=40,
        maxiter=MAX_KRYLOV // 40,
        M=preconditioner,
        callback=tick,
        callback_type="pr_norm",
    )
    return solution, count
