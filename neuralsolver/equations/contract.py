"""What an equation promises, tried out on a small grid.

A new equation is a handful of declarations, and one that is wrong shows late and elsewhere: a
residual on the walls as "none of 100 fields has a solution", a stencil that reaches farther than it
says as a Jacobian with entries missing. `check_equation` tries each and names what is wrong.

    samples      (C, n, n), finite, the same for the same generator
    residual     the shape of u, finite, zero on the walls, differentiable, sample by sample
    walls        `impose` leaves u alone where it is free, and imposing twice is imposing once
    reach        a change of u at one point changes F at most `stencil_reach` points away
    lengths      F knows the lengths of its grid, or refuses all but the unit square
    linear       F(au + bv) − F(0) = a(F(u) − F(0)) + b(F(v) − F(0)), if it says so
    jacobian     J d is the same for other inputs or another u, unless `jacobian_depends_on` says
                 otherwise

Of several unknown fields each is tried by itself: one of small numbers does not hide behind the
others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations.base import Equation, generator
from neuralsolver.equations.problem import Problem
from neuralsolver.errors import InvalidInput

RESOLUTION = 16
TOLERANCE = 1e-8
"""Relative: rounding in float64 stays far below, what is wrong is of order one."""


def check_equation(equation: Equation, resolution: int = RESOLUTION, seed: int = 0) -> None:
    """Raise InvalidInput with everything that `equation` gets wrong, or return.

    >>> import neuralsolver as ns
    >>> ns.check_equation(ns.Helmholtz(wavenumber=2.0))
    """
    if not isinstance(equation, Equation):
        raise InvalidInput("equation", "an Equation", type(equation).__name__)
    resolution = max(resolution, equation.minimum_resolution)
    wrong = list(_wrong(equation, resolution, seed))
    if wrong:
        raise InvalidInput(f"equation {equation.name}", "what it declares", "; ".join(wrong))


def _wrong(equation: Equation, n: int, seed: int) -> Iterator[str]:
    """Every broken promise; the later ones are tried only where the earlier ones hold."""
    problem, complaint = _sampled(equation, n, seed)
    if problem is None:
        yield complaint
        return
    shape = (2, *equation.solution_shape(n))
    draw = torch.Generator().manual_seed(seed)
    u, v = (
        problem.impose(torch.randn(shape, generator=draw, dtype=torch.float64)) for _ in range(2)
    )
    for name, field in (("impose", u), ("residual", problem.residual(u))):
        if tuple(field.shape) != shape:
            yield f"{name} has the shape {tuple(field.shape)} instead of {shape}"
            return
        if not bool(torch.isfinite(field).all()):
            yield f"{name} of a finite field is not finite"
            return
    yield from _wrong_walls(problem, u)
    yield from _wrong_lengths(problem, u)
    yield from _wrong_batches(problem, u)
    try:
        yield from _wrong_derivatives(problem, u, v)
    except RuntimeError as error:
        yield f"the residual cannot be differentiated ({str(error).splitlines()[0][:100]})"


def _sampled(equation: Equation, n: int, seed: int) -> tuple[Problem | None, str]:
    """Two random problems, or what is wrong with the samples."""
    drawn = [np.asarray(equation.sample(generator(seed, i), n)) for i in (0, 1, 0)]
    expected = (len(equation.input_names), *equation.dimension * (n,))
    if drawn[0].shape != expected:
        return None, f"sample has the shape {drawn[0].shape} instead of {expected}"
    if not all(np.isfinite(field).all() for field in drawn):
        return None, "sample is not finite"
    if not np.array_equal(drawn[0], drawn[2]):
        return None, "sample gives two fields for one state of its generator"
    try:
        return Problem(equation, torch.from_numpy(np.stack(drawn[:2]).astype(np.float64))), ""
    except InvalidInput as error:
        return None, f"check_inputs refuses its own sample ({error})"


def _wrong_walls(problem: Problem, u: Tensor) -> Iterator[str]:
    space, residual = problem.space, problem.residual(u)
    outside = (residual - space.zero_boundary(residual)).transpose(0, 1).flatten(1).any(1)
    for index in torch.nonzero(outside).flatten().tolist():
        yield "the residual is not zero on the walls" + _of(problem, index)
    if not torch.equal(problem.impose(u), u):
        yield "imposing the known values twice is not imposing them once"
    if problem.equation.boundary == "dirichlet" and not problem.equation.frames:
        free = space.flatten(problem.impose(u + 1.0)) - space.flatten(u)
        if not bool((free == 1.0).all() | torch.isclose(free, torch.ones_like(free)).all()):
            yield "impose changes points that are not on the walls"


def _wrong_lengths(problem: Problem, u: Tensor) -> Iterator[str]:
    """A residual that takes every box for the unit square."""
    if problem.equation.boundary == "periodic":
        return
    longer = replace(problem.grid, lengths=tuple(2.0 * side for side in problem.grid.lengths))
    try:
        other = problem.equation.residual(problem.equation.space(longer), u, problem.inputs)
    except InvalidInput:  # it knows the unit square only, and says so
        return
    if torch.equal(other, problem.residual(u)):
        yield "the residual does not change with the lengths of the box: use space.grid"


def _wrong_batches(problem: Problem, u: Tensor) -> Iterator[str]:
    alone = problem.select([1]).residual(u[1:])
    together = problem.residual(u)[1:]
    if max(_distance(a, b) for a, b in _by_field(alone, together)) > TOLERANCE:
        yield "the residual of a sample depends on the others of its batch"


def _wrong_derivatives(problem: Problem, u: Tensor, v: Tensor) -> Iterator[str]:
    equation = problem.equation
    zero = problem.residual(torch.zeros_like(u))
    combined = problem.residual(2.0 * u - 3.0 * v) - zero
    parts = 2.0 * (problem.residual(u) - zero) - 3.0 * (problem.residual(v) - zero)
    for index in range(u.shape[1]):
        affine = _distance(combined[:, index], parts[:, index]) < TOLERANCE
        if equation.linear and not affine:
            yield "linear is declared, but the residual is not affine in u" + _of(problem, index)
        yield from _wrong_jacobian(problem, u, v, index)


def _wrong_jacobian(problem: Problem, u: Tensor, v: Tensor, index: int) -> Iterator[str]:
    """What is wrong with the derivative with respect to one field."""
    equation, which = problem.equation, _of(problem, index)
    direction = torch.zeros_like(u)
    centre = u.shape[-1] // 2
    middle: tuple[Any, ...] = (slice(None), index, ..., *equation.dimension * (centre,))
    direction[middle] = 1.0
    here = _along(problem, u, direction)
    if equation.boundary == "dirichlet":
        yield from (wrong + which for wrong in _wrong_reach(equation, here, centre))
    swapped = Problem(equation, problem.inputs.flip(0))
    others = {"inputs": (swapped, u), "solution": (problem, v)}
    for name, (other, point) in others.items():
        if name in equation.jacobian_depends_on:
            continue
        there = _along(other, point, direction)
        if max(_distance(a, b) for a, b in _by_field(here, there)) > TOLERANCE:
            yield f"jacobian_depends_on does not name the {name}, on which ∂F/∂u depends{which}"


def _wrong_reach(equation: Equation, response: Tensor, centre: int) -> Iterator[str]:
    points = torch.nonzero(response.flatten(0, -1 - equation.dimension).abs().amax(0) > 0)
    if not len(points):
        yield "the residual in the middle does not depend on u there"
        return
    reach = int((points - centre).abs().max())
    if reach > equation.stencil_reach:
        yield f"stencil_reach is {equation.stencil_reach}, but the residual looks {reach} away"


def _of(problem: Problem, index: int) -> str:
    """Which field is meant, where there are several."""
    return "" if problem.space.scalar else f" (field {problem.space.fields[index].name})"


def _by_field(a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(a.unbind(1), b.unbind(1), strict=True)


def _along(problem: Problem, u: Tensor, direction: Tensor) -> Tensor:
    """The derivative of F at u in a direction, by reverse mode twice."""
    with torch.enable_grad():
        point = u.detach().requires_grad_(True)
        residual = problem.residual(point)
        weight = torch.zeros_like(residual).requires_grad_(True)
        (transposed,) = torch.autograd.grad(residual, point, weight, create_graph=True)
        (answer,) = torch.autograd.grad(transposed, weight, direction, allow_unused=True)
    return torch.zeros_like(u) if answer is None else answer


def _distance(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ over the larger of the two norms."""
    size = max(float(a.norm()), float(b.norm()))
    return 0.0 if size == 0 else float((a - b).norm()) / size
