"""The transformer: exact neighbourhoods, equivariance, identity at first, the clock, its sizes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from neuralsolver.errors import InvalidInput
from neuralsolver.models import HDiT, build, name_of
from neuralsolver.models.attention import attend, rotary_table, rotate
from neuralsolver.models.backbone import PaddingMode
from neuralsolver.models.transformer_blocks import Block, normalise

SMALL: dict[str, Any] = {
    "patch": 2,
    "widths": [16, 24],
    "depths": [1, 2],
    "head_width": 8,
    "kernel": 3,
    "mapping_width": 12,
}
MODES: list[PaddingMode] = ["circular", "zeros"]


def small(*, awake: bool = False, **more: Any) -> HDiT:
    torch.manual_seed(0)
    model = HDiT(3, 2, **{**SMALL, **more})
    if awake:  # as after training: no residual branch, no scale is zero any more
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def window(i: int, n: int, kernel: int, padding_mode: PaddingMode) -> set[int]:
    """The neighbours of i along an axis, from the words of the definition."""
    if kernel >= n:
        return set(range(n))
    half = kernel // 2
    if padding_mode == "circular":
        return {(i + offset) % n for offset in range(-half, half + 1)}
    near = list(range(i - half, i + half + 1))
    while near[0] < 0:
        near = [j + 1 for j in near]
    while near[-1] >= n:
        near = [j - 1 for j in near]
    return set(near)


def brute_force(
    tokens: list[Tensor], grid: tuple[int, int], kernel: int | None, mode: PaddingMode
) -> Tensor:
    q, k, v = tokens
    rows, columns = grid
    y = torch.empty_like(q)
    for i in range(rows):
        for j in range(columns):
            near = [
                a * columns + b
                for a in window(i, rows, kernel or rows, mode)
                for b in window(j, columns, kernel or columns, mode)
            ]
            here = i * columns + j
            weight = (q[:, :, None, here] * k[:, :, near]).sum(-1).exp()
            weight = weight / weight.sum(-1, keepdim=True)
            y[:, :, here] = (weight[..., None] * v[:, :, near]).sum(2)
    return y


@pytest.mark.parametrize("padding_mode", MODES)
@pytest.mark.parametrize(
    ("grid", "kernel"),
    [
        ((8, 8), 7),  # even grid, one column is left out
        ((6, 9), 3),
        ((5, 12), 7),  # the window is wider than the grid along one axis only
        ((4, 4), 7),  # and along both: attention to all
        ((6, 5), None),
        ((20, 16), 7),  # tiles of 5 x 8
        ((17, 24), 5),  # 17 cannot be cut: strips of 17 x 8
        ((64, 8), 7),  # the reach of a tile is the whole grid along one axis
    ],
)
def test_attention_is_that_of_the_definition(
    grid: tuple[int, int], kernel: int | None, padding_mode: PaddingMode
) -> None:
    torch.manual_seed(0)
    shape = (2, 3, grid[0] * grid[1], 8)
    tokens = [torch.randn(shape, dtype=torch.float64) for _ in range(3)]
    fast = attend(*tokens, grid, kernel=kernel, padding_mode=padding_mode)
    assert relative(fast, brute_force(tokens, grid, kernel, padding_mode)) < 1e-13


def test_gradients_of_tiled_attention_agree_with_masked_attention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from neuralsolver.models import attention

    def gradients(one_tile: int) -> tuple[Tensor, ...]:
        attention.neighbours.cache_clear()
        monkeypatch.setattr(attention, "ONE_TILE", one_tile)
        torch.manual_seed(0)
        inputs = [torch.randn(1, 2, 256, 8).double().requires_grad_() for _ in range(3)]
        y = attend(*inputs, (16, 16), kernel=5, padding_mode="circular")
        return torch.autograd.grad(y.pow(3).sum(), inputs)

    for a, b in zip(gradients(16), gradients(256), strict=True):
        assert relative(a, b) < 1e-13
    attention.neighbours.cache_clear()


def test_rotation_knows_relative_positions_only() -> None:
    """On the torus modulo its size; between walls the two ends of the grid differ."""
    n, heads, width = 6, 2, 16
    q, k = torch.randn(2, heads, 1, width, dtype=torch.float64)

    def products(mode: PaddingMode) -> Tensor:
        table = rotary_table((n, n), (heads, width), mode, torch.float64, q.device)
        turned = [rotate(x.expand(heads, n * n, width), *table) for x in (q, k)]
        return (turned[0] @ turned[1].mT).view(heads, n, n, n, n)

    torus = products("circular")
    shifted = torus.roll((2, 5, 2, 5), (1, 2, 3, 4))
    assert relative(shifted, torus) < 1e-13
    assert torus[0, 0, 0].std() > 0.01
    walls = products("zeros")
    assert relative(walls[:, 1:, :, 1:], walls[:, :-1, :, :-1]) < 1e-13
    assert relative(walls.roll((2, 2), (1, 3)), walls) > 1e-3


def test_torus_commutes_with_shifts_by_the_coarsest_token() -> None:
    model = small(awake=True, coordinates=False, padding_mode="circular").double()
    x = torch.randn(2, 3, 40, 16, dtype=torch.float64)
    y = model(x)
    assert relative(model(x.roll((8, -4), (2, 3))), y.roll((8, -4), (2, 3))) < 1e-12
    assert relative(model(x.roll(2, 2)), y.roll(2, 2)) > 1e-3  # a fine token is not enough
    one_level = small(
        awake=True, coordinates=False, widths=[16], depths=[1], padding_mode="circular"
    )
    one_level.double()
    assert relative(one_level(x.roll(2, 2)), one_level(x).roll(2, 2)) < 1e-12
    placed = small(awake=True, padding_mode="circular").double()
    assert relative(placed(x.roll(8, 2)), placed(x).roll(8, 2)) > 1e-3


def test_walls_are_seen() -> None:
    model = small(awake=True, coordinates=False).double()
    x = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    assert relative(model(x.roll(4, 2)), model(x).roll(4, 2)) > 1e-3


def test_blocks_start_as_the_identity() -> None:
    model = small()
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    assert len(blocks) == 4
    condition = torch.randn(2, 12)
    for block in blocks:
        v = torch.randn(2, 4, 4, block.attention.out.in_features)
        assert torch.equal(block(v, condition), v)
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(model(x, 0.2), model(x, 5.0))
    assert not small(zero_output=True)(x).any()


def test_the_clock_is_read() -> None:
    model = small(awake=True).double()
    x = torch.randn(3, 3, 8, 8, dtype=torch.float64)
    late = model(x, 1.4)
    assert torch.equal(model(x), model(x, 1.0))
    assert relative(model(x, 0.2), late) > 1e-3
    assert torch.equal(model(x, torch.tensor(1.4, dtype=torch.float64)), late)
    mixed = model(x, torch.tensor([0.2, 1.0, 1.4], dtype=torch.float64))
    assert relative(mixed[2], late[2]) < 1e-12
    assert relative(mixed[0], model(x, 0.2)[0]) < 1e-12
    for wrong in (0.0, -1.0, math.nan, math.inf, torch.ones(2)):
        with pytest.raises(InvalidInput, match=r"^clock"):
            model(x, wrong)


@pytest.mark.parametrize("padding_mode", MODES)
def test_gradients_reach_every_parameter(padding_mode: PaddingMode) -> None:
    model = small(awake=True, padding_mode=padding_mode)
    model(torch.randn(2, 3, 16, 16), torch.tensor([0.3, 0.8])).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_gradients_agree_with_finite_differences() -> None:
    model = small(awake=True, widths=[8, 8], depths=[1, 1], padding_mode="circular").double()
    x = torch.randn(1, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    clock = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, (x, clock), fast_mode=True)


def test_zero_fields_have_finite_gradients() -> None:
    model = small(awake=True, coordinates=False)
    x = torch.zeros(1, 3, 8, 8, requires_grad=True)
    model(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_statistics_of_half_precision_are_single() -> None:
    v = torch.full((1, 4096), 300.0, dtype=torch.float16)  # its square is beyond float16
    assert torch.allclose(normalise(v, torch.ones(4096)), torch.ones_like(v))


def test_arguments_make_the_same_model() -> None:
    model = small(awake=True, padding_mode="circular")
    assert name_of(model) == "hdit"
    twin = build("hdit", **json.loads(json.dumps(model.arguments)))
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 12, 12)
    assert torch.equal(twin(x), model(x))
    assert twin.arguments == model.arguments


def test_a_card_may_have_an_argument_that_is_no_longer_there() -> None:
    """As long as it has the value that the network of today stands for."""
    arguments = small().arguments
    assert build("hdit", **arguments, convolutional_feedforward=False).arguments == arguments
    with pytest.raises(InvalidInput, match="convolutional_feedforward"):
        build("hdit", **arguments, convolutional_feedforward=True)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"patch": 0}, "patch"),
        ({"widths": []}, "widths"),
        ({"widths": [16, 20]}, "widths"),
        ({"widths": [16, 24.0]}, "widths"),
        ({"depths": [1]}, "depths"),
        ({"depths": [1, 0]}, "depths"),
        ({"head_width": 12}, "head_width"),
        ({"kernel": 4}, "kernel"),
        ({"feedforward": 1.5}, "feedforward"),
        ({"mapping_width": 13}, "mapping_width"),
        ({"padding_mode": "reflect"}, "padding_mode"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        small(**arguments)


def test_three_levels_and_a_grid_that_is_no_multiple() -> None:
    model = small(awake=True, widths=[8, 16, 24], depths=[1, 1, 1], padding_mode="circular")
    assert model.coarsest == 8
    assert model(torch.randn(1, 3, 21, 3)).shape == (1, 2, 21, 3)


def test_sizes() -> None:
    with torch.device("meta"):
        sizes = [
            sum(parameter.numel() for parameter in model.parameters())
            for model in (
                HDiT(
                    43,
                    21,
                    patch=8,
                    widths=[384, 768],
                    depths=[2, 11],
                    head_width=64,
                    mapping_width=768,
                    coordinates=False,
                ),
                HDiT(43, 21),
            )
        ]
    assert sizes[0] == 117_181_213
    assert sizes[1] < 2_000_000


@pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning")
def test_torch_export_with_any_batch() -> None:
    model = small(awake=True, depths=[1, 1], padding_mode="circular").eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    x = torch.randn(3, 3, 24, 24)
    program = torch.export.export(model, (x,), dynamic_shapes=[{0: batch}])
    for count in (1, 5):
        x = torch.randn(count, 3, 24, 24)
        assert relative(program.module()(x), model(x)) < 1e-5
    model(x).sum().backward()  # tables made while tracing are not found in the cache afterwards


def test_it_learns_a_shift() -> None:
    torch.manual_seed(0)
    model = HDiT(1, 1, **{**SMALL, "depths": [1, 1]}, padding_mode="circular")
    x = nn.functional.avg_pool2d(torch.randn(16, 1, 16, 16), 3, 1, 1)
    x = x / x.std()
    target = x.roll(2, 3)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (model(x) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
