"""Heads in wells as a function of the permeability, and their exact derivatives.

    A(a) u = f,   G(a) = H u,   λᵢ = A⁻¹ Hᵢᵀ
    ∂Gᵢ/∂a_P = −½h⁻² Σ over the faces PQ of (λᵢ_P − λᵢ_Q)(u_P − u_Q)

A is the library's flux form with arithmetic face means, so u satisfies the residual of `Darcy` to
rounding. One sparse LU serves the heads and all m adjoint fields: about 3 ms and 0.1 ms a field on
64 × 64 points. H is bilinear interpolation, so wells may stand between grid points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import solveh_banded
from scipy.sparse.linalg import SuperLU, splu

from neuralsolver.cancellation import checkpoint
from neuralsolver.inversion.priors import Prior
from neuralsolver.reference.posterior import bilinear_weights

Array = npt.NDArray[np.float64]

FLOOR = 1e-3
"""The smallest noise a method assumes, in units of the rms head: heads are never exact."""


class HeadModel:
    """Darcy flow on n × n vertices between zero Dirichlet sides, seen at m positions.

    Args:
        positions: (m, 2) in the unit square.
        resolution: n.
        source: The constant f.
    """

    def __init__(self, positions: Array, resolution: int, source: float) -> None:
        self.resolution, self.source = resolution, source
        inner = bilinear_weights(positions, resolution)[:, 1:-1, 1:-1]
        self.rows = sparse.csr_array(inner.reshape(len(positions), (resolution - 2) ** 2))

    def heads(self, permeability: Array) -> Array:
        """What the wells see, (S, m), of permeabilities (S, n, n)."""
        inner = np.stack([solve_heads(a, self.source) for a in permeability])
        return np.asarray(self.rows @ inner.reshape(len(inner), -1).T).T

    def sensitivities(self, permeability: Array) -> tuple[Array, Array]:
        """The head u (n, n) and ∂G/∂a (m, n, n) of one permeability (n, n)."""
        factor = factorise(permeability)
        right = np.full(self.rows.shape[1], self.source)
        u = embed(factor.solve(right), self.resolution)
        if not self.rows.shape[0]:
            return u, np.zeros((0, *u.shape))
        adjoint = factor.solve(np.ascontiguousarray(self.rows.toarray().T))
        return u, sensitivity(u, embed(adjoint.T, self.resolution))

    def gradient(self, permeability: Array, misfit: Array, weight: Array) -> tuple[Array, Array]:
        """u and Gᵀ' W r for misfits r = d − G (as a function of G): one adjoint solve."""
        factor = factorise(permeability)
        u = embed(factor.solve(np.full(self.rows.shape[1], self.source)), self.resolution)
        adjoint = embed(factor.solve(np.asarray(self.rows.T @ (weight * misfit))), self.resolution)
        return u, sensitivity(u, adjoint[None])[0]


@dataclass(frozen=True, eq=False)
class WellData:
    """Heads in wells, cells of known permeability, and the prior.

    Args:
        prior: The distribution of permeabilities before any measurement.
        resolution: Vertices a side.
        source: The constant f.
        positions: Of the wells, (m, 2).
        heads: What they saw, (m,).
        noise: Standard deviation of each, (m,).
        known: (k, 2) grid indices of cells whose permeability was measured.
        values: Their permeability, (k,).
    """

    prior: Prior
    resolution: int
    source: float
    positions: Array
    heads: Array
    noise: Array
    known: npt.NDArray[np.int64]
    values: Array

    @cached_property
    def model(self) -> HeadModel:
        """Heads and derivatives."""
        return HeadModel(self.positions, self.resolution, self.source)

    @property
    def size(self) -> float:
        """The rms head."""
        size = float(np.sqrt(np.mean(self.heads**2))) if len(self.heads) else 0.0
        return size or 1.0

    @property
    def safe_noise(self) -> Array:
        """The noise, at least FLOOR of the rms head."""
        return np.maximum(self.noise, FLOOR * self.size)

    def misfit(self, permeability: Array) -> Array:
        """The rms of (heads − G(a)) / noise of permeabilities (S, n, n), (S,)."""
        if not len(self.heads):
            return np.zeros(len(permeability))
        missed = (self.heads - self.model.heads(permeability)) / self.safe_noise
        values: Array = np.sqrt(np.mean(missed**2, axis=1))
        return values

    def fix(self, permeability: Array) -> Array:
        """Fields (S, n, n) with the known cells set."""
        if len(self.known):
            permeability = permeability.copy()
            permeability[:, self.known[:, 0], self.known[:, 1]] = self.values
        return permeability


def sensitivity(u: Array, adjoint: Array) -> Array:
    """−λᵀ(∂A/∂a)u at every vertex, (m, n, n), of adjoint fields (m, n, n)."""
    scale = -0.5 * (len(u) - 1) ** 2
    result = np.zeros_like(adjoint)
    across = np.diff(adjoint, axis=1) * (scale * np.diff(u, axis=0))
    result[:, :-1] += across
    result[:, 1:] += across
    along = np.diff(adjoint, axis=2) * (scale * np.diff(u, axis=1))
    result[:, :, :-1] += along
    result[:, :, 1:] += along
    return result


def solve_heads(permeability: Array, source: float | Array = 1.0) -> Array:
    """The interior heads (n − 2, n − 2) by a banded Cholesky factorisation."""
    checkpoint()
    diagonal, along, across = _couplings(permeability)
    m = len(diagonal)
    band = np.zeros((m + 1, m * m))
    band[0] = diagonal.ravel()
    band[1].reshape(m, m)[:, :-1] = along
    band[m, :-m] = across.ravel()
    right = np.broadcast_to(source, (m, m)).reshape(-1).astype(np.float64)
    try:
        options = {"lower": True, "overwrite_ab": True, "check_finite": False}
        solved: Array = solveh_banded(band, right, **options)
    except np.linalg.LinAlgError:  # permeabilities over many decades are definite but for rounding
        solved = factorise(permeability).solve(right)
    return solved.reshape(m, m)


def factorise(permeability: Array) -> SuperLU:
    """The sparse LU of A on the interior vertices."""
    diagonal, along, across = _couplings(permeability)
    m = len(diagonal)
    beside = np.zeros((m, m))
    beside[:, :-1] = along
    rows: Any = [diagonal.ravel(), *[beside.ravel()[:-1]] * 2, *[across.ravel()] * 2]
    matrix = sparse.diags_array(rows, offsets=[0, 1, -1, m, -m]).tocsc()
    return splu(
        matrix,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def embed(inner: Array, resolution: int) -> Array:
    """Fields (…, n, n) with zero sides of interior values (…, (n − 2)²)."""
    full = np.zeros((*inner.shape[:-1], resolution, resolution))
    full[..., 1:-1, 1:-1] = inner.reshape(*inner.shape[:-1], resolution - 2, resolution - 2)
    return full


def _couplings(a: Array) -> tuple[Array, Array, Array]:
    """Diagonal (m, m), coupling along the second axis (m, m − 1), along the first (m − 1, m)."""
    scale = 0.5 * (len(a) - 1) ** 2
    across = scale * (a[:-1, 1:-1] + a[1:, 1:-1])
    along = scale * (a[1:-1, :-1] + a[1:-1, 1:])
    diagonal = across[:-1] + across[1:] + along[:, :-1] + along[:, 1:]
    return diagonal, -along[:, 1:-1], -across[1:-1]


@lru_cache(maxsize=8)
def interpolation(coarse: int, fine: int) -> Array:
    """Linear interpolation from `coarse` to `fine` points of [0, 1], (fine, coarse)."""
    where = np.linspace(0.0, coarse - 1.0, fine)
    low = np.minimum(where.astype(int), coarse - 2)
    matrix = np.zeros((fine, coarse))
    matrix[np.arange(fine), low] = 1.0 - (where - low)
    matrix[np.arange(fine), low + 1] += where - low
    return matrix
