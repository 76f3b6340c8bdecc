"""The corrector inside somebody else's solver: three preconditioners for a SciPy matrix."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse.linalg import cg, gmres

import neuralsolver as ns
from neuralsolver.fields.jacobian import sparse_jacobian
from neuralsolver.solvers import flexible_gmres


def main() -> None:
    problem = ns.Problem.random(ns.Darcy(), 128, seed=1)
    (matrix,) = sparse_jacobian(problem, problem.zeros())
    right = np.full(matrix.shape[0], 100.0)
    solver, steps = ns.load("darcy"), []

    vcycle = solver.preconditioner(problem, linear=True)
    u, failed = cg(matrix, right, M=vcycle, rtol=1e-8, callback=steps.append)
    print(f"V-cycle, no network, conjugate gradients: {report(matrix, right, u, failed, steps)}")

    with warnings.catch_warnings():  # it warns that it is no linear operator
        warnings.simplefilter("ignore")
        corrector = solver.preconditioner(problem)
    steps = []
    u, failed = flexible_gmres(matrix, right, preconditioner=corrector, callback=steps.append)
    print(f"corrector, flexible GMRES: {report(matrix, right, u, failed, steps)}")

    shapes, steps = ns.load("shapes").preconditioner(problem), []
    options = {"rtol": 1e-8, "callback": steps.append, "callback_type": "pr_norm"}
    u, failed = gmres(matrix, right, M=shapes, **options)
    print(f"corrector that is linear, SciPy's GMRES: {report(matrix, right, u, failed, steps)}")


def report(matrix, right, u, failed, steps) -> str:
    residual = np.linalg.norm(right - matrix @ u) / np.linalg.norm(right)
    return f"{len(steps)} steps, residual {residual:.1e}{', FAILED' if failed else ''}"


if __name__ == "__main__":
    main()
