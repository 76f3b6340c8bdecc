"""Vorticity on the unit torus, discrete in space.

Fourier modes |k_x|, |k_y| ≤ K with 3K < n (the 2/3 rule: products are free of aliasing), stored as
a (2K + 1, K + 1) half spectrum. With v = (a, b) = (∂ψ/∂y, −∂ψ/∂x), −Δψ = w and zero mean flow,

    v·∇w = (∂²/∂x² − ∂²/∂y²)(a b) − ∂²/∂x∂y (a² − b²),

which costs four real transforms instead of the five of v·∇w itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuralsolver.cancellation import checkpoint

Array = npt.NDArray[np.float64]
Spectrum = npt.NDArray[np.complex128]


class Flow:
    """The semi-discrete equation dw/dt = νΔw + N(w) on the kept modes, (2K + 1, K + 1) complex."""

    def __init__(self, resolution: int, viscosity: float, forcing: Array) -> None:
        self.resolution = resolution
        self.kept = (resolution - 1) // 3
        one_sided = np.arange(self.kept + 1)
        two_sided = np.concatenate([one_sided, np.arange(-self.kept, 0)])
        k_x, k_y = 2.0 * np.pi * two_sided[:, None], 2.0 * np.pi * one_sided
        squared = k_x**2 + k_y**2
        self.decay = viscosity * squared
        inverse = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0.0)
        self._velocity = np.stack([1j * k_y * inverse, -1j * k_x * inverse])
        self._advection = np.stack([-k_x * k_y, k_x**2 - k_y**2])
        # Work space. Fresh arrays of this size come from the operating system page by page, which
        # costs three times the transforms themselves.
        columns = resolution // 2 + 1
        self._wide = np.zeros((2, resolution, self.kept + 1), dtype=np.complex128)
        self._half = np.zeros((2, resolution, columns), dtype=np.complex128)
        self._spectra = np.empty((2, resolution, columns), dtype=np.complex128)
        self._points = np.empty((2, resolution, resolution))
        # zero, because one field alone is transformed together with whatever is in the other half
        self._products = np.zeros((2, resolution, resolution))
        self.forcing = self.to_modes(forcing)

    def to_modes(self, points: Array) -> Spectrum:
        """The kept modes of one real field (n, n)."""
        self._products[0] = points
        modes: Spectrum = self._modes_of_products()[0]
        return modes

    def to_points(self, modes: Spectrum) -> Array:
        """The real field (n, n) of the kept modes."""
        points: Array = self._points_of(modes)[0].copy()
        return points

    def tendency(self, modes: Spectrum) -> Spectrum:
        """N(w) = f − v·∇w."""
        checkpoint()
        a, b = self._points_of(self._velocity * modes)
        product, difference = self._products[1], self._products[0]
        np.multiply(a, b, out=product)
        np.add(a, b, out=difference)
        a -= b
        difference *= a
        stresses = self._modes_of_products()
        stresses *= self._advection
        result: Spectrum = stresses[0]
        result += stresses[1]
        result += self.forcing
        return result

    def _points_of(self, modes: Spectrum) -> Array:
        kept, wide = self.kept, self._wide
        wide[:, : kept + 1] = modes[..., : kept + 1, :]
        wide[:, -kept:] = modes[..., kept + 1 :, :]
        np.fft.ifft(wide, axis=1, norm="forward", out=self._half[..., : kept + 1])
        np.fft.irfft(self._half, self.resolution, axis=2, norm="forward", out=self._points)
        return self._points

    def _modes_of_products(self) -> Spectrum:
        kept = self.kept
        np.fft.rfft(self._products, axis=2, norm="forward", out=self._spectra)
        full = np.fft.fft(self._spectra[..., : kept + 1], axis=1, norm="forward", out=self._wide)
        modes: Spectrum = np.concatenate([full[:, : kept + 1], full[:, -kept:]], axis=1)
        self._wide[:, kept + 1 : -kept] = 0.0
        return modes


def norm(modes: Spectrum) -> float:
    """The L² norm of the field, columns 1 … K counting twice for their mirror images."""
    energy = 2.0 * np.sum(modes.real**2 + modes.imag**2, axis=0)
    return float(np.sqrt(np.sum(energy) - 0.5 * energy[0]))
