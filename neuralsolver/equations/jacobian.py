"""The sparse Jacobian of a residual on a grid, by coloured probing.

A residual whose stencil reaches s points couples a point only to those at most s away. Points that
agree modulo 2s+1 in every direction therefore never meet in one residual value, and one directional
derivative serves them all: (2s+1)ᵈ derivatives give every entry of J = ∂F/∂u exactly.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.equations.grid import Grid
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


def probes(
    problem: Problem, u: Tensor, period: int | None = None
) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """The colours of the points, each with the field that is one on it and zero elsewhere.

    Around a ring the colours must not meet either: there it may take one more to close it.
    """
    period = period or 2 * problem.equation.stencil_reach + 1
    lines = []
    for n, ring in zip(problem.grid.shape, problem.grid.periodic, strict=True):
        colours = torch.arange(n, device=u.device) % period
        if ring and n % period:  # the last few points get colours of their own
            rest = n % period
            colours[n - rest :] = period + torch.arange(rest, device=u.device)
        lines.append(colours)
    for colour in itertools.product(*(range(int(line.max()) + 1) for line in lines)):
        chosen = [(line == c).to(u) for line, c in zip(lines, colour, strict=True)]
        probe = functools.reduce(torch.mul, torch.meshgrid(*chosen, indexing="ij"))
        yield colour, probe.expand(u.shape)


def jacobian_diagonal(problem: Problem, u: Tensor) -> Tensor:
    """diag J(u) as a field, one where nothing is to be solved (the walls).

    Only the points of a colour themselves are looked at, so they need be no more than s+1 apart.
    """
    jacobian = linearisation(problem, u)
    diagonal = torch.zeros_like(u)
    for _, probe in probes(problem, u, problem.equation.stencil_reach + 1):
        diagonal += probe * jacobian(probe)
    return torch.where(diagonal == 0, 1.0, diagonal)


def jacobian_row_sums(problem: Problem, u: Tensor) -> Tensor:
    """Σⱼ |J(u)ᵢⱼ| as a field: of each colour a residual value sees one point at most."""
    jacobian = linearisation(problem, u)
    total = torch.zeros_like(u)
    for _, probe in probes(problem, u):
        total += jacobian(probe).abs()
    return total


def has_sparse_jacobian(problem: Problem) -> bool:
    """Whether `sparse_jacobian` serves a problem: one unknown, nothing moves, no spectrum."""
    equation = problem.equation
    return equation.boundary == "walls" and not equation.frames and len(equation.unknowns) == 1


def sparse_jacobian(problem: Problem, u: Tensor) -> list[Any]:
    """J(u) of each sample as scipy CSR, over the points that are not on a wall, in C order.

    A known point is an unknown with the equation δ = 0.
    """
    equation, grid = problem.equation, problem.grid
    if not has_sparse_jacobian(problem):
        raise InvalidInput("equation", "one unknown between walls, without frames", equation.name)
    number = grid.unflatten(torch.arange(1.0, grid.size + 1)[None], u[:1].double())[0, 0]
    # by the offset between a point and the one it looks at
    reach = range(-equation.stencil_reach, equation.stencil_reach + 1)
    offsets = list(itertools.product(reach, repeat=grid.dimension))
    entries = {offset: torch.zeros_like(u) for offset in offsets}
    jacobian, free = linearisation(problem, u), _free(problem, u)
    beside = {offset: _looking(grid, number, offset) for offset in offsets}
    for _, probe in probes(problem, u):
        coloured = number * (probe[0, 0] != 0)
        response = jacobian(probe * free)
        for offset, entry in entries.items():
            here = _looking(grid, coloured, offset) != 0
            torch.where(here, response, entry, out=entry)
    # the point itself even where J is zero
    present = [offset for offset in offsets if not any(offset) or bool(entries[offset].any())]
    row = grid.flatten(number[None, None])[0].long().cpu().numpy() - 1
    matrices = []
    for index in range(problem.batch):
        rows, columns, values = [], [], []
        for offset in present:
            value = grid.flatten(entries[offset][index : index + 1])[0].detach().cpu().numpy()
            column = grid.flatten(beside[offset][None, None])[0].long().cpu().numpy() - 1
            kept = (value != 0) & (column >= 0)
            rows.append(row[kept])
            columns.append(column[kept])
            values.append(value[kept])
        joined = tuple(map(np.concatenate, (values, rows, columns)))
        matrix = sparse.csr_array((joined[0], joined[1:]), shape=(grid.size, grid.size))
        if problem.known is not None:
            held = 1.0 - grid.flatten(free[index : index + 1]).cpu().numpy()[0]
            matrix = sparse.csr_array(matrix + sparse.diags_array(held))
        matrices.append(matrix)
    return matrices


def _looking(grid: Grid, number: Tensor, offset: tuple[int, ...]) -> Tensor:
    """The numbers of the points at an offset from each point; zero beyond an end."""
    for axis, step in enumerate(offset, -grid.dimension):
        if step == 0:
            continue
        number = torch.roll(number, -step, axis)
        if not grid.periodic[axis]:
            n = number.shape[axis]
            lost = (0, -step) if step < 0 else (n - step, step)
            number.narrow(axis, *lost).zero_()
    return number


def _free(problem: Problem, u: Tensor) -> Tensor:
    """One where u is solved for, zero where it is known."""
    return torch.ones_like(u) if problem.known is None else (~problem.known.mask).to(u)
