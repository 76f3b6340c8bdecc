"""Kerr waves between reflecting sides, by sine series and dense matrices.

    −Δu − k² s² (1 + ε|u|²) u = f  in Ω = (0, 1)²,   u = 0 on ∂Ω

u is a sum of sines and the equation holds at the points of the grid, so the error falls faster than
any power of the spacing where s and f are smooth. The solvers' stencils are checked with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.errors import ReferenceFailure

Complex = npt.NDArray[np.complex128]


def solve_kerr_waves(
    slowness: npt.NDArray[np.float64], source: Complex, wavenumber: float, strength: float = 0.0
) -> Complex:
    """Solve for u by Newton's method from the linear solution.

    Args:
        slowness: s at the points of a square grid, sides included: (n, n).
        source: f at the same points.
        wavenumber: k.
        strength: ε.

    Returns:
        u at the same points: (n, n).

    Raises:
        ReferenceFailure: Newton's method has not converged.
    """
    negative = -_laplacian(len(slowness) - 2)
    medium = (wavenumber * slowness[1:-1, 1:-1].ravel()) ** 2
    f = source[1:-1, 1:-1].ravel().astype(np.complex128)
    u: Complex = np.linalg.solve(negative - np.diag(medium), f).astype(np.complex128)
    for _ in range(30):
        kerr = strength * medium
        residual = negative @ u - (medium + kerr * np.abs(u) ** 2) * u - f
        linear = negative - np.diag(medium + 2 * kerr * np.abs(u) ** 2)
        square = kerr * u**2  # of the conjugate of the change
        jacobian = np.block(
            [
                [linear - np.diag(square.real), -np.diag(square.imag)],
                [-np.diag(square.imag), linear + np.diag(square.real)],
            ]
        )
        both = np.linalg.solve(jacobian, np.concatenate([residual.real, residual.imag]))
        change = both[: len(u)] + 1j * both[len(u) :]
        u = u - change
        if np.linalg.norm(change) <= 1e-12 * np.linalg.norm(u):
            return np.pad(u.reshape(len(slowness) - 2, -1), 1)
    raise ReferenceFailure("Newton's method on Kerr waves has not converged in 30 steps")


def _laplacian(points: int) -> npt.NDArray[np.float64]:
    """Δ of a sum of sines, from and to its values at the interior points of a square."""
    number = np.arange(1, points + 1)
    sines = np.sin(np.pi * np.outer(number, number) / (points + 1))
    second = -2 / (points + 1) * (sines * (np.pi * number) ** 2) @ sines
    one = np.eye(points)
    result: npt.NDArray[np.float64] = np.kron(second, one) + np.kron(one, second)
    return result
