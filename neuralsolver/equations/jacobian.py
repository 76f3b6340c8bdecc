"""The sparse Jacobian of a residual between walls, by coloured probing.

A residual whose stencil reaches s points couples a point only to those at most s away. Points that
agree modulo 2s+1 in both directions therefore never meet in one residual value, and one directional
derivative serves them all: (2s+1)² derivatives give every entry of J = ∂F/∂u exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.equations.problem import Problem
from neuralsolver.errors import InvalidInput

Operator = Callable[[Tensor], Tensor]


def linearisation(problem: Problem, u: Tensor) -> Operator:
    """J(u) as a function of the direction it is applied to.

    Jᵀv is linear in v, and its derivative with respect to v in the direction d is Jd: reverse mode
    twice, on a graph that is built once for all directions.
    """
    if problem.equation.linear:
        constant = problem.residual(torch.zeros_like(u))
        return lambda direction: problem.residual(direction) - constant
    with torch.enable_grad():
        point = u.detach().requires_grad_(True)
        residual = problem.residual(point)
        v = torch.zeros_like(residual).requires_grad_(True)
        (transposed,) = torch.autograd.grad(residual, point, v, create_graph=True)
    return lambda direction: torch.autograd.grad(transposed, v, direction, retain_graph=True)[0]


def jacobian_diagonal(problem: Problem, u: Tensor) -> Tensor:
    """diag J(u) as a field, one where nothing is to be solved (the walls)."""
    jacobian = linearisation(problem, u)
    diagonal = torch.zeros_like(u)
    period = 2 * problem.equation.stencil_reach + 1
    for p in range(period):
        for q in range(period):
            probe = torch.zeros_like(u)
            probe[..., p::period, q::period] = 1.0
            diagonal += probe * jacobian(probe)
    return torch.where(diagonal == 0, 1.0, diagonal)


def jacobian_row_sums(problem: Problem, u: Tensor) -> Tensor:
    """Σⱼ |J(u)ᵢⱼ| as a field: of each colour a residual value sees one point at most."""
    jacobian = linearisation(problem, u)
    total, period = torch.zeros_like(u), 2 * problem.equation.stencil_reach + 1
    for p in range(period):
        for q in range(period):
            probe = torch.zeros_like(u)
            probe[..., p::period, q::period] = 1.0
            total += jacobian(probe).abs()
    return total


def sparse_jacobian(problem: Problem, u: Tensor) -> list[sparse.csr_array]:
    """J(u) for each sample, over the points that are not on a wall, in C order.

    A known point is an unknown with the equation δ = 0.
    """
    equation, grid = problem.equation, problem.grid
    if any(grid.periodic) or equation.frames or len(equation.unknowns) > 1:
        raise InvalidInput("equation", "one unknown between walls, without frames", equation.name)
    reach, inner = equation.stencil_reach, problem.resolution - 2
    period = 2 * reach + 1
    i, j = np.meshgrid(np.arange(inner), np.arange(inner), indexing="ij")
    rows: list[np.ndarray] = []
    columns: list[np.ndarray] = []
    values: list[np.ndarray] = []
    jacobian = linearisation(problem, u)
    free = _free(problem, u)
    for p in range(period):
        for q in range(period):
            probe = torch.zeros_like(u)
            grid.interior(probe)[..., p::period, q::period] = 1.0
            response = grid.interior(jacobian(probe * free))[:, 0]
            # the one point of this colour within reach of (i, j)
            near_i = i - (i - p + reach) % period + reach
            near_j = j - (j - q + reach) % period + reach
            inside = (near_i >= 0) & (near_i < inner) & (near_j >= 0) & (near_j < inner)
            rows.append((i * inner + j)[inside])
            columns.append((near_i * inner + near_j)[inside])
            values.append(response.detach().cpu().numpy()[:, inside])
    row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values, 1)
    size = (inner**2, inner**2)
    matrices = [sparse.csr_array((entries, (row, column)), shape=size) for entries in value]
    for index, matrix in enumerate(matrices):
        matrix.eliminate_zeros()
        if problem.known is not None:
            held = 1.0 - grid.flatten(free[index : index + 1]).cpu().numpy()[0]
            matrices[index] = sparse.csr_array(matrix + sparse.diags_array(held))
    return matrices


def _free(problem: Problem, u: Tensor) -> Tensor:
    """One where u is solved for, zero where it is known."""
    return torch.ones_like(u) if problem.known is None else (~problem.known.mask).to(u)
