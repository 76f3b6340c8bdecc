"""The races: square domains, shapes, boxes, wall values and batches, each a row of `FAMILIES`.

darcy, poisson, helmholtz   random inputs on the unit square, u = 0 on the walls
shapes                      Poisson and Darcy inside shapes that no network was trained on
boxes                       −∇·(a∇u) = f in the unit cube, a uniform or in {3, 12}
walls                       u = 0 beside u = A (sin(3x + 1) y + x² − ½ cos 4y) on the walls
batches                     a batch of samples beside one sample after the other
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Family:
    """Names of cases, how an instance is drawn, who races, and to which targets.

    Args:
        cases: Names.
        draw: An instance of a case, given its size, a seed and its number.
        methods: Who races.
        targets: Errors or residuals.
        sizes: Points a side, or samples a batch.
        samples: Instances a case.
        least: Smallest size.
    """

    cases: tuple[str, ...]
    draw: Callable[[str, int, int, int], Instance]
    methods: Callable[[], list[Method]]
    targets: tuple[float, ...]
    sizes: tuple[int, ...]
    samples: int = 2
    least: int = 64


def _draw_square(name: str, size: int, seed: int, number: int) -> Instance:
    return Instance(name, size, Problem.random(EQUATIONS[name], size, seed=seed, key=number))


def _square(name: str) -> Family:
    def methods() -> list[Method]:
        found = [
            neural("ENS", name),
            network_removed("ENS, LU for the network", name, 64),
            network_removed("ENS, V-cycles for the network", name, FEW_POINTS),
            SPARSE_LU,
        ]
        if name in ("darcy", "poisson"):
            found += [MULTIGRID, *PYAMG]
        return [*found, *([SINE_SQUARE] if name == "darcy" else [])]

    return Family((name,), _draw_square, methods, (1e-4, 1e-8), (128, 256, 512))


def _draw_shape(name: str, size: int, seed: int, number: int) -> Instance:
    return Instance(name, size, fresh_problem(name, size, number, seed)[1])


def _shape_methods() -> list[Method]:
    models = [neural("multigrid", lambda one: one.case), neural("with network", "shapes")]
    return [*models, SPARSE_LU, *PYAMG]


def _draw_box(name: str, size: int, seed: int, number: int) -> Instance:
    drawn = Darcy(source="field", dimension=3)
    for key in itertools.count(100 * number):  # a quarter of the media are uniform
        fields = Problem.random(drawn, size, seed=seed, key=key).inputs
        if float(fields[0, 0].std()) > 0:
            break
    if name == "poisson box":
        fields[:, 0] = 1.0
    problem = Problem(Darcy(source="field"), fields, lengths=(1, 1, 1))
    return Instance(name, size, problem, judged_by="residual")


def _box_methods() -> list[Method]:
    removed = network_removed("ENS, V-cycles for the network", "darcy-box", FEW_POINTS)
    return [neural("ENS", "darcy-box"), removed, MULTIGRID, *PYAMG, SINE_BOX]


def _draw_walls(name: str, size: int, seed: int, number: int) -> Instance:
    equation, values = name.split(", ")
    problem = Problem.random(EQUATIONS[equation], size, seed=seed, key=number)
    if values == "u = g":
        height = cached_load(equation).solve(problem, tolerance=1e-8).tensor.abs().max()
        walls = height * pattern(*problem.grid.points())
        problem = Problem(problem.equation, problem.inputs, walls=walls)
    return Instance(name, size, problem, judged_by="residual")


def pattern(x: Tensor, y: Tensor) -> Tensor:
    """g/A: smooth, different on every wall, and continuous around the corners."""
    return torch.sin(3 * x + 1) * y + x.square() - 0.5 * torch.cos(4 * y)


def _wall_methods() -> list[Method]:
    return [neural("ENS", lambda one: one.case.split(",")[0])]


def _draw_batch(name: str, size: int, seed: int, number: int) -> Instance:
    solver = cached_load(name)
    problem = Problem.random(solver.equation, solver.resolution, size, seed, number)
    return Instance(name, size, problem, judged_by="residual")


_STATIC = ("poisson", "helmholtz", "nonlinear-helmholtz", "darcy")
_WALLS = tuple(f"{name}, u = {value}" for name in _STATIC for value in "0g")
_BOXES, _BATCHES = ("poisson box", "darcy box"), ("helmholtz", "poisson", "darcy")
FAMILIES: dict[str, Family] = {
    **{name: _square(name) for name in ("darcy", "poisson", "helmholtz")},
    "shapes": Family(
        ("poisson", "darcy"), _draw_shape, _shape_methods, (1e-8,), (64, 128, 512), samples=6
    ),
    "boxes": Family(_BOXES, _draw_box, _box_methods, (1e-8,), (32, 64), samples=1, least=32),
    "walls": Family(_WALLS, _draw_walls, _wall_methods, (1e-8,), (64, 128), samples=4),
    "batches": Family(_BATCHES, _draw_batch, in_batches, (1e-6,), (8, 32), samples=1, least=1),
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
        raise InvalidInput("family", ", ".join((*FAMILIES, "waves")), family)
    chosen = FAMILIES[family]
    known = [Int(chosen.least, 4096).read("--sizes", size) for size in sizes or chosen.sizes]
    methods, rows = chosen.methods(), []
    cases = list(itertools.product(known, chosen.cases, chosen.targets))
    for position, (size, name, target) in enumerate(cases):
        if tell is not None:
            tell(position / len(cases), f"{name}, {size}, {target:g}")
        count = samples or chosen.samples
        instances = [chosen.draw(name, size, seed, number) for number in range(count)]
        found = race(instances, methods, target, repeats)
        rows += [{"family": family, **row, "seed": seed} for row in found]
    return rows
