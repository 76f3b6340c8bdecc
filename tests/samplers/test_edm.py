"""EDM: schedule, units, and what its sampler makes of an exact denoiser."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.equations import Poisson
from neuralsolver.samplers.edm import (
    SIGMA_DATA,
    Schedule,
    heun_steps,
    initial_noise,
    precondition,
)
from tests.samplers.gaussian import GaussianDenoiser


def test_the_schedule_is_the_papers():
    levels = Schedule(50).levels()
    assert len(levels) == 51
    assert levels[-1] == 0
    assert float(levels[0]) == pytest.approx(80)
    assert float(levels[49]) == pytest.approx(0.002)
    between = (80 ** (1 / 7) + 1 / 49 * (0.002 ** (1 / 7) - 80 ** (1 / 7))) ** 7
    assert float(levels[1]) == pytest.approx(between)


@pytest.mark.parametrize("sigma", [0.01, 0.5, 30.0])
def test_input_and_target_of_the_network_have_unit_size(sigma):
    generator = torch.Generator().manual_seed(1)
    clean, noise = torch.randn(2, 100_000, generator=generator, dtype=torch.float64)
    clean *= SIGMA_DATA
    noisy = clean + sigma * noise
    skip, out, scale, level = precondition(torch.tensor(sigma, dtype=torch.float64))
    assert float((scale * noisy).std()) == pytest.approx(1, rel=0.02)
    assert float(((clean - skip * noisy) / out).std()) == pytest.approx(1, rel=0.02)
    assert float(level) == pytest.approx(torch.tensor(sigma).log().item() / 4, abs=1e-6)


def test_noise_depends_on_the_seed_of_its_sample_only():
    together = initial_noise((2, 4, 4), [3, 4], Schedule())
    alone = initial_noise((2, 4, 4), [4], Schedule())
    assert torch.equal(together[1:], alone)
    assert not torch.equal(together[0], together[1])


def test_heun_steps_with_an_exact_denoiser_draw_from_the_prior():
    denoiser = GaussianDenoiser(Poisson(), 8)
    schedule = Schedule(80)
    x = initial_noise((2, 8, 8), list(range(600)), schedule)
    *_, x = heun_steps(lambda state, sigma: denoiser(state, sigma, None), x, schedule)
    modes = x.flatten(1) @ denoiser.vectors
    large = denoiser.values > 1e-3
    assert int(large.sum()) > 20
    ratio = modes[:, large].square().mean(0) / denoiser.values[large]
    # 600 draws: a standard deviation of 0.058
    assert float((ratio - 1).abs().max()) < 0.25
    assert abs(float(ratio.mean()) - 1) < 0.05
