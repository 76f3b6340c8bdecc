"""The races: square domains, shapes, boxes, wall values and batches, each a row of `FAMILIES`.

darcy, poisson, helmholtz   random inputs on the unit square, u = 0 on the walls
shapes                      Poisson and Darcy inside shapes that no network was trained on
boxes                       −∇·(a∇u) = f in the unit cube, a uniform or in {3, 12}
walls                       u = 0 beside u = A (sin(3x + 1) y + x² − ½ cos 4y) on the walls
batches                     a batch of samples beside one sample after the other
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.domains import fresh_problem
from benchmarks.harness import Instance, Method, Row, race
from benchmarks.methods import (
    MULTIGRID,
    PYAMG,
    SINE_BOX,
    SINE_SQUARE,
    SPARSE_LU,
    cached_load,
    in_batches,
    network_removed,
    neural,
)
from neuralsolver.equations import EQUATIONS, Darcy, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import Int
from neuralsolver.solvers.network_free import FEW_POINTS

Draw = Callable[[int, int, int], Instance]
"""Size, seed and number of an instance."""


@dataclass(frozen=True)
class Family:
    """Cases by name, how an instance of each is drawn, who races, and to which targets."""

    cases: dict[str, Draw]
    methods: Callable[[], list[Method]]
    targets: tuple[float, ...]
    sizes: tuple[int, ...]
    samples: int = 2
    least: int = 8


def _square(name: str) -> Family:
    def draw(size: int, seed: int, number: int) -> Instance:
        return Instance(name, size, Problem.random(EQUATIONS[name], size, seed=seed, key=number))

    def methods() -> list[Method]:
        ours = [
            neural("ENS", name),
            network_removed("ENS, LU for the network", name, 64),
            network_removed("ENS, V-cycles for the network", name, FEW_POINTS),
        ]
        classical = [SPARSE_LU]
        if name in ("darcy", "poisson"):
            classical += [MULTIGRID, *PYAMG]
        return [*ours, *classical, *([SINE_SQUARE] if name == "darcy" else [])]

    return Family({name: draw}, methods, (1e-4, 1e-8), (128, 256, 512), least=64)


def _shape(name: str) -> Draw:
    def draw(size: int, seed: int, number: int) -> Instance:
        return Instance(name, size, fresh_problem(name, size, number, seed)[1])

    return draw


def _shape_methods() -> list[Method]:
    models = [neural("multigrid", lambda one: one.case), neural("with network", "shapes")]
    return [*models, SPARSE_LU, *PYAMG]


def _box(name: str) -> Draw:
    def draw(size: int, seed: int, number: int) -> Instance:
        key = 100 * number
        while True:  # a quarter of the media are uniform
            fields = Problem.random(
                Darcy(source="field", dimension=3), size, seed=seed, key=key
            ).inputs
            if float(fields[0, 0].std()) > 0:
                break
            key += 1
        if name == "poisson box":
            fields[:, 0] = 1.0
        problem = Problem(Darcy(source="field"), fields, lengths=(1, 1, 1))
        return Instance(name, size, problem, judged_by="residual")

    return draw


def _box_methods() -> list[Method]:
    ours = [
        neural("ENS", "darcy-box"),
        network_removed("ENS, V-cycles for the network", "darcy-box", FEW_POINTS),
    ]
    return [*ours, MULTIGRID, *PYAMG, SINE_BOX]


def _walls(name: str, values: bool) -> Draw:
    def draw(size: int, seed: int, number: int) -> Instance:
        plain = Problem.random(EQUATIONS[name], size, seed=seed, key=number)
        if not values:
            return Instance(f"{name}, u = 0", size, plain, judged_by="residual")
        height = cached_load(name).solve(plain, tolerance=1e-8).tensor.abs().max()
        held = Problem(plain.equation, plain.inputs, walls=height * pattern(*plain.grid.points()))
        return Instance(f"{name}, u = g", size, held, judged_by="residual")

    return draw


def pattern(x: Tensor, y: Tensor) -> Tensor:
    """g/A: smooth, different on every wall, and continuous around the corners."""
    return torch.sin(3 * x + 1) * y + x.square() - 0.5 * torch.cos(4 * y)


def _batch(name: str) -> Draw:
    def draw(size: int, seed: int, number: int) -> Instance:
        solver = cached_load(name)
        problem = Problem.random(solver.equation, solver.resolution, size, seed, number)
        return Instance(name, size, problem, judged_by="residual")

    return draw


_STATIC = ("poisson", "helmholtz", "nonlinear-helmholtz", "darcy")
_WALLS = {f"{name} {values}": _walls(name, values) for name in _STATIC for values in (False, True)}
FAMILIES: dict[str, Family] = {
    **{name: _square(name) for name in ("darcy", "poisson", "helmholtz")},
    "shapes": Family(
        {name: _shape(name) for name in ("poisson", "darcy")},
        _shape_methods,
        (1e-8,),
        (64, 128, 512),
        samples=6,
        least=64,
    ),
    "boxes": Family(
        {name: _box(name) for name in ("poisson box", "darcy box")},
        _box_methods,
        (1e-8,),
        (32, 64),
        samples=1,
        least=32,
    ),
    "walls": Family(
        _WALLS,
        lambda: [neural("ENS", lambda one: one.case.split(",")[0])],
        (1e-8,),
        (64, 128),
        samples=4,
        least=64,
    ),
    "batches": Family(
        {name: _batch(name) for name in ("helmholtz", "poisson", "darcy")},
        in_batches,
        (1e-6,),
        (8, 32),
        samples=1,
        least=1,
    ),
}


def measure(
    family: str,
    sizes: Sequence[int | str] | None = None,
    samples: int | None = None,
    *,
    seed: int = 20_264,
    repeats: int = 3,
    tell: Callable[[float, str], None] | None = None,
) -> list[Row]:
    """All rows of a family.

    Args:
        family: A key of `FAMILIES`.
        sizes: Points a side, or samples a batch; those of the family by default.
        samples: Instances a case; those of the family by default.
        seed: Seed of the instances.
        repeats: Timed turns of every method on every instance.
        tell: Called with the fraction done and the name of the next case.

    Returns:
        One row per case, size, target and method.

    Raises:
        InvalidInput: No such family, or a size that its models do not solve.
    """
    torch.set_num_threads(1)
    if family not in FAMILIES:
        raise InvalidInput("family", ", ".join(FAMILIES), family)
    chosen = FAMILIES[family]
    known = [Int(chosen.least, 4096).read("--sizes", size) for size in sizes or chosen.sizes]
    methods, rows = chosen.methods(), []
    cases = list(_cases(chosen, known))
    for position, (name, draw, size, target) in enumerate(cases):
        if tell is not None:
            tell(position / len(cases), f"{name}, {size}, {target:g}")
        instances = [draw(size, seed, number) for number in range(samples or chosen.samples)]
        found = race(instances, methods, target, repeats)
        rows += [{"family": family, **row, "seed": seed} for row in found]
    return rows


def _cases(family: Family, sizes: Sequence[int]) -> Iterator[tuple[str, Draw, int, Any]]:
    for size in sizes:
        for name, draw in family.cases.items():
            for target in family.targets:
                yield name, draw, size, target
