"""Answers to trust: classical solvers and random fields in numpy/scipy, float64.

Independent of `neuralsolver.equations`, so that the two check each other.
"""

from neuralsolver.reference.diffusion import DarcySolution, solve_darcy
from neuralsolver.reference.elliptic import smallest_singular_value, solve_shifted_laplacian
from neuralsolver.reference.random_fields import box_field, cosine_field, periodic_field, two_phase
from neuralsolver.reference.semilinear import NewtonResult, solve_semilinear_helmholtz
from neuralsolver.reference.vorticity import diagonal_forcing, integrate, kolmogorov_forcing

__all__ = [
    "DarcySolution",
    "NewtonResult",
    "box_field",
    "cosine_field",
    "diagonal_forcing",
    "integrate",
    "kolmogorov_forcing",
    "periodic_field",
    "smallest_singular_value",
    "solve_darcy",
    "solve_semilinear_helmholtz",
    "solve_shifted_laplacian",
    "two_phase",
]
