"""A plain module as backbone; a callback; a device."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import neuralsolver as ns
from neuralsolver.equations.advection_diffusion import AdvectionDiffusion
from neuralsolver.models import build
from tests.networks import restored_registrations


def plain(channels: int, fields: int) -> nn.Module:
    return nn.Conv2d(channels, fields, 3, padding=1)


@pytest.fixture
def registered():
    with restored_registrations():
        yield ns.register_backbone("plain", plain)


def test_a_corrector_begins_by_answering_zero(registered):
    x = torch.randn(2, 3, 8, 8)
    assert not build("plain", in_channels=3, out_channels=1, zero_output=True)(x).any()
    assert build("plain", in_channels=3, out_channels=1)(x).any()


@pytest.mark.parametrize("recipe", ["contractive", "paper", "backbone-only"])
def test_it_is_trained_and_loaded(registered, recipe, tmp_path):
    heard = []
    solver = ns.train(
        ns.Poisson(), recipe=f"{recipe}-plain", scale="tiny", runs=tmp_path, data=tmp_path,
        batches=4, device="cpu", progress=False, callback=lambda *told: heard.append(told),
    )  # fmt: skip
    stages = {stage for stage, _, _ in heard}
    assert "training" in stages
    assert heard[-1][1] == 1.0
    assert heard[-1][2].losses
    (card,) = tmp_path.rglob("card.json")
    again = ns.load(card.parent)
    first, second = (found.network.state_dict() for found in (solver, again))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert ns.register_backbone("plain", plain) == registered  # twice is once


def test_names_and_modules_are_checked(registered):
    with pytest.raises(ns.InvalidInput, match="does not use"):
        ns.register_backbone("fno", plain)
    ns.register_backbone("plain", lambda channels, fields: torch.sin)
    with pytest.raises(ns.InvalidInput, match=r"torch\.nn\.Module"):
        build("plain", in_channels=1, out_channels=1)


def test_a_device_that_is_not_there(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ns.InvalidInput, match="--device"):
        ns.train(ns.Poisson(), scale="tiny", runs=tmp_path, data=tmp_path, device="cuda")


def test_an_equation_that_no_loaded_model_could_name_is_refused_before_training(tmp_path):
    with pytest.raises(ns.InvalidInput, match="advection-diffusion"):
        ns.train(AdvectionDiffusion(), scale="tiny", batches=1, runs=tmp_path, data=tmp_path)
    assert not list(tmp_path.iterdir())


class ComplexWeights(nn.Module):
    """As neuraloperator's: complex weights, arguments in its state, optional ones of forward."""

    def __init__(self, channels: int, fields: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, fields, 3, 3, dtype=torch.cfloat) / 3)

    def state_dict(self, *arguments, **options):
        state = super().state_dict(*arguments, **options)
        state["_metadata"] = {"channels": 1}
        return state

    def forward(self, x, output_shape=None, **options):
        spectrum = torch.fft.rfft2(x, norm="forward")
        out = torch.zeros(len(x), self.weight.shape[1], *spectrum.shape[2:], dtype=torch.cfloat)
        out[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :3, :3], self.weight)
        return torch.fft.irfft2(out, s=x.shape[2:], norm="forward")


def test_a_network_with_complex_weights_needs_no_adapter(tmp_path):
    with restored_registrations():
        recipe = ns.register_backbone("complex", ComplexWeights)[0]
        solver = ns.train(
            ns.Poisson(), recipe=recipe, scale="tiny", runs=tmp_path, data=tmp_path, batches=4,
            ema=0.9, device="cpu", progress=False,
        )  # fmt: skip
        again = ns.load(next(tmp_path.rglob("card.json")).parent)
        first, second = (found.network.state_dict() for found in (solver, again))
        assert first["corrector.inner.weight"].is_complex()
        assert all(torch.equal(first[name], second[name]) for name in first)
