"""The gated U-Net: linear in its last channel, shaped by the others."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.errors import InvalidInput
from neuralsolver.models import GatedUNet


@pytest.fixture
def network():
    torch.manual_seed(0)
    return GatedUNet(3, 1, widths=(6, 8, 8)).double().requires_grad_(False)


def test_it_is_linear_in_the_last_channel(network):
    conditions = torch.randn(2, 2, 19, 17, dtype=torch.float64)
    r, s = torch.randn(2, 2, 1, 19, 17, dtype=torch.float64)
    answer = network.prepare(conditions)
    assert torch.allclose(answer(2 * r - 3 * s), 2 * answer(r) - 3 * answer(s), atol=1e-12)
    assert float(answer(0 * r).abs().max()) == 0.0
    assert float(answer(r).abs().max()) > 0.01


def test_prepared_and_at_once_are_the_same(network):
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    assert torch.equal(network.prepare(x[:, :2])(x[:, 2:]), network(x))


def test_the_conditions_matter_far_away(network):
    """A held point changes the answer at the other end: the pyramid carries it there."""
    conditions = torch.zeros(1, 2, 16, 16, dtype=torch.float64)
    other = conditions.clone()
    other[0, 0, 0, 0] = 1.0
    r = torch.randn(1, 1, 16, 16, dtype=torch.float64)
    change = network.prepare(other)(r) - network.prepare(conditions)(r)
    assert float(change[..., -1, -1].abs()) > 1e-8


@pytest.mark.parametrize("arguments", [{"in_channels": 1}, {"widths": ()}, {"widths": (4, 0)}])
def test_what_makes_no_network_is_named(arguments):
    with pytest.raises(InvalidInput):
        GatedUNet(**{"in_channels": 3, "out_channels": 1, **arguments})
