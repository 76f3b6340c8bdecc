"""scOT: windows and their inverse, what a shift may mix, its own grid, its sizes, its clock."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from neuralsolver.errors import InvalidInput
from neuralsolver.models import build, name_of
from paper.baselines.poseidon import Poseidon
from paper.baselines.scot import SIZES, Merge, ScOT, Split, resampled
from paper.baselines.swin import (
    SwinBlock,
    TimeNorm,
    WindowAttention,
    partition,
    sides_apart,
    unite,
)

SMALL: dict[str, Any] = {
    "image_size": 16,
    "patch": 2,
    "width": 8,
    "depths": [2, 2],
    "heads": [2, 4],
    "skips": [1, 0],
    "window": 4,
}


def awake(network: torch.nn.Module) -> torch.nn.Module:
    """The network as after training: no branch is close to zero any more."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return network.double().eval()


def field(count: int = 2, channels: int = 1, points: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    shape = (count, channels, points, points)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("size", "millions"), [("T", 20.8), ("B", 157.7), ("L", 628.6)])
def test_the_published_sizes_have_the_published_numbers_of_weights(size, millions):
    with torch.device("meta"):
        network = ScOT(4, 4, **SIZES[size])
    count = sum(parameter.numel() for parameter in network.parameters())
    assert round(count / 1e6, 1) == millions


def test_windows_are_squares_of_neighbours_and_come_back():
    place = torch.arange(6 * 9.0).view(1, 6, 9, 1)
    windows = partition(place, 3)
    assert windows.shape == (6, 9, 1)
    assert windows[1, :, 0].tolist() == [3, 4, 5, 12, 13, 14, 21, 22, 23]
    v = field(2, 5, 12).movedim(1, -1)
    assert torch.equal(unite(partition(v, 4), 12, 12), v)


def test_a_shift_hides_exactly_what_was_not_near():
    rows, window, shift = 8, 4, 2
    apart = sides_apart(rows, rows, window, shift)
    line = torch.arange(rows)
    place = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)[None]
    shifted = partition(torch.roll(place, (-shift, -shift), (1, 2)), window)
    # in a window of neighbours no two places are further apart than its side
    distance = (shifted[:, :, None] - shifted[:, None, :]).abs().amax(-1)
    assert torch.equal(apart, distance >= window)
    assert not apart[0].any()
    assert apart[-1].any()


def slow_attention(attention: WindowAttention, tokens: Tensor, side: int) -> Tensor:
    """One window, pair by pair, from the words of the definition."""
    width, heads = tokens.shape[-1], attention.heads
    each = width // heads
    q, k, v = (
        f(tokens).view(-1, heads, each) for f in (attention.query, attention.key, attention.value)
    )
    answer = torch.zeros_like(v)
    for head in range(heads):
        temperature = min(100.0, math.exp(float(attention.logit_scale[head])))
        for i in range(len(tokens)):
            logits = []
            for j in range(len(tokens)):
                steps = (i // side - j // side, i % side - j % side)
                near = [8 * step / (side - 1) for step in steps]
                place = [math.copysign(math.log2(1 + abs(x)) / 3, x) for x in near]
                bias = attention.position(torch.tensor(place, dtype=tokens.dtype))[head]
                cosine = torch.cosine_similarity(q[i, head], k[j, head], dim=0)
                logits.append(temperature * cosine + 16 * torch.sigmoid(bias))
            answer[i, head] = torch.stack(logits).softmax(0) @ v[:, head]
    return attention.output(answer.flatten(1))


@pytest.mark.parametrize("scale", [0.0, 9.0], ids=["free", "beyond the largest"])
def test_attention_is_that_of_the_formula(scale):
    attention = awake(WindowAttention(6, 2))
    attention.logit_scale.data += scale
    tokens = field(1, 6, 3)[0].flatten(1).T
    with torch.no_grad():
        expected = slow_attention(attention, tokens, 3)
        assert torch.allclose(attention(tokens[None], None)[0], expected, atol=1e-12)


@pytest.mark.parametrize("shift", [0, 2])
def test_a_block_looks_as_far_as_its_window(shift):
    block = awake(SwinBlock(4, 2, 4, shift, 2))
    v, time = field(1, 4, 8).movedim(1, -1), torch.ones(1, 1, dtype=torch.float64)
    changed = v.clone()
    changed[0, 3, 4] += 1.0
    with torch.no_grad():
        moved = (block(changed, time) - block(v, time)).abs().amax(-1)[0] > 1e-12
    expected = torch.zeros(8, 8, dtype=torch.bool)
    rows, columns = ((2, 6), (2, 6)) if shift else ((0, 4), (4, 8))
    expected[slice(*rows), slice(*columns)] = True
    assert torch.equal(moved, expected)


def test_a_grid_of_one_window_is_not_shifted():
    v, time = field(1, 4, 4).movedim(1, -1), torch.ones(1, 1, dtype=torch.float64)
    shifted, plain = awake(SwinBlock(4, 2, 4, 2, 2)), awake(SwinBlock(4, 2, 4, 0, 2))
    with torch.no_grad():
        assert torch.equal(shifted(v, time), plain(v, time))


def test_the_norm_follows_the_time_of_each_sample():
    norm = awake(TimeNorm(3))
    v = field(2, 3, 2).movedim(1, -1)
    with torch.no_grad():
        both = norm(v, torch.tensor([[0.2], [0.9]], dtype=torch.float64))
        for number, time in enumerate((0.2, 0.9)):
            centred = v[number] - v[number].mean(-1, keepdim=True)
            normal = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            scale = norm.scale.weight[:, 0] * time + norm.scale.bias
            shift = norm.shift.weight[:, 0] * time + norm.shift.bias
            assert torch.allclose(both[number], scale * normal + shift)


def test_merging_and_splitting_put_the_places_where_the_weights_expect_them():
    place = torch.arange(16.0).view(1, 4, 4, 1)
    merge, split = Merge(1), Split(4)
    time = torch.ones(1, 1)
    with torch.no_grad():
        merge.norm = split.norm = _Plain()
        merge.linear = torch.nn.Identity()
        assert merge(place, time)[0, 0, 1].tolist() == [2, 6, 3, 7]
        split.linear.weight.copy_(torch.eye(4).repeat(2, 1))
        split.mix = torch.nn.Identity()
        token = torch.arange(4.0).view(1, 1, 1, 4)
        assert split(token, time)[0, :, :, 0].tolist() == [[0, 2], [0, 2]]


class _Plain(torch.nn.Module):
    def forward(self, v: Tensor, time: Tensor) -> Tensor:
        return v


def wave(points: int) -> Tensor:
    """A field of wavenumbers up to 3, on a grid."""
    x = torch.arange(points, dtype=torch.float64) / points
    rows = torch.sin(2 * torch.pi * 3 * x) + 0.5
    return (rows[:, None] * torch.cos(2 * torch.pi * 2 * x + 0.3))[None, None]


@pytest.mark.parametrize(("points", "others"), [(8, 24), (24, 8), (9, 16), (16, 9), (7, 13)])
def test_resampling_is_exact_for_fields_of_few_modes(points, others):
    assert torch.allclose(resampled(wave(points), (others, others)), wave(others), atol=1e-13)


def test_resampling_leaves_its_own_grid_alone():
    x = field()
    assert resampled(x, (16, 16)) is x


def test_on_another_grid_the_answer_is_that_of_its_own():
    network, time = awake(ScOT(1, 1, **SMALL)), torch.ones(1)
    with torch.no_grad():
        own, finer = network(wave(16), time), network(wave(32), time)
    assert finer.shape == (1, 1, 32, 32)
    assert torch.allclose(finer, resampled(own, (32, 32)), atol=1e-10)


def test_static_problems_are_asked_at_time_one():
    network = awake(Poseidon(1, 1, **SMALL, input_mean=0.5, input_size=2.0, output_size=3.0))
    x = field()
    with torch.no_grad():
        expected = 3.0 * network.scot((x - 0.5) / 2.0, torch.ones(2))
        assert torch.allclose(network(x), expected)
        # without a condition the clock would not matter
        assert not torch.allclose(network.scot(x, torch.zeros(2)), network.scot(x, torch.ones(2)))


@pytest.mark.parametrize("reach", [None, 1, 2])
def test_a_trajectory_is_one_call_for_each_frame(reach):
    network = awake(Poseidon(1, 5, **SMALL, reach=reach))
    calls = []
    network.scot.register_forward_hook(lambda m, inputs, y: calls.append(inputs[1].tolist()))
    x = field()
    with torch.no_grad():
        frames = x + network(x)
    jumps = {None: [0.25, 0.5, 0.75, 1.0], 1: [0.25] * 4, 2: [0.25, 0.5, 0.25, 0.5]}[reach]
    assert calls == [[jump, jump] for jump in jumps]
    assert torch.equal(frames[:, :1], x)
    origin = {None: 0, 1: 3, 2: 2}[reach]
    with torch.no_grad():
        last = network.after(frames[:, origin : origin + 1], torch.full((2,), 4 - origin))
    assert torch.allclose(frames[:, 4:], last)


def test_lead_times_are_those_of_each_sample():
    network, x = awake(Poseidon(1, 5, **SMALL)), field()
    with torch.no_grad():
        both = network.after(x, torch.tensor([1, 3]))
        assert torch.allclose(both[1:], network.after(x[1:], torch.tensor([3])))


def test_new_weights_learn_alike_and_brought_ones_slowly():
    assert Poseidon(1, 1, **SMALL).rate_shares() == {}
    network = Poseidon(1, 1, **SMALL, brought=True)
    shares = network.rate_shares()
    names = {name: shares[parameter] for name, parameter in network.scot.named_parameters()}
    assert names["lifting.weight"] == (1.0, True)
    assert names["mixup.weight"] == (1.0, True)
    assert names["recovery.bias"] == (1.0, False)
    assert names["encoder.0.0.attention_norm.scale.weight"] == (1.0, False)
    assert names["encoder.0.0.attention.query.weight"] == (0.1, True)
    assert names["encoder.0.0.attention.query.bias"] == (0.1, False)


def test_every_weight_is_used():
    network = Poseidon(1, 3, **SMALL)
    network(field().float()).square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_samples_do_not_see_each_other():
    network, x = awake(Poseidon(1, 3, **SMALL)), field(3)
    with torch.no_grad():
        assert torch.allclose(network(x)[1:2], network(x[1:2]), atol=1e-12)


def test_a_card_rebuilds_the_network():
    network = Poseidon(1, 4, **SMALL, reach=2)
    assert name_of(network) == "poseidon"
    again = build("poseidon", **network.arguments)
    again.load_state_dict(network.state_dict())
    x = field().float()
    assert torch.equal(again(x), network(x))


@pytest.mark.parametrize(
    "wrong",
    [
        {"image_size": 18},
        {"heads": [3, 4]},
        {"heads": [2]},
        {"skips": [1, 1]},
        {"window": 3},
        {"expansion": 0},
        {"depths": []},
        {"input_size": 0.0},
        {"reach": 0, "out_channels": 3},
        {"in_channels": 2, "out_channels": 3},
    ],
    ids="-".join,
)
def test_sizes_that_make_no_network(wrong):
    with pytest.raises(InvalidInput):
        Poseidon(**{"in_channels": 1, "out_channels": 1, **SMALL, **wrong})


def test_inputs_that_do_not_fit():
    network = ScOT(1, 1, **SMALL)
    with pytest.raises(InvalidInput, match="input"):
        network(torch.zeros(2, 2, 16, 16), torch.ones(2))
    with pytest.raises(InvalidInput, match="time"):
        network(torch.zeros(2, 1, 16, 16), torch.ones(3))
