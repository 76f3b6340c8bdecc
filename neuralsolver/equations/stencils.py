"""Second-order finite differences between walls, on rᵢ = i h with h = 1/(n−1).

    (Δu)ᵢⱼ        = (uᵢ₊₁ⱼ + uᵢ₋₁ⱼ + uᵢⱼ₊₁ + uᵢⱼ₋₁ − 4uᵢⱼ) / h²
    (∇·a∇u)ᵢⱼ     = Σ over the four faces of (mean of a at the face's ends) · (uₙ − uᵢⱼ) / h²
    wide variant  = D(a Du) with the central difference D over 2h, as in PINO: spacing 2h, blind to
                    the checkerboard mode, defined two points away from the wall

All return the shape of u, zero where the stencil does not fit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad


def interior(u: Tensor, width: int = 1) -> Tensor:
    """The grid points at least `width` away from the walls.

    >>> import neuralsolver as ns, torch
    >>> tuple(ns.interior(torch.zeros(2, 1, 9, 9)).shape)
    (2, 1, 7, 7)
    """
    return u[..., width:-width, width:-width]


def from_interior(values: Tensor, width: int = 1) -> Tensor:
    """A full field that is zero on the outermost `width` points.

    >>> import neuralsolver as ns, torch
    >>> float(ns.from_interior(torch.ones(7, 7)).sum())
    49.0
    """
    return pad(values, (width, width, width, width))


def laplacian(u: Tensor) -> Tensor:
    """Δu by the five-point stencil.

    >>> import neuralsolver as ns, torch
    >>> r = torch.linspace(0, 1, 9, dtype=torch.float64)
    >>> u = (r[:, None] ** 2).expand(9, 9)
    >>> float(ns.laplacian(u)[4, 4])
    2.0
    """
    centre = u[..., 1:-1, 1:-1]
    neighbours = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2]
    return from_interior((neighbours - 4 * centre) * (u.shape[-1] - 1) ** 2)


def laplacian_eigenvalues(n: int) -> Tensor:
    """The eigenvalues of −Δ between zero walls, (n−2, n−2): 4h⁻²(sin²(πph/2) + sin²(πqh/2))."""
    p = torch.arange(1, n - 1, dtype=torch.float64)
    line = 4 * (n - 1) ** 2 * torch.sin(math.pi * p / (2 * (n - 1))) ** 2
    return line[:, None] + line[None, :]


def flux_divergence(a: Tensor, u: Tensor) -> Tensor:
    """∇·(a∇u) in flux form with arithmetic face means; exact conservation, matched to solvers.

    >>> import neuralsolver as ns, torch
    >>> u = torch.rand(1, 1, 9, 9)
    >>> bool(torch.allclose(ns.flux_divergence(torch.ones_like(u), u), ns.laplacian(u), atol=1e-3))
    True
    """
    across = (a[..., 1:, 1:-1] + a[..., :-1, 1:-1]) * torch.diff(u[..., :, 1:-1], dim=-2)
    along = (a[..., 1:-1, 1:] + a[..., 1:-1, :-1]) * torch.diff(u[..., 1:-1, :], dim=-1)
    divergence = torch.diff(across, dim=-2) + torch.diff(along, dim=-1)
    return from_interior(divergence * (0.5 * (u.shape[-1] - 1) ** 2))


def wide_divergence(a: Tensor, u: Tensor) -> Tensor:
    """∇·(a∇u) as a central difference of a central difference."""
    centre = interior(a)
    across = centre * (u[..., 2:, 1:-1] - u[..., :-2, 1:-1])
    along = centre * (u[..., 1:-1, 2:] - u[..., 1:-1, :-2])
    divergence = (across[..., 2:, 1:-1] - across[..., :-2, 1:-1]) + (
        along[..., 1:-1, 2:] - along[..., 1:-1, :-2]
    )
    return from_interior(divergence * (0.25 * (u.shape[-1] - 1) ** 2), 2)
