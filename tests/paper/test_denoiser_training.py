"""Denoisers that go on from weights that exist."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.errors import InvalidInput
from neuralsolver.training import load_model
from neuralsolver.training.checkpoint import read_card
from neuralsolver.training.library import SHIPPED, locate_denoiser
from paper.denoiser_training import train_denoiser


def test_a_training_goes_on_from_shipped_weights(tmp_path):
    start = locate_denoiser("helmholtz-diffusion-ens")
    name = "poisson-diffusion-ens"
    folder = train_denoiser(name, tmp_path, minutes=1e-4, start=start)
    model, card = load_model(folder)
    assert card.equation.name == "poisson"
    assert read_card(folder)["training"]["start"] == "helmholtz-diffusion-ens"
    # the base is the shipped one of the equation, as it was
    base = load_model(SHIPPED / "poisson-palette")[0]
    for own, shipped in zip(model.base.parameters(), base.parameters(), strict=True):
        assert torch.equal(own, shipped)
    # one batch of a warm-up hardly moves what it started from
    assert read_card(folder)["training"]["batches"] >= 1
    first = load_model(start)[0].network.state_dict()
    for key, weight in model.network.state_dict().items():
        torch.testing.assert_close(weight, first[key], rtol=1e-2, atol=1e-3)
    # found again, but not mistaken for one from other weights
    assert train_denoiser(name, tmp_path, start=start) == folder
    with pytest.raises(InvalidInput, match="from helmholtz-diffusion-ens"):
        train_denoiser(name, tmp_path, start=locate_denoiser("darcy-diffusion-ens"))


def test_weights_of_the_wrong_kind_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="a palette"):
        train_denoiser(
            "helmholtz-palette", tmp_path, start=locate_denoiser("helmholtz-diffusion-ens")
        )
    with pytest.raises(InvalidInput, match="a diffusion-ens"):
        train_denoiser("darcy-diffusion-ens", tmp_path, start=locate_denoiser("darcy-palette"))
    with pytest.raises(InvalidInput, match="helmholtz-palette"):
        locate_denoiser("magic")
