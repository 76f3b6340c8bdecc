"""What rounding leaves of a Newton and of a Gauss-Newton correction.

With χ = σ_max/σ_min of J and J v = σ_min w, a correction that is computed with a relative
perturbation ε leaves of the error (App. A of the paper)

    ε χ                  Newton, J p = −F, right-hand side perturbed along w
    ε χ² / (1 − ε χ²)    normal equations, JᵀJ p = −JᵀF, matrix perturbed along v
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.equations.jacobian import sparse_jacobian
from neuralsolver.errors import InvalidInput
from neuralsolver.evaluation.conditioning import singular_values
from neuralsolver.evaluation.trajectories import Vector

DENSE_UNKNOWNS = 2_500
"""The largest dense system of the experiment, about 50 × 50 points."""


def newton_amplification(condition: Tensor, epsilon: float) -> Tensor:
    """ε χ: what a right-hand side perturbed by ε σ_max ‖e‖ along w leaves of the error e."""
    return epsilon * condition


def gauss_newton_amplification(condition: Tensor, epsilon: float) -> Tensor:
    """ε χ²/(1 − ε χ²): what normal equations perturbed by ε leave; infinite from ε χ² = 1 on."""
    ratio = epsilon * condition**2
    return torch.where(ratio < 1, ratio / (1 - ratio), math.inf)


@dataclass(frozen=True, eq=False)
class Rounding:
    """What is left of an error in the weakest direction after one correction, ‖e + p‖/‖e‖.

    `newton` and `gauss_newton` are measured with the perturbations of the paper and compare with
    `newton_formula` and `gauss_newton_formula`; `newton_single` and `gauss_newton_single` are
    solved in single precision with no perturbation but its own rounding.
    """

    condition: Tensor
    newton: Tensor
    newton_formula: Tensor
    gauss_newton: Tensor
    gauss_newton_formula: Tensor
    newton_single: Tensor
    gauss_newton_single: Tensor


def rounding_experiment(problem: Problem, u_star: Tensor, perturbation: float) -> Rounding:
    """One correction at u* + e, perturbed as the paper perturbs it; dense, on small grids.

    e = v and the residual is J(u*)e, the paper's linearised regime. The paper perturbs unlike
    things, Newton's right-hand side but the matrix of the normal equations; so does this. Its
    right-hand side is perturbed relative to σ_max‖e‖, which is χ times the residual of this e.
    """
    problem = problem.in_precision(torch.float64)
    u_star = u_star.detach().double().cpu()
    if (problem.resolution - 2) ** 2 > DENSE_UNKNOWNS:
        raise InvalidInput("resolution", "at most 52 for dense matrices", problem.resolution)
    extremes = singular_values(problem, u_star)
    rows = []
    for i, sparse in enumerate(sparse_jacobian(problem, u_star)):
        v, w = (
            problem.grid.flatten(x[i : i + 1])[0].numpy()
            for x in (extremes.weakest, extremes.response)
        )
        rows.append(_corrections(sparse.toarray(), v, w, float(extremes.largest[i]), perturbation))
    newton, gauss_newton, newton_single, gauss_newton_single = torch.tensor(rows).double().T
    return Rounding(
        condition=extremes.condition,
        newton=newton,
        newton_formula=newton_amplification(extremes.condition, perturbation),
        gauss_newton=gauss_newton,
        gauss_newton_formula=gauss_newton_amplification(extremes.condition, perturbation),
        newton_single=newton_single,
        gauss_newton_single=gauss_newton_single,
    )


def _corrections(
    matrix: Vector, v: Vector, w: Vector, largest: float, perturbation: float
) -> tuple[float, float, float, float]:
    """‖e + p‖ for e = v: Newton and normal equations perturbed, then both in single precision."""
    right = -(matrix @ v)
    normal = matrix.T @ matrix
    weakened = normal - perturbation * largest**2 * np.outer(v, v)
    single, single_right = matrix.astype(np.float32), right.astype(np.float32)
    corrections = (
        np.linalg.solve(matrix, right - perturbation * largest * w),
        np.linalg.solve(weakened, matrix.T @ right),
        np.linalg.solve(single, single_right),
        np.linalg.solve(single.T @ single, single.T @ single_right),
    )
    first, second, third, fourth = (float(np.linalg.norm(v + p)) for p in corrections)
    return first, second, third, fourth
