"""Vorticity solver: exact flows, measured orders, conservation, symmetry, tolerance kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsolver.errors import InvalidInput, ReferenceFailure
from neuralsolver.reference import (
    diagonal_forcing,
    integrate,
    kolmogorov_forcing,
    periodic_field,
)
from neuralsolver.reference.vorticity import Flow


def start(n: int, count: int = 1, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([periodic_field(generator, n) for _ in range(count)])


def grid(n: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(n) / n
    return x[:, None], x[None, :]


def distance(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def test_taylor_green_vortex_decays() -> None:
    x, y = grid(16)
    w = np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y)
    viscosity, times = 0.01, [0.1, 0.25]
    frames = integrate(w[None], np.zeros((16, 16)), viscosity, times)
    for frame, t in zip(frames[0], times, strict=True):
        exact = np.exp(-8 * np.pi**2 * viscosity * t) * w
        assert distance(frame, exact) < 1e-13


def test_a_forced_shear_flow_has_its_exact_solution() -> None:
    """−A cos 2πky drives w = −A (1 − exp(−νκ²t)) / (νκ²) cos 2πky, which does not advect itself."""
    viscosity, rate = 5e-3, 5e-3 * (8 * np.pi) ** 2
    forcing = kolmogorov_forcing(32)
    frame = integrate(np.zeros((1, 32, 32)), forcing, viscosity, [0.5], tolerance=1e-11)[0, 0]
    assert distance(frame, forcing * (1 - np.exp(-0.5 * rate)) / rate) < 1e-10


def test_a_steady_flow() -> None:
    """w = f / (νκ²) stands still."""
    viscosity, forcing = 5e-3, kolmogorov_forcing(32)
    steady = forcing / (viscosity * (8 * np.pi) ** 2)
    frame = integrate(steady[None], forcing, viscosity, [0.2], step=0.05)[0, 0]
    assert distance(frame, steady) < 1e-6


def test_a_rotating_flow_advects_as_computed_by_finite_differences() -> None:
    """dw/dt at t = 0 of two crossed waves against v·∇w worked out by hand."""
    x, y = grid(32)
    tau = 2 * np.pi
    w = np.sin(tau * x) + np.cos(2 * tau * y)
    # ψ = sin(τx)/τ² + cos(2τy)/4τ²; v = (ψ_y, −ψ_x) = (−sin(2τy)/2τ, −cos(τx)/τ)
    a, b = -np.sin(2 * tau * y) / (2 * tau), -np.cos(tau * x) / tau
    advection = a * tau * np.cos(tau * x) + b * (-2 * tau * np.sin(2 * tau * y))
    viscosity, dt = 1e-3, 1e-5
    diffusion = -viscosity * (tau**2 * np.sin(tau * x) + 4 * tau**2 * np.cos(2 * tau * y))
    frame = integrate(w[None], np.zeros((32, 32)), viscosity, [dt], step=dt)[0, 0]
    np.testing.assert_allclose((frame - w) / dt, diffusion - advection, atol=1e-4)


def test_fourth_order_in_time() -> None:
    w, forcing = 5.0 * start(32), kolmogorov_forcing(32, wavenumber=2)
    truth = integrate(w, forcing, 1e-3, [0.4], tolerance=1e-13)
    steps = [0.05, 0.025, 0.0125, 0.00625]
    errors = [distance(integrate(w, forcing, 1e-3, [0.4], step=h), truth) for h in steps]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 4.0) < 0.25).all()


def test_spectral_accuracy_in_space() -> None:
    """An analytic flow on 32, 48 and 64 points: the error falls faster than any power."""

    def flow(n: int) -> np.ndarray:
        x, y = grid(n)
        w = np.exp(np.sin(2 * np.pi * x) + np.cos(2 * np.pi * (y - 0.2)))
        w = (w - w.mean())[None]
        frame: np.ndarray = integrate(w, diagonal_forcing(n), 5e-3, [0.3], tolerance=1e-12)[0, 0]
        return frame

    truth = flow(192)
    errors = [distance(flow(n), truth[:: 192 // n, :: 192 // n]) for n in (24, 48, 96)]
    assert errors[0] < 1e-2
    assert errors[1] < 1e-2 * errors[0]
    assert errors[2] < 1e-2 * errors[1]


@pytest.mark.parametrize("forcing", [diagonal_forcing(64), kolmogorov_forcing(64)])
@pytest.mark.parametrize("tolerance", [1e-5, 1e-8])
def test_the_tolerance_is_kept(forcing: np.ndarray, tolerance: float) -> None:
    w, times = start(64), [0.5, 2.0]
    truth = integrate(w, forcing, 5e-4, times, step=2.5e-3)
    error = distance(integrate(w, forcing, 5e-4, times, tolerance=tolerance), truth)
    assert 1e-3 * tolerance < error < tolerance


def test_mean_energy_and_enstrophy() -> None:
    """Without viscosity worth the name and forcing, both quadratic invariants hold."""
    w = start(48) + 0.3
    frame = integrate(w, np.zeros((48, 48)), 1e-12, [1e-9, 1.0], tolerance=1e-10)[0]
    assert frame.mean(axis=(1, 2)) == pytest.approx([0.3, 0.3], abs=1e-14)
    enstrophy = (frame**2).mean(axis=(1, 2))
    assert enstrophy[1] == pytest.approx(enstrophy[0], rel=1e-9)
    k = 2 * np.pi * np.fft.fftfreq(48, 1 / 48)
    squared = k[:, None] ** 2 + k**2
    squared[0, 0] = np.inf
    energy = (np.abs(np.fft.fft2(frame)) ** 2 / squared).sum(axis=(1, 2))
    assert energy[1] == pytest.approx(energy[0], rel=1e-9)
    assert distance(frame[1], frame[0]) > 0.01


@given(st.integers(0, 31), st.integers(0, 31), st.integers(0, 100))
@settings(max_examples=10, deadline=None)
def test_translation_equivariance(i: int, j: int, seed: int) -> None:
    def shift(field: np.ndarray) -> np.ndarray:
        return np.roll(field, (i, j), axis=(-2, -1))

    w, forcing = start(32, seed=seed), diagonal_forcing(32)
    frame = integrate(w, forcing, 1e-3, [0.3])
    np.testing.assert_allclose(
        integrate(shift(w), shift(forcing), 1e-3, [0.3]), shift(frame), atol=1e-12
    )


def test_transposition_reverses_the_spin() -> None:
    """Reflection in the diagonal maps w to −wᵀ: the axes are x then y and no sign is lost."""
    w, forcing = start(32), kolmogorov_forcing(32)
    frame = integrate(w, forcing, 1e-3, [0.5])
    mirrored = integrate(-w.swapaxes(1, 2), -forcing.T, 1e-3, [0.5])
    np.testing.assert_allclose(mirrored, -frame.swapaxes(2, 3), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"step": 0.05}])
def test_a_sample_has_the_same_bits_alone_and_in_a_batch(options: dict[str, object]) -> None:
    w, forcing = start(32, 16), kolmogorov_forcing(32)
    batch = integrate(w, forcing, 1e-3, [0.0, 0.31], **options)  # type: ignore[arg-type]
    for i in range(16):
        alone = integrate(w[i : i + 1], forcing, 1e-3, [0.0, 0.31], **options)  # type: ignore[arg-type]
        assert batch[i].tobytes() == alone[0].tobytes()


def test_work_space_is_not_read_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinity stands for what may be in memory: transforming it is a warning, hence an error."""
    w, forcing = start(16), kolmogorov_forcing(16, wavenumber=2)
    expected = integrate(w, forcing, 1e-3, [0.1])
    allocate, filled = np.empty, []

    def used(shape: Any, dtype: Any = float, **more: Any) -> np.ndarray:
        array: np.ndarray = allocate(shape, dtype, **more)
        if array.dtype.kind in "fc":
            array[...] = np.inf
            filled.append(array.shape)
        return array

    monkeypatch.setattr(np, "empty", used)
    flow = Flow(16, 1e-3, forcing)
    np.testing.assert_allclose(flow.to_points(flow.forcing), forcing, atol=1e-14)
    assert integrate(w, forcing, 1e-3, [0.1]).tobytes() == expected.tobytes()
    assert filled


def test_recording() -> None:
    w, forcing = start(32), diagonal_forcing(32)
    w = integrate(w, forcing, 1e-3, [0.0])[:, 0]
    frames = integrate(w, forcing, 1e-3, [0.0, 0.5, 1.0])
    assert frames.shape == (1, 3, 32, 32)
    np.testing.assert_allclose(frames[:, 0], w, atol=1e-15)
    continued = integrate(frames[:, 1], forcing, 1e-3, [0.5])
    np.testing.assert_allclose(continued[0, 0], frames[0, 2], atol=1e-7)
    again = integrate(w, forcing, 1e-3, [0.5, 1.0])
    np.testing.assert_allclose(again, frames[:, 1:], atol=1e-7)


def test_the_initial_field_is_projected_onto_the_dealiased_modes() -> None:
    noise = np.random.default_rng(0).standard_normal((1, 32, 32))
    frame = integrate(noise, np.zeros((32, 32)), 1e-3, [0.0])[0, 0]
    spectrum, kept = np.fft.fft2(noise[0]), np.abs(np.fft.fftfreq(32, 1 / 32)) <= 10
    np.testing.assert_allclose(np.fft.fft2(frame), spectrum * np.outer(kept, kept), atol=1e-12)


def test_forcings() -> None:
    x, y = grid(16)
    phase = 2 * np.pi * (x + y)
    np.testing.assert_allclose(diagonal_forcing(16), 0.1 * (np.sin(phase) + np.cos(phase)))
    np.testing.assert_allclose(
        kolmogorov_forcing(16, wavenumber=2), -4 * np.cos(4 * np.pi * y) * np.ones_like(x)
    )


def test_failures_are_said() -> None:
    w, forcing = 1e4 * start(32), diagonal_forcing(32)
    with pytest.raises(ReferenceFailure, match="not finite at t = 5"):
        integrate(w, forcing, 1e-4, [5.0], step=0.5)
    with pytest.raises(ReferenceFailure, match="tolerance 1e-30"):
        integrate(w, forcing, 1e-4, [5.0], tolerance=1e-30)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"initial": np.zeros((1, 9, 9)), "forcing": np.zeros((9, 9))}, "resolution"),
        ({"initial": np.zeros((1, 6, 6)), "forcing": np.zeros((6, 6))}, "resolution"),
        ({"initial": np.zeros((16, 16))}, "initial"),
        ({"initial": np.full((1, 16, 16), np.nan)}, "initial"),
        ({"forcing": np.zeros((8, 8))}, "forcing"),
        ({"forcing": np.full((16, 16), np.inf)}, "forcing"),
        ({"viscosity": 0.0}, "viscosity"),
        ({"viscosity": np.nan}, "viscosity"),
        ({"times": []}, "times"),
        ({"times": [1.0, 1.0]}, "times"),
        ({"times": [-0.5]}, "times"),
        ({"times": [np.nan]}, "times"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"step": -1.0}, "step"),
    ],
)
def test_bad_input_is_named(changes: dict[str, object], field: str) -> None:
    arguments: dict[str, object] = {
        "initial": np.zeros((1, 16, 16)),
        "forcing": np.zeros((16, 16)),
        "viscosity": 1e-3,
        "times": [1.0],
    }
    with pytest.raises(InvalidInput, match=f"^{field}: expected"):
        integrate(**(arguments | changes))  # type: ignore[arg-type]
