"""UGrid (Han, Hou, Qin, ICML 2024, arXiv 2408.04846) with the weights its authors publish.

An iteration on Ax = f, A the five-point Laplacian times h², masked by the interior m:

    two Jacobi sweeps,   x ← x + N(f − Ax; m),   two Jacobi sweeps

N is a linear U-Net of one channel: on each of six grids two 3 × 3 convolutions before and two after
the coarser ones, each followed by a product with the mask; from grid to grid by injection and
bilinear interpolation, so a side has 2ᵏ + 1 points. Written anew after the authors' code; the
weights are 24 kernels in the authors' repository, var/checkpoint/22/pth/epoch_300.pth, trained on
1,025 points a side. ENS_UGRID names them as safetensors, since nothing here is ever unpickled:

    save_file(torch.load("epoch_300.pth", "cpu", weights_only=True), "ugrid.safetensors")
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import conv2d, interpolate

from neuralsolver.equations import Problem
from neuralsolver.errors import InvalidInput

LEVELS, SWEEPS = 6, 2
SINGLE, DIVERGED = 1e-5, 1e6
NEIGHBOURS = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]).view(1, 1, 3, 3)


def weights_file() -> Path | None:
    """The weights, where the environment names them."""
    named = os.environ.get("ENS_UGRID")
    return Path(named) if named else None


class UGrid:
    """The iteration in a precision, as it is or in double."""

    def __init__(self, file: Path, dtype: torch.dtype = torch.float32) -> None:
        stored = load_file(file)
        if len(stored) != 2 * SWEEPS * LEVELS:
            raise InvalidInput("ENS_UGRID", f"{2 * SWEEPS * LEVELS} kernels", len(stored))
        prefix = ["mg" + ".submodule" * level for level in range(LEVELS)]
        self.before, self.after = (
            [[stored[f"{p}.{part}.{i}.weight"].to(dtype) for i in range(SWEEPS)] for p in prefix]
            for part in ("pre_smoothers", "post_smoothers")
        )
        self.neighbours = NEIGHBOURS.to(dtype)

    def iterate(self, x: Tensor, f: Tensor, interior: Tensor) -> Tensor:
        """One iteration; x keeps its values where `interior` is zero."""
        x = self._jacobi(x, f, interior)
        residual = interior * (f - conv2d(x, self.neighbours, padding=1) + 4 * x)
        x = x + self._correction(residual, interior, 0)
        return self._jacobi(x, f, interior)

    def _jacobi(self, x: Tensor, f: Tensor, interior: Tensor) -> Tensor:
        for _ in range(SWEEPS):
            swept = (conv2d(x, self.neighbours, padding=1) - f) / 4
            x = torch.where(interior > 0, swept, x)
        return x

    def _correction(self, r: Tensor, interior: Tensor, level: int) -> Tensor:
        for kernel in self.before[level]:
            r = interior * conv2d(r, kernel, padding=1)
        if level + 1 < LEVELS:
            coarse = self._correction(_halved(r), _halved(interior), level + 1)
            finer = interpolate(coarse, size=r.shape[-2:], mode="bilinear", align_corners=True)
            r = r + interior * finer
        for kernel in self.after[level]:
            r = interior * conv2d(r, kernel, padding=1)
        return r


def _halved(x: Tensor) -> Tensor:
    """Every second point: what bilinear interpolation with aligned corners is on 2ᵏ + 1 points."""
    return x[..., ::2, ::2]


@torch.no_grad()
def iterations_to(
    problem: Problem, exact: Tensor, targets: Sequence[float], most: int
) -> dict[float, tuple[float, int, float]]:
    """(seconds, iterations, error) of a Poisson problem at each target, or after `most` iterations.

    In float32, as its authors run it, where that can meet the target, else in float64.
    """
    file = weights_file()
    assert file is not None
    found: dict[float, tuple[float, int, float]] = {}
    size = float(exact.norm())
    for target in targets:
        dtype = torch.float32 if target > SINGLE else torch.float64
        begin = time.process_time()
        net, x, interior = UGrid(file, dtype), problem.zeros().to(dtype), problem.free.to(dtype)
        f = (problem.grid.spacing[0] ** 2 * right_side(problem)).to(dtype)
        spent, error, count = time.process_time() - begin, torch.inf, 0
        while count < most and error > target and not (count and error > DIVERGED):
            begin = time.process_time()
            x = net.iterate(x, f, interior)
            spent += time.process_time() - begin
            count, error = count + 1, float((x.double() - exact).norm()) / size
        found[target] = (spent, count, error)
    return found


def right_side(problem: Problem) -> Tensor:
    """f of Δu = f."""
    nothing = torch.zeros_like(problem.zeros())
    return -problem.equation.residual_on(problem.grid, nothing, problem.inputs)
