"""The denoising U-Net."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.errors import InvalidInput
from neuralsolver.models import SongUNet, build, name_of

PAPER = {"width": 128, "multipliers": [2, 2, 2], "blocks": 4, "patch": 1}


def small(**changes):
    torch.manual_seed(1)
    arguments = {"width": 8, "multipliers": [1, 2], "patch": 2, **changes}
    return SongUNet(3, 2, **arguments)


@pytest.mark.parametrize("patch", [1, 2])
def test_shapes_and_dependence_on_the_noise_level(patch):
    network = small(patch=patch)
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        one = network(x, torch.tensor([0.1, 0.1]))
        other = network(x, torch.tensor([0.1, -1.0]))
    assert one.shape == (2, 2, 16, 16)
    torch.testing.assert_close(one[0], other[0])
    assert float((one[1] - other[1]).abs().max()) > 1e-4


def test_every_point_reaches_every_other():
    network = small()
    x = torch.randn(1, 3, 16, 16, requires_grad=True)
    network(x, torch.zeros(1))[0, 0, 0, 0].backward()
    assert float(x.grad[0, :, -1, -1].abs().max()) > 0


def test_it_is_rebuilt_from_its_arguments():
    network = small()
    again = build(name_of(network), **network.arguments)
    again.load_state_dict(network.state_dict())
    x = torch.randn(1, 3, 8, 8)
    torch.testing.assert_close(again(x, torch.ones(1)), network(x, torch.ones(1)))


def test_a_grid_that_cannot_be_halved_is_refused():
    with pytest.raises(InvalidInput, match="multiple of 4"):
        small()(torch.zeros(1, 3, 18, 18), torch.zeros(1))


def test_the_papers_size_is_the_papers():
    with torch.device("meta"):
        network = SongUNet(2, 2, **PAPER)
    weights = sum(parameter.numel() for parameter in network.parameters())
    assert 54e6 < weights < 56e6
