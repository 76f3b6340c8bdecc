"""Random fields: the same function at every resolution, with the stated covariance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsolver.errors import InvalidInput
from neuralsolver.reference import cosine_field, periodic_field, two_phase
from neuralsolver.reference.random_fields import (
    COSINE_MODES,
    PERIODIC_MODES,
    cosine_variance,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_cosine_field_is_its_series_at_the_vertices() -> None:
    normals = rng(3).standard_normal((COSINE_MODES, COSINE_MODES))
    p, q = np.meshgrid(np.arange(COSINE_MODES), np.arange(COSINE_MODES), indexing="ij")
    amplitude = 3.0 / (np.pi**2 * (p**2 + q**2) + 9.0)
    amplitude[0, 0] = 0.0
    scale = np.where(p > 0, np.sqrt(2), 1) * np.where(q > 0, np.sqrt(2), 1)
    field = cosine_field(rng(3), 128)
    for i, j in [(0, 0), (5, 90), (127, 64)]:
        cosines = np.cos(p * np.pi * i / 127) * np.cos(q * np.pi * j / 127)
        assert field[i, j] == pytest.approx(
            np.sum(amplitude * normals * scale * cosines), abs=1e-12
        )


@pytest.mark.parametrize(("coarse", "fine"), [(65, 129), (33, 129), (128, 255)])
def test_cosine_field_agrees_on_nested_grids(coarse: int, fine: int) -> None:
    stride = (fine - 1) // (coarse - 1)
    shared = cosine_field(rng(1), fine)[::stride, ::stride]
    np.testing.assert_allclose(cosine_field(rng(1), coarse), shared, rtol=0, atol=1e-13)


@pytest.mark.parametrize("fine", [256, 384])
def test_periodic_field_agrees_on_nested_grids(fine: int) -> None:
    shared = periodic_field(rng(1), fine)[:: fine // 128, :: fine // 128]
    np.testing.assert_allclose(periodic_field(rng(1), 128), shared, rtol=0, atol=1e-13)


@pytest.mark.parametrize("coarse", [32, 64, 33])
def test_a_coarse_periodic_field_is_the_projection_of_the_fine_one(coarse: int) -> None:
    full = np.fft.fft2(periodic_field(rng(1), 256), norm="forward")
    small = np.fft.fft2(periodic_field(rng(1), coarse), norm="forward")
    modes = np.arange(1 - (coarse + 1) // 2, (coarse + 1) // 2)
    kept = np.ix_(modes, modes)
    np.testing.assert_allclose(small[kept], full[kept], rtol=0, atol=1e-15)
    small[kept] = 0.0
    assert np.abs(small).max() < 1e-15


def test_both_resolutions_leave_the_generator_in_the_same_state() -> None:
    first, second = rng(), rng()
    cosine_field(first, 17), periodic_field(first, 16)
    cosine_field(second, 200), periodic_field(second, 200)
    assert first.bit_generator.state == second.bit_generator.state


def test_axes_are_x_then_y() -> None:
    """A field whose only mode is p = 1 varies along the first axis."""

    class OneMode(np.random.Generator):
        def standard_normal(self, size=None, *args, **kwargs):  # type: ignore[no-untyped-def]
            normals = np.zeros(size)
            normals[1, 0] = 1.0
            return normals

    field = cosine_field(OneMode(np.random.PCG64()), 9)
    assert np.ptp(field, axis=0).min() > 0.1
    assert np.ptp(field, axis=1).max() < 1e-15


def test_cosine_coefficients_have_the_stated_covariance() -> None:
    """Cosine coefficients of 400 fields, read off by quadrature, against σ_pq²."""
    generator, n, count = rng(7), 257, 400
    x = np.arange(n) / (n - 1)
    weight = np.full(n, 1.0 / (n - 1))
    weight[[0, -1]] *= 0.5
    basis = np.sqrt(2) * np.cos(np.pi * np.outer(np.arange(4), x))
    basis[0] = 1.0
    basis *= weight
    found = np.array([basis @ cosine_field(generator, n) @ basis.T for _ in range(count)])
    p = np.arange(4)
    expected = 9.0 / (np.pi**2 * (p[:, None] ** 2 + p**2) + 9.0) ** 2
    expected[0, 0] = 0.0
    assert np.abs(found[:, 0, 0]).max() < 1e-12
    ratio = (found**2).mean(axis=0).ravel()[1:] / expected.ravel()[1:]
    # The mean of 400 squared normals has standard deviation √(2/400) = 0.07.
    assert np.abs(ratio - 1.0).max() < 4.0 * 0.071
    correlation = np.corrcoef(found.reshape(count, -1)[:, 1:].T) - np.eye(15)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(count)


def test_mean_squares_are_those_of_the_series() -> None:
    generator = rng(0)
    static = np.mean([np.mean(cosine_field(generator, 64) ** 2) for _ in range(300)])
    assert static == pytest.approx(cosine_variance(), rel=0.12)
    assert cosine_variance() == pytest.approx(0.0853, abs=1e-4)
    flows = np.mean([np.mean(periodic_field(generator, 64) ** 2) for _ in range(300)])
    assert np.sqrt(flows) == pytest.approx(0.262, rel=0.05)


def test_periodic_spectrum_follows_the_stated_law() -> None:
    generator = rng(5)
    power = np.mean(
        [np.abs(np.fft.fft2(periodic_field(generator, 128), norm="forward")) ** 2
         for _ in range(200)], axis=0,
    )  # fmt: skip
    k = np.fft.fftfreq(128, 1 / 128)
    squared = k[:, None] ** 2 + k**2
    inside = (np.abs(k[:, None]) < PERIODIC_MODES) & (np.abs(k) < PERIODIC_MODES) & (squared > 0)
    # Re picks up each mode and its mirror image, half each: E|ŵ_k|² = σ_k².
    law = 2.0 * 7.0**3 * (4 * np.pi**2 * squared + 49.0) ** -2.5
    for low, high in [(1, 4), (4, 12), (12, 30), (30, 60)]:
        ring = inside & (squared >= low**2) & (squared < high**2)
        assert np.mean(power[ring] / law[ring]) == pytest.approx(1.0, abs=0.12)
    assert power[~inside].max() < 1e-30


@given(st.integers(3, 70), st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_fields_are_real_finite_and_reproducible(n: int, seed: int) -> None:
    for field in (cosine_field, periodic_field):
        first = field(rng(seed), n)
        assert first.shape == (n, n)
        assert first.dtype == np.float64
        assert np.isfinite(first).all()
        assert first.tobytes() == field(rng(seed), n).tobytes()
    assert abs(periodic_field(rng(seed), n).mean()) < 1e-14


def test_two_phase_takes_high_at_zero() -> None:
    np.testing.assert_array_equal(two_phase([-0.1, 0.0, 2.0], 3.0, 12.0), [3.0, 12.0, 12.0])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"resolution": 2}, "resolution"),
        ({"resolution": 8, "smoothness": 1.0}, "smoothness"),
        ({"resolution": 8, "inverse_length": float("nan")}, "inverse_length"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, float], field: str) -> None:
    for sample in (cosine_field, periodic_field):
        with pytest.raises(InvalidInput, match=f"^{field}: expected"):
            sample(rng(), **arguments)  # type: ignore[arg-type]
