"""What rounding leaves of a Newton and of a Gauss-Newton correction.

With χ = σ_max/σ_min of J and J v = σ_min w, a correction that is computed with a relative
perturbation ε leaves of the error (App. A of the paper)

    ε χ                  Newton, J p = −F, right-hand side perturbed along w
    ε χ² / (1 − ε χ²)    normal equations, JᵀJ p = −JᵀF, matrix perturbed along v
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.jacobian import sparse_jacobian
from paper.conditioning import singular_values

DENSE_UNKNOWNS = 2_500
"""The largest dense system of the experiment, about 50 × 50 points."""


def gauss_newton_amplification(condition: float, epsilon: float) -> float:
    """ε χ²/(1 − ε χ²): what normal equations perturbed by ε leave; infinite from ε χ² = 1 on."""
    ratio = epsilon * condition**2
    return ratio / (1 - ratio) if ratio < 1 else math.inf


def rounding_experiment(problem: Problem, u_star: Tensor, perturbation: float) -> dict[str, float]:
    """One correction of one sample at u* + v, perturbed as the paper perturbs it; dense.

    The residual is J(u*)v, the paper's linearised regime. The paper perturbs unlike things,
    Newton's right-hand side but the matrix of the normal equations; so does this. Its right-hand
    side is perturbed relative to σ_max‖v‖, which is χ times the residual.

    Returns:
        ‖v + p‖ of both corrections, beside the formulas, and of both solved in single precision
        with no perturbation but its own rounding.

    Raises:
        InvalidInput: The grid is too fine for dense matrices.
    """
    problem = problem.in_precision(torch.float64)
    u_star = u_star.detach().double().cpu()
    if (problem.resolution - 2) ** 2 > DENSE_UNKNOWNS:
        raise InvalidInput("resolution", "at most 52 for dense matrices", problem.resolution)
    found = singular_values(problem, u_star)
    condition, largest = float(found.condition[0]), float(found.largest[0])
    v, w = (problem.grid.flatten(x[:1])[0].numpy() for x in (found.weakest, found.response))
    matrix = sparse_jacobian(problem, u_star)[0].toarray()
    right, normal = -(matrix @ v), matrix.T @ matrix
    weakened = normal - perturbation * largest**2 * np.outer(v, v)
    single, single_right = matrix.astype(np.float32), right.astype(np.float32)
    corrections = {
        "newton": np.linalg.solve(matrix, right - perturbation * largest * w),
        "gauss_newton": np.linalg.solve(weakened, matrix.T @ right),
        "newton_single": np.linalg.solve(single, single_right),
        "gauss_newton_single": np.linalg.solve(single.T @ single, single.T @ single_right),
    }
    left = {name: float(np.linalg.norm(v + p)) for name, p in corrections.items()}
    left["newton_formula"] = perturbation * condition
    left["gauss_newton_formula"] = gauss_newton_amplification(condition, perturbation)
    return left
