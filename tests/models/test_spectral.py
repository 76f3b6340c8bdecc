"""The spectral convolution against the textbook formulation with rfftn and complex numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from neuralsolver.errors import InvalidInput
from neuralsolver.models.spectral import (
    SpectralConvolution,
)


def textbook(x: Tensor, weight: Tensor, max_wavenumber: tuple[int, ...]) -> Tensor:
    """rfftn, one complex matrix per kept wavenumber that the grid carries, irfftn."""
    grid = x.shape[1:-1]
    axes = tuple(range(1, len(grid) + 1))
    x_hat = torch.fft.rfftn(x, dim=axes, norm="forward")
    w = torch.complex(weight.select(-3, 0), weight.select(-3, 1))
    y_hat = x_hat.new_zeros(*x_hat.shape[:-1], w.shape[-1])
    kept = [
        [k for k in range(0 if axis == len(grid) - 1 else -m, m + 1) if 2 * abs(k) < n]
        for axis, (n, m) in enumerate(zip(grid, max_wavenumber, strict=True))
    ]
    for k in itertools.product(*kept):
        place = tuple(m - j if j < 0 else j for j, m in zip(k, max_wavenumber, strict=True))
        y_hat[(slice(None), *k)] = x_hat[(slice(None), *k)] @ w[place]
    y: Tensor = torch.fft.irfftn(y_hat, s=grid, dim=axes, norm="forward")
    return y


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


CASES = [
    ((3, 4), (16, 16)),
    ((3, 4), (16, 17)),
    ((5, 5), (33, 12)),
    ((8, 8), (64, 64)),
    ((3, 4), (8, 8)),  # the last kept wavenumber is n / 2
    ((4, 4), (5, 4)),  # smaller than the kept set
    ((4, 4), (1, 2)),
    ((3, 2, 3), (6, 9, 8)),
    ((3, 2, 3), (3, 1, 20)),
]
PRECISIONS = [(torch.float32, 1e-6), (torch.float64, 1e-12)]


@pytest.mark.parametrize(("max_wavenumber", "grid"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_equals_textbook(
    max_wavenumber: tuple[int, ...], grid: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(0)
    layer = SpectralConvolution(3, 2, max_wavenumber).to(dtype)
    x = torch.randn(2, *grid, 3, dtype=dtype)
    assert relative(layer(x), textbook(x, layer.weight, max_wavenumber)) < tolerance


@pytest.mark.parametrize(("max_wavenumber", "grid"), [CASES[1], CASES[5], CASES[7]])
def test_gradients_equal_textbook(max_wavenumber: tuple[int, ...], grid: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = SpectralConvolution(3, 2, max_wavenumber).double()
    x = torch.randn(2, *grid, 3, dtype=torch.float64, requires_grad=True)
    target = torch.randn(2, *grid, 2, dtype=torch.float64)
    leaves = [x, layer.weight]
    ours = torch.autograd.grad((layer(x) * target).sum(), leaves)
    theirs = torch.autograd.grad((textbook(x, layer.weight, max_wavenumber) * target).sum(), leaves)
    for a, b in zip(ours, theirs, strict=True):
        assert relative(a, b) < 1e-12


@pytest.mark.parametrize(("max_wavenumber", "grid"), [((3, 4), (9, 8)), ((1, 2, 1), (4, 5, 6))])
def test_with_linear_is_the_sum(max_wavenumber: tuple[int, ...], grid: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = SpectralConvolution(3, 2, max_wavenumber).double()
    x = torch.randn(2, *grid, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)
    leaves = [x, weight, bias, layer.weight]
    joint = layer.with_linear(x, weight, bias)
    apart = layer(x) + torch.nn.functional.linear(x, weight, bias)
    assert relative(joint, apart) < 1e-12
    ours = torch.autograd.grad(joint.square().sum(), leaves, create_graph=True)
    theirs = torch.autograd.grad(apart.square().sum(), leaves, create_graph=True)
    for a, b in zip(ours, theirs, strict=True):
        assert relative(a, b) < 1e-12
    # and once more, through the gradients
    ours = torch.autograd.grad([a.square().sum() for a in ours], leaves)
    theirs = torch.autograd.grad([a.square().sum() for a in theirs], leaves)
    for a, b in zip(ours, theirs, strict=True):
        assert relative(a, b) < 1e-11


def test_plane_of_zero_last_wavenumber_takes_the_hermitian_mean() -> None:
    """Weights at (k, 0) and (-k, 0) are independent; what acts is (W(k) + conj W(-k)) / 2."""
    torch.manual_seed(0)
    layer = SpectralConvolution(1, 1, (2, 2)).double()
    x = torch.randn(1, 8, 8, 1, dtype=torch.float64)
    before = layer(x)
    with torch.no_grad():
        column = layer.weight[:, 0]
        conjugate = column[[0, 3, 4, 1, 2]] * torch.tensor([1.0, -1.0])[:, None, None]
        layer.weight[:, 0] = (column + conjugate) / 2
    assert relative(layer(x), before) < 1e-12


def test_a_plane_wave_is_multiplied_by_its_weight() -> None:
    layer = SpectralConvolution(1, 1, (3, 3)).double()
    layer.weight.data.zero_()
    layer.weight.data[4 + 0, 2] = torch.tensor([0.5, 2.0]).reshape(2, 1, 1)  # k = (-1, 2)
    y, x = torch.meshgrid(torch.arange(16), torch.arange(12), indexing="ij")
    angle = 2 * torch.pi * (-y.double() / 16 + 2 * x.double() / 12)
    wave = angle.cos()[None, ..., None]
    expected = (0.5 * angle.cos() - 2.0 * angle.sin())[None, ..., None]
    assert relative(layer(wave), expected) < 1e-12


def test_same_function_at_every_resolution() -> None:
    """On a band-limited field the layer does not know the grid."""
    torch.manual_seed(0)
    layer = SpectralConvolution(2, 2, (3, 3)).double()
    fine = layer(torch.randn(1, 48, 48, 2, dtype=torch.float64))  # band-limited by construction
    coarse = fine[:, ::3, ::3]
    assert relative(layer(coarse), layer(fine)[:, ::3, ::3]) < 1e-12


class NoComplex(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, result)):
            assert not (isinstance(leaf, Tensor) and leaf.is_complex()), func
        return result


@pytest.mark.parametrize(("max_wavenumber", "grid"), [CASES[1], CASES[5], CASES[7]])
def test_no_complex_tensor_anywhere(max_wavenumber: tuple[int, ...], grid: tuple[int, ...]) -> None:
    layer = SpectralConvolution(2, 2, max_wavenumber)
    x = torch.randn(1, *grid, 2, requires_grad=True)
    weight, bias = torch.randn(2, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    with NoComplex():  # type: ignore[no-untyped-call]
        (layer(x).sum() + layer.with_linear(x, weight, bias).sum()).backward()
    assert not layer.weight.is_complex()


def test_a_table_cached_while_predicting_serves_training() -> None:
    layer = SpectralConvolution(2, 2, (3, 3))
    with torch.inference_mode():
        layer(torch.randn(1, 23, 29, 2))
    layer(torch.randn(1, 23, 29, 2, requires_grad=True)).sum().backward()


def test_autocast_leaves_the_transform_alone() -> None:
    layer = SpectralConvolution(2, 2, (3, 3))
    x = torch.randn(1, 16, 16, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = layer(x)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, layer(x))


@pytest.mark.parametrize("wrong", [(), (-1, 3), (3, 2.5)])
def test_wrong_wavenumbers_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="max_wavenumber"):
        SpectralConvolution(1, 1, wrong)


def test_a_field_of_another_shape_is_refused() -> None:
    layer = SpectralConvolution(3, 3, (2, 2))
    with pytest.raises(InvalidInput, match="field"):
        layer(torch.zeros(1, 8, 8, 4))
    with pytest.raises(InvalidInput, match="field"):
        layer(torch.zeros(1, 8, 8, 8, 3))
