"""Denoisers: their batches, their training and their files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from neuralsolver.equations import Darcy, Poisson
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.models import SongUNet
from neuralsolver.samplers import Denoiser, ErrorConditionedDenoiser
from neuralsolver.samplers.diffusion_ens import ERROR_CHANNELS
from neuralsolver.samplers.palette import PALETTE_CHANNELS
from neuralsolver.training import Card, Plan, fit, load, load_model, save_model
from paper.denoiser_training import ObservedInstances, denoising, measure_sizes, widen

N = 16
SIZE = {"width": 8, "multipliers": (1, 2), "patch": 2}


def denoiser(equation):
    torch.manual_seed(1)
    return Denoiser(SongUNet(PALETTE_CHANNELS, 2, **SIZE), measure_sizes(equation, N))


def conditioned(equation, name=""):
    base = denoiser(equation)
    wider = SongUNet(ERROR_CHANNELS, 2, **SIZE)
    widen(base.network, wider)
    return ErrorConditionedDenoiser(base, wider, name)


@pytest.mark.parametrize("equation", [Poisson(), Darcy()], ids=lambda e: e.name)
def test_batches_have_unit_size_and_are_the_same_whenever_asked(equation):
    source = ObservedInstances(equation, N, measure_sizes(equation, N))
    batches = [source.draw(3, number, range(32)) for number in (5, 5, 6)]
    assert torch.equal(batches[0].clean, batches[1].clean)
    assert torch.equal(batches[0].noise, batches[1].noise)
    assert not torch.equal(batches[0].clean, batches[2].clean)
    deviations = torch.cat([b.clean for b in batches[1:]]).square().mean((0, 2, 3)).sqrt()
    assert ((deviations > 0.25) & (deviations < 1.0)).all()
    counts = torch.cat([b.told.counts for b in batches])
    assert int((counts == 0).sum()) > 0
    assert int(counts.max()) <= N * N // 4
    # a pair that was drawn decodes to a solution
    u = batches[0].told.decode(batches[0].clean)[1]
    assert float(u[:, :, 0].abs().max()) == 0


def test_the_shares_of_two_processes_are_the_batch():
    source = ObservedInstances(Poisson(), N, measure_sizes(Poisson(), N))
    whole = source.draw(1, 2, range(8))
    parts = [source.draw(1, 2, share) for share in (range(4), range(4, 8))]
    torch.testing.assert_close(torch.cat([p.clean for p in parts]), whole.clean)


def test_training_lowers_the_loss_and_resumes(tmp_path):
    source = ObservedInstances(Poisson(), N, measure_sizes(Poisson(), N))
    fixed = source.draw(99, 0, range(64))

    def loss(model):
        with torch.no_grad():
            return float(next(denoising(model, fixed)))

    def plan(batches):
        return Plan(objective="denoising", batches=batches, batch_size=8, warmup=5, ema=0.9)

    model = denoiser(Poisson())
    before = loss(model)
    record = fit(model, source, plan(40), tmp_path / "run")
    assert record.batches == 40
    assert loss(model) < 0.93 * before
    again = denoiser(Poisson())
    assert fit(again, source, plan(40), tmp_path / "run").batches == 40
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_only_the_second_network_of_diffusion_ens_learns(tmp_path):
    model = conditioned(Poisson())
    base = [p.clone() for p in model.base.parameters()]
    source = ObservedInstances(Poisson(), N, model.sizes)
    fit(model, source, Plan(objective="denoising", batches=2, batch_size=4), tmp_path)
    for one, other in zip(base, model.base.parameters(), strict=True):
        assert torch.equal(one, other)
    assert float(model.network.projection.convolution.weight.detach().abs().max()) > 0


def test_models_come_back_from_their_folders(tmp_path):
    model = conditioned(Poisson(), "p-palette")
    with torch.no_grad():
        model.network.projection.convolution.weight.normal_(std=0.1)
    save_model(tmp_path / "p-palette", model.base, Card(Poisson(), N, {}))
    save_model(tmp_path / "p-ens", model, Card(Poisson(), N, {"note": 1}))
    again, card = load_model(tmp_path / "p-ens")
    assert isinstance(again, ErrorConditionedDenoiser)
    assert (card.equation, card.record) == (Poisson(), {"note": 1})
    batch = ObservedInstances(Poisson(), N, again.sizes).draw(1, 1, range(4))
    with torch.no_grad():
        got, want = (m(batch.clean, batch.sigma, batch.told) for m in (again, model))
    torch.testing.assert_close(got, want)
    assert json.loads((tmp_path / "p-palette" / "card.json").read_text())["kind"] == "denoiser"
    with pytest.raises(InvalidInput, match="the denoiser"):
        load(tmp_path / "p-palette")
    (tmp_path / "p-palette" / "model.safetensors").write_bytes(b"")
    with pytest.raises(FileDamaged):
        load_model(tmp_path / "p-ens")


def test_half_precision_is_for_the_disk_only(tmp_path):
    model = denoiser(Poisson())
    save_model(tmp_path / "half", model, Card(Poisson(), N, {}), half=True)
    save_model(tmp_path / "full", model, Card(Poisson(), N, {}))
    sizes = [(tmp_path / k / "model.safetensors").stat().st_size for k in ("half", "full")]
    assert sizes[0] < 0.6 * sizes[1]
    again = load_model(tmp_path / "half")[0]
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert other.dtype == torch.float32
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-3, atol=1e-4)
