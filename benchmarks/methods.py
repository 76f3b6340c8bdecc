"""Who races: the shipped networks, the same without them, and the classical solvers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from benchmarks.harness import Instance, Method, System, assemble
from neuralsolver.equations import Darcy
from neuralsolver.reference import solve_darcy, solve_shifted_laplacian
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.batches import solve_batch
from neuralsolver.solvers.multigrid import MultigridStep, as_operator
from neuralsolver.solvers.network_free import without_network
from neuralsolver.training import load

MOST = 500
"""Iterations of a conjugate gradient method, at most."""

cached_load = cache(load)


def neural(name: str, model: str | Callable[[Instance], str]) -> Method:
    """A shipped model on its own: the corrector, on finer grids below V-cycles."""

    def solver_of(one: Instance) -> TrainedSolver:
        return cached_load(model if isinstance(model, str) else model(one))

    return Method(name, lambda one: None, lambda one, _, t: _solved(solver_of(one), one, t))


def network_removed(name: str, model: str, coarsest: int | None = None) -> Method:
    """The same solver with the network removed; `coarsest` continues the V-cycles down to there."""
    made = cache(lambda: without_network(cached_load(model), coarsest))
    return Method(name, lambda one: None, lambda one, _, t: _solved(made(), one, t))


def _solved(solver: TrainedSolver, one: Instance, tolerance: float) -> tuple[Tensor, int]:
    solution = solver.solve(one.problem, tolerance=tolerance)
    return solution.tensor, int(solution.steps.max())


def _lu(one: Instance) -> tuple[System, Any]:
    system = assemble(one.problem)
    return system, system.factor()


SPARSE_LU = Method(
    "sparse LU",
    _lu,
    lambda one, state, _: (one.on_grid(state[0], state[1].solve(state[0].right)), 0),
    fits=lambda one: one.problem.grid.dimension == 2,
)


def _conjugate(one: Instance, state: tuple[System, Any], tolerance: float) -> tuple[Tensor, int]:
    system, inverse = state
    count: list[Any] = []
    options = {"M": inverse, "rtol": tolerance, "maxiter": MOST, "callback": count.append}
    u, _ = cg(system.matrix, system.right, **options)
    return one.on_grid(system, u), max(1, len(count))


def _galerkin(one: Instance) -> tuple[System, Any]:
    """Our multigrid over the free points."""
    system, problem = assemble(one.problem), one.problem
    whole = as_operator(problem, MultigridStep(problem).of(problem))

    def product(r: Any) -> Any:
        spread = np.zeros(problem.grid.size)
        spread[system.free] = np.ravel(r)
        return system.sign * whole.matvec(spread)[system.free]

    return system, LinearOperator(system.matrix.shape, product, dtype=np.float64)


MULTIGRID = Method("our multigrid + CG", _galerkin, _conjugate)


def _algebraic(kind: str, one: Instance) -> tuple[System, Any]:
    import pyamg

    system = assemble(one.problem)
    return system, getattr(pyamg, f"{kind}_solver")(system.matrix).aspreconditioner()


PYAMG = [
    Method(f"PyAMG {name} + CG", partial(_algebraic, kind), _conjugate)
    for name, kind in (("Ruge-Stuben", "ruge_stuben"), ("aggregation", "smoothed_aggregation"))
    if importlib.util.find_spec("pyamg")
]


def _sine_square(one: Instance, _: None, tolerance: float) -> tuple[Tensor, int]:
    equation = one.problem.equation
    assert isinstance(equation, Darcy)
    found = solve_darcy(
        one.problem.inputs[:, 0].numpy(), equation.constant_source, tolerance=tolerance
    )
    return torch.from_numpy(found.u)[:, None], int(found.iterations[0])


SINE_SQUARE = Method(
    "sine transform + CG",
    lambda one: None,
    _sine_square,
    fits=lambda one: isinstance(one.problem.equation, Darcy) and one.problem.fixed is None,
)


def _sine_box(one: Instance, _: None, tolerance: float) -> tuple[Tensor, int]:
    """Conjugate gradients with a sine transform; of a uniform medium the transform alone."""
    a, f = one.problem.inputs[0].numpy()
    if float(a.min()) == float(a.max()):
        return torch.from_numpy(solve_shifted_laplacian(-f[None] / a[0, 0, 0], 0.0))[None], 0
    found = solve_darcy(a[None], f[None], tolerance=tolerance)
    return torch.from_numpy(found.u)[None], int(found.iterations[0])


SINE_BOX = Method("sine transform + CG", lambda one: None, _sine_box)


def in_batches() -> list[Method]:
    """One sample after the other, the whole batch on one thread, and on two."""

    def alone(one: Instance, _: None, tolerance: float) -> tuple[Tensor, int]:
        samples = [one.problem.select([i]) for i in range(one.problem.batch)]
        found = [cached_load(one.case).solve(each, tolerance=tolerance) for each in samples]
        return torch.cat([each.tensor for each in found]), max(int(s.steps.max()) for s in found)

    def together(threads: int, one: Instance, _: None, tolerance: float) -> tuple[Tensor, int]:
        solver = cached_load(one.case)
        solution = solve_batch(solver, one.problem, threads=threads, tolerance=tolerance)
        return solution.tensor, int(solution.steps.max())

    return [
        Method("one by one", lambda one: None, alone),
        Method("batch, 1 thread", lambda one: None, partial(together, 1)),
        Method("batch, 2 threads", lambda one: None, partial(together, 2)),
    ]
