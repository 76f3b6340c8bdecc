"""What every backbone promises, and what FNO and U-Net promise beyond it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from neuralsolver.errors import InvalidInput
from neuralsolver.models import FNO, UNet, backbone, build, name_of

SMALL: dict[str, dict[str, Any]] = {
    "fno": {"width": 8, "layers": 2, "max_wavenumber": [3, 3]},
    "gated-unet": {"widths": [4, 8, 8]},
    "hdit": {"patch": 2, "widths": [16, 16], "depths": [1, 1], "head_width": 8, "kernel": 3},
    "unet": {"width": 4, "multipliers": [1, 2, 2]},
}
WIDER: dict[str, dict[str, Any]] = {
    "fno": {"width": 16},
    "gated-unet": {"widths": [16, 16, 16]},
    "hdit": {"widths": [32, 32]},
    "unet": {"width": 16},
}
BACKBONES = sorted(SMALL)
"""Correctors of one input; a denoiser also reads the noise and has tests of its own."""
FOUR = [(a, b) for a in ("pointwise", "cnn") for b in ("pointwise", "cnn")]


def small(name: str, **more: Any) -> nn.Module:
    torch.manual_seed(0)
    return build(name, in_channels=2, out_channels=1, **{**SMALL[name], **more})


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("grid", [(8, 8), (17, 17), (12, 19), (4, 4)])
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
def test_any_grid(name: str, grid: tuple[int, int], padding_mode: str) -> None:
    model = small(name, padding_mode=padding_mode)
    y = model(torch.randn(3, 2, *grid))
    assert y.shape == (3, 1, *grid)
    assert y.isfinite().all()


@pytest.mark.parametrize("name", BACKBONES)
def test_arguments_make_the_same_model_and_are_plain(name: str) -> None:
    model = small(name)
    card = json.loads(json.dumps(model.arguments))
    twin = build(name_of(model), **card)
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 2, 16, 16)
    assert torch.equal(model(x), twin(x))
    assert twin.arguments == model.arguments


@pytest.mark.parametrize("name", BACKBONES)
def test_samples_do_not_see_each_other_and_inputs_are_kept(name: str) -> None:
    model = small(name).double()
    x = torch.randn(3, 2, 16, 16, dtype=torch.float64)
    before = x.clone()
    whole = model(x)
    assert torch.equal(x, before)
    assert relative(model(x[1:2]), whole[1:2]) < 1e-12


@pytest.mark.parametrize("name", BACKBONES)
def test_same_seed_same_bytes(name: str) -> None:
    x = torch.randn(2, 2, 16, 16)
    results = []
    for _ in range(2):
        model = small(name)
        y = model(x)
        gradients = torch.autograd.grad(y.square().mean(), list(model.parameters()))
        results.append([y, *gradients])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("name", BACKBONES)
def test_every_parameter_is_used_and_output_has_unit_scale(name: str) -> None:
    model = small(name, **WIDER[name])
    x = torch.randn(4, 2, 32, 32)
    y = model(x)
    # the gated one is a corrector, which starts from zero: its blocks need not be damped
    assert 0.05 < float(y.detach().std()) < (20 if name == "gated-unet" else 5)
    for parameter in model.parameters():
        if not parameter.any():  # residual branches may start as nothing: wake them up
            nn.init.normal_(parameter, std=0.1)
    model(x).square().mean().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", BACKBONES)
def test_zero_output_starts_as_zero_but_learns(name: str) -> None:
    model = small(name, zero_output=True)
    y = model(torch.randn(2, 2, 16, 16))
    assert not y.any()
    (y - 1).square().mean().backward()
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (2, 16, 16), (2, 2, 8, 16, 16)])
def test_wrong_input_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="input: expected shape"):
        small(name)(torch.zeros(shape))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"widht": 8}, "widht"),
        ({"lifting": "convolution"}, "lifting"),
        ({"padding_mode": "reflect"}, "padding_mode"),
        ({"max_wavenumber": [3]}, "max_wavenumber"),
        ({"max_wavenumber": [3, -1]}, "max_wavenumber"),
        ({"width": 0}, "width"),
        ({"width": 8.5}, "width"),
        ({"lifting": "cnn", "kernel_size": 4}, "kernel_size"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        build("fno", in_channels=1, out_channels=1, **arguments)


def test_unknown_names_and_missing_arguments_are_refused() -> None:
    with pytest.raises(InvalidInput, match="model: expected one of fno, gated-unet, hdit"):
        build("transformer")
    with pytest.raises(InvalidInput, match="out_channels"):
        build("unet", in_channels=1)
    with pytest.raises(InvalidInput, match="multipliers"):
        build("unet", in_channels=1, out_channels=1, multipliers=[])
    with pytest.raises(InvalidInput, match="model"):
        name_of(nn.Linear(1, 1))


@pytest.mark.parametrize(("lifting", "projection"), FOUR)
def test_circular_fno_commutes_with_shifts(lifting: str, projection: str) -> None:
    choices = {"lifting": lifting, "projection": projection}
    model = small("fno", padding_mode="circular", coordinates=False, **choices).double()
    x = torch.randn(1, 2, 15, 16, dtype=torch.float64)
    shifted = model(x.roll((4, -3), (2, 3)))
    assert relative(shifted, model(x).roll((4, -3), (2, 3))) < 1e-12
    with_grid = small("fno", padding_mode="circular", **choices).double()
    assert relative(with_grid(x.roll(4, 2)), with_grid(x).roll(4, 2)) > 1e-3


def test_pointwise_linear_network_is_one_function_at_every_resolution() -> None:
    """One layer has no GELU inside, so a band-limited input stays band-limited up to the head."""
    model = small("fno", layers=1, padding_mode="circular", coordinates=False).double()
    n = torch.arange(48, dtype=torch.float64) / 48
    wave = (2 * torch.pi * (2 * n[:, None] - n[None, :])).sin()
    fine = torch.stack([wave, wave.square()])[None]
    assert relative(model(fine[..., ::3, ::3]), model(fine)[..., ::3, ::3]) < 1e-12


def test_coordinates_end_on_the_wall_and_are_angles_on_the_torus() -> None:
    from neuralsolver.models.backbone import coordinate_channels, places

    x = torch.zeros(2, 1, 5, 4)
    walls, torus = places(x, "zeros"), places(x, "circular")
    assert walls.shape == (2, 2, 5, 4)
    assert torch.equal(walls[0, 0, :, 0], torch.tensor([0, 0.25, 0.5, 0.75, 1.0]))
    torch.testing.assert_close(torus[1, 2, 0], torch.tensor([1.0, 0, -1, 0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(torus[1, 3, 0], torch.tensor([0.0, 1, 0, -1]), atol=1e-6, rtol=0)
    time = places(torch.zeros(1, 1, 3, 4, 4), "circular")
    assert torch.equal(time[0, 0, :, 0, 0], torch.tensor([0, 0.5, 1.0]))
    assert torch.equal(time[0, 3:, 0, 0], torus[0, 2:, 0])
    assert time.shape[1] == coordinate_channels(3, "circular")


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_time_padding_leaves_the_grid_as_it_is(padding: int) -> None:
    model = FNO(2, 3, width=4, layers=2, max_wavenumber=[2, 3, 3], time_padding=padding)
    assert model(torch.zeros(2, 2, 6, 8, 10)).shape == (2, 3, 6, 8, 10)


@pytest.mark.parametrize(("padding", "wrapped"), [(0, 1.0), (2, 0.0)])
def test_with_time_padding_the_last_frame_does_not_reach_the_first(
    padding: int, wrapped: float
) -> None:
    """The spectral layer is made to delay by a frame: W(k) = exp(−2πik/N) on N frames."""
    frames, total = 5, 5 + padding
    m = total // 2
    model = FNO(1, 1, width=1, layers=1, max_wavenumber=[m, 0, 0], time_padding=padding)
    model.coordinates = False
    model.lifting, model.projection = nn.Identity(), nn.Identity()
    k = torch.cat([torch.arange(m + 1), -torch.arange(1, m + 1)]).double()
    angle = 2 * math.pi * k / total
    layer = model.double().blocks[0]
    with torch.no_grad():
        layer.pointwise.weight.zero_()
        layer.spectral.weight[:, 0, 0, :, 0, 0] = torch.stack([angle.cos(), -angle.sin()], 1)
    x = torch.tensor([0.0, 2.0, 0.0, 0.0, 1.0], dtype=torch.float64).view(1, 1, frames, 1, 1)
    expected = torch.tensor([wrapped, 0.0, 2.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(model(x).flatten(), expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize(("axes", "padding"), [([3, 3], 1), ([2, 3, 3], -1)])
def test_time_padding_needs_time(axes: list[int], padding: int) -> None:
    with pytest.raises(InvalidInput, match="time_padding"):
        FNO(1, 1, max_wavenumber=axes, time_padding=padding)


def test_parameter_counts() -> None:
    pointwise = 4 * (64 * 64 + 64)
    spectral = 4 * (21 * 11 * 2 * 64 * 64)
    lifting, head = 5 * 64 + 64, 64 * 128 + 128 + 128 + 1
    assert count(FNO(3, 1)) == lifting + pointwise + spectral + head == 7_594_881
    # lifting and projection of the paper: 3x3, 3x3, 1x1, and for Darcy 5x5 four times, 1x1
    convolutions = (5 * 9 * 64 + 64) + (9 * 64 * 64 + 64) + (64 * 64 + 64)
    convolutions += 2 * (9 * 64 * 64 + 64) + (64 + 1)
    paper = FNO(3, 1, lifting="cnn", projection="cnn")
    assert count(paper) == convolutions + pointwise + spectral == 7_704_001
    darcy = FNO(4, 1, lifting="cnn", projection="cnn", kernel_size=5, cnn_layers=5)
    kernels = [tuple(p.shape[2:]) for p in darcy.lifting.parameters() if p.dim() == 4]
    assert kernels == [(5, 5)] * 4 + [(1, 1)]


@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
@pytest.mark.parametrize("kind", ["pointwise", "cnn"])
def test_three_dimensions(kind: str, padding_mode: str) -> None:
    choices = {"lifting": kind, "projection": kind, "padding_mode": padding_mode}
    model = small("fno", width=4, max_wavenumber=[2, 3, 3], coordinates=False, **choices).double()
    x = torch.randn(1, 2, 5, 8, 9, dtype=torch.float64)
    y = model(x)
    assert y.shape == (1, 1, 5, 8, 9)
    if padding_mode == "circular":
        assert relative(model(x.roll((3, 2), (3, 4))), y.roll((3, 2), (3, 4))) < 1e-12


def test_gradients_agree_with_finite_differences() -> None:
    choices = {"lifting": "cnn", "projection": "cnn", "width": 3, "max_wavenumber": [2, 2]}
    model = small("fno", **choices).double()
    x = torch.randn(1, 2, 6, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, (x,))


def test_fno_learns_a_shift() -> None:
    """Thirty steps of Adam take off most of the error: the start is trainable."""
    torch.manual_seed(0)
    model = FNO(1, 1, width=12, layers=2, max_wavenumber=(4, 4), padding_mode="circular")
    x = nn.functional.avg_pool2d(torch.randn(8, 1, 16, 16), 3, 1, 1)
    target = x.roll(2, 3) / x.std()
    x = x / x.std()
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = (model(x) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_unet_smallest_grid() -> None:
    model = UNet(1, 1, width=2)
    assert model(torch.randn(1, 1, 8, 8)).shape == (1, 1, 8, 8)
    with pytest.raises(InvalidInput, match="n >= 8"):
        model(torch.randn(1, 1, 7, 7))


def test_a_single_box_is_convolved_as_in_a_batch(monkeypatch):
    """By oneDNN, which torch would not choose for it: the same numbers, and the same gradient."""
    torch.manual_seed(0)
    layer = backbone.Convolution(3, 4, 3, dimension=3)
    x = torch.randn(1, 3, 16, 16, 16, requires_grad=True)
    assert backbone._misjudged(x)
    assert not backbone._misjudged(x.expand(2, -1, -1, -1, -1))
    assert not backbone._misjudged(x.double())
    ours = layer(x)
    (gradient,) = torch.autograd.grad(ours.square().sum(), x)
    monkeypatch.setattr(backbone, "_misjudged", lambda x: False)
    usual = layer(x)
    (expected,) = torch.autograd.grad(usual.square().sum(), x)
    assert torch.allclose(ours, usual, atol=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-4)
