"""The estimate of a training: operations are counted right, and nothing is written."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.training.cost_estimate import _MORE, estimate
from neuralsolver.training.presets import scale_named
from neuralsolver.training.run import Training
from tests.networks import restored_registrations


def counted(function) -> int:
    with FlopCounterMode(display=False, custom_mapping=_MORE) as counter:
        function()
    return counter.get_total_flops()


def test_products_and_transforms_are_counted():
    a, b = torch.randn(3, 5, 7), torch.randn(3, 7, 2)
    assert counted(lambda: a @ b) == 2 * 3 * 5 * 7 * 2
    assert counted(lambda: a.cfloat() @ b.cfloat()) == 8 * 3 * 5 * 7 * 2
    x = torch.randn(4, 16, 16)
    assert counted(lambda: torch.fft.fft2(x.cfloat())) == 5 * 4 * 256 * 8
    assert counted(lambda: torch.fft.rfft2(x)) == 5 * 4 * 256 * 8 / 2
    half = torch.fft.rfft2(x)
    assert counted(lambda: torch.fft.irfft2(half)) == 5 * 4 * 256 * 8 / 2


@pytest.fixture
def forgotten():
    with restored_registrations():
        yield


@pytest.mark.usefixtures("forgotten")
def test_an_operator_costs_what_its_layers_cost():
    """One convolution and its gain: forwards, then the gradients of the weights alone."""
    ns.register_backbone("one-layer", lambda i, o: nn.Conv2d(i, o, 3, padding=1))
    training = Training(ns.Poisson(), "backbone-only-one-layer", scale_named("tiny"))
    (row,) = estimate(training)[-1:]
    product = 2 * 9 * row.resolution**2 * row.batch_size
    assert row.flops == 2 * product
    assert row.memory > 0
    assert row.hours(1.0) == pytest.approx(row.batches * row.flops / 1e12 / 3600)
    changes = {"unroll": 0, "batch_size": 2 * row.batch_size}
    twice = replace(training, changes=changes)
    assert estimate(twice)[-1].flops == 2 * row.flops


@pytest.mark.parametrize("recipe", ["contractive", "paper", "fno", "pino", "shapes"])
def test_every_kind_of_recipe_has_an_estimate(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["train", "darcy", "--recipe", recipe, "--scale", "tiny", "--dry-run"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "GFLOP/batch" in head
    assert all(float(re.split(r"\s\s+", row.strip())[-4]) > 0 for row in rows), rows
    assert not list(tmp_path.iterdir())


def test_flows_have_an_estimate():
    rows = estimate(Training(ns.NavierStokes(), "contractive", scale_named("tiny")))
    assert [row.name for row in rows] == ["training", "finish"]
    assert rows[1].flops > rows[0].flops  # it unrolls more corrections
