"""The sparse Jacobian of a residual on a grid, by coloured probing.

A residual whose stencil reaches s points couples a point only to those at most s away. Points that
agree modulo 2s+1 in every direction therefore never meet in one residual value, and one directional
derivative serves them all: (2s+1)ᵈ derivatives per field give every entry of J = ∂F/∂u exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from neuralsolver.errors import InvalidInput
from neuralsolver.fields.grid import Grid
from neuralsolver.fields.space import Space

LEAST_FIELD_UNIT = 1e-6
"""Below this share of what other fields bring to it a field's residual is no unit."""

Operator = Callable[[Tensor], Tensor]


class Problem(Protocol):
    """What a Jacobian is taken of: `equations.problem.Problem`."""

    @property
    def equation(self) -> Any: ...
    @property
    def fixed(self) -> Any: ...
    @property
    def space(self) -> Space: ...
    def residual(self, u: Tensor) -> Tensor: ...
    def first_guess(self) -> Tensor: ...


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


def jacobian_blocks(problem: Problem, u: Tensor) -> Tensor:
    """The dense block of J(u) at every point, (batch, row field, column field, x, y[, z]).

    Rows in which nothing is to be solved are those of the identity. Only the points of a colour
    themselves are looked at, so they need be no more than s+1 apart.
    """
    jacobian, fields = linearisation(problem, u), u.shape[1]
    blocks = torch.zeros_like(u)[:, :, None].repeat(1, 1, fields, *[1] * (u.dim() - 2))
    for number, probe in problem.space.probes(u, problem.equation.stencil_reach + 1):
        blocks[:, :, number] += probe[:, number : number + 1] * jacobian(probe)
    empty = (blocks == 0).all(2)
    diagonal = torch.diagonal(blocks, dim1=1, dim2=2).movedim(-1, 1)
    diagonal += empty.to(u)
    return blocks


def jacobian_diagonal(problem: Problem, u: Tensor) -> Tensor:
    """diag J(u) of every field, one where nothing is to be solved (the walls)."""
    return diagonal_of(jacobian_blocks(problem, u))


def diagonal_of(blocks: Tensor) -> Tensor:
    """The diagonal of every block as fields, one where it is zero."""
    diagonal = torch.diagonal(blocks, dim1=1, dim2=2).movedim(-1, 1)
    return torch.where(diagonal == 0, 1.0, diagonal)


def divide_by_blocks(r: Tensor, blocks: Tensor) -> Tensor:
    """D⁻¹r with D the blocks of `jacobian_blocks`; zero at points where D is singular."""
    if blocks.shape[1] == 1:
        return r / blocks[:, 0]
    found, _ = torch.linalg.solve_ex(blocks.movedim((1, 2), (-2, -1)), r.movedim(1, -1)[..., None])
    return torch.nan_to_num(found[..., 0].movedim(-1, 1), 0.0, 0.0, 0.0)


def jacobian_row_sums(problem: Problem, u: Tensor) -> Tensor:
    """Σⱼ |J(u)ᵢⱼ| as a field: of each field and colour a residual value sees one point at most."""
    return _row_sums_by_field(problem, u).sum(2)


def _row_sums_by_field(problem: Problem, u: Tensor) -> Tensor:
    """The same for each field that is looked at, (batch, row field, column field, x, y[, z])."""
    jacobian, fields = linearisation(problem, u), u.shape[1]
    total = torch.zeros_like(u)[:, :, None].repeat(1, 1, fields, *[1] * (u.dim() - 2))
    for number, probe in problem.space.probes(u, 2 * problem.equation.stencil_reach + 1):
        total[:, :, number] += jacobian(probe).abs()
    return total


def field_units(problem: Problem) -> Tensor:
    """The size of the residual in each field over that of the largest, (batch, field, 1, …).

    It is that of the first guess, whatever those of the other fields are. Where that is zero,
    rounding, or next to nothing beside what the other fields will bring, a field is measured by its
    operator: by the row sums of its Jacobian over those of the largest field.
    """

    def sizes(field: Tensor) -> Tensor:
        return field.detach().abs().flatten(2).amax(2)

    guess = problem.first_guess().detach()
    size = sizes(problem.residual(guess))
    largest = size.amax(1, keepdim=True)
    silent = ~(size > LEAST_FIELD_UNIT * largest)
    if bool(silent.any()):
        numbers = torch.finfo(size.dtype)
        sums = _row_sums_by_field(problem, guess).flatten(3).amax(3)
        own = torch.diagonal(sums, dim1=1, dim2=2).clamp_min(numbers.tiny)
        # inverses of second order are n² times as large as those of the diagonal
        expected = size / own * max(problem.space.grid.shape) ** 2
        brought = ((sums - torch.diag_embed(own)) * expected[:, None]).amax(2)
        rounding = 16 * numbers.eps * (sums * sizes(guess)[:, None]).sum(2)
        silent &= ~(size > LEAST_FIELD_UNIT * brought + rounding)
        rows = sums.sum(2).clamp_min(numbers.tiny)
        unit = torch.where(largest > 0, largest, 1.0)
        by_rows = unit * rows / rows.gather(1, size.argmax(1, keepdim=True))
        size = torch.where(silent, by_rows, size)
    units = size / size.amax(1, keepdim=True)
    return units.view(*units.shape, *[1] * (guess.dim() - 2))


def has_sparse_jacobian(problem: Problem) -> bool:
    """Whether `sparse_jacobian` serves a problem: nothing moves, no spectrum."""
    return problem.equation.boundary == "dirichlet" and not problem.equation.frames


def sparse_jacobian(problem: Problem, u: Tensor) -> list[Any]:
    """J(u) of each sample as scipy CSR, over the unknowns in the order of `Space.flatten`.

    A known point is an unknown with the equation δ = 0.
    """
    equation, space = problem.equation, problem.space
    grid = space.grid
    if not has_sparse_jacobian(problem):
        raise InvalidInput("equation", "fields between walls, without frames", equation.name)
    numbers = space.unflatten(torch.arange(1.0, space.size + 1)[None], u[:1].double())[0]
    # by the field and the offset between a point and the one it looks at
    reach = range(-equation.stencil_reach, equation.stencil_reach + 1)
    offsets = list(itertools.product(reach, repeat=grid.dimension))
    entries = {(j, o): torch.zeros_like(u) for j in range(len(numbers)) for o in offsets}
    beside = {(j, o): _looking(grid, numbers[j], o) for j, o in entries}
    jacobian = linearisation(problem, u)
    # one where u is solved for, zero where it is known
    free = torch.ones_like(u) if problem.fixed is None else (~problem.fixed.mask).to(u)
    for j, probe in space.probes(u, 2 * equation.stencil_reach + 1):
        coloured = numbers[j] * (probe[0, j] != 0)
        response = jacobian(probe * free)
        for offset in offsets:
            here = _looking(grid, coloured, offset) != 0
            torch.where(here, response, entries[j, offset], out=entries[j, offset])
    # the point itself even where J is zero
    present = [key for key, entry in entries.items() if not any(key[1]) or bool(entry.any())]
    row = np.arange(space.size)
    columns_of = {
        key: space.flatten(beside[key].expand(1, *numbers.shape))[0].long().cpu().numpy() - 1
        for key in present
    }
    matrices = []
    for index in range(len(u)):
        rows, columns, values = [], [], []
        for key in present:
            value = space.flatten(entries[key][index : index + 1])[0].detach().cpu().numpy()
            column = columns_of[key]
            kept = (value != 0) & (column >= 0)
            rows.append(row[kept])
            columns.append(column[kept])
            values.append(value[kept])
        joined = tuple(map(np.concatenate, (values, rows, columns)))
        matrix = sparse.csr_array((joined[0], joined[1:]), shape=(space.size, space.size))
        if problem.fixed is not None:
            held = 1.0 - space.flatten(free[index : index + 1]).cpu().numpy()[0]
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
