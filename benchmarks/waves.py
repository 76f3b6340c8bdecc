"""Nonlinear waves: Newton from the network's iterate against classical methods, to 1e-9.

Every method gets the factors of the linear equation and its solution; their time counts for all.
Problems have beams or point sources (Gaussian blobs of an eighth of a wavelength), scaled so that
the linear solution has a maximum of 1: ε is then the largest relative change of s² that the linear
wave would cause. The tables have

    portfolio    Anderson, then classical methods one after the other until one converges: of all
                 their orders and subsets that lose no instance the cheapest on these very rows
    oracle       the fastest classical method of each instance, known in advance; where none
                 converges there is no oracle and the instance is left out of its ratio
    ours         Anderson, then the network and Newton; where that fails, the rest of the portfolio
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from benchmarks.harness import Method, Row, Turns, take_turns
from benchmarks.wave_rivals import (
    TrainingStarts,
    continuation,
    line_search,
    nested,
    one_way,
    trust_region,
)
from neuralsolver.data.wave_media import beam, random_medium
from neuralsolver.limits import Choice
from neuralsolver.solvers.sparse_lu import SparseLU
from neuralsolver.solvers.wave_newton import WaveAnswer, anderson, damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import LAYER_WAVELENGTHS, Complex, WaveOperator, norm
from neuralsolver.solvers.wave_solver import corrected
from neuralsolver.training.checkpoint import load_corrector
from neuralsolver.training.library import SHIPPED

SEED = 92_611
"""Of the published rows: written down before any of its problems was drawn."""
TARGET = 1e-9
Solve = Callable[[WaveOperator, SparseLU, Complex], WaveAnswer]


@dataclass(frozen=True)
class WaveFamily:
    """What random problems are drawn from.

    Args:
        points: Points a side.
        media: Families of media, drawn with equal chances.
        contrast: Smallest and largest contrast.
        strength: Smallest and largest ε of a box of 8 wavelengths. It falls with the length of the
            box, so that a beam gathers the same nonlinear phase on its way.
        point_sources: Number of point sources, instead of beams where it is not zero.
        points_per_wavelength: Where s = 1.
    """

    points: int = 64
    media: tuple[str, ...] = ("smooth",)
    contrast: tuple[float, float] = (0.2, 0.4)
    strength: tuple[float, float] = (0.3, 0.7)
    point_sources: int = 0
    points_per_wavelength: float = 8.0

    def draw(self, rng: np.random.Generator) -> tuple[WaveOperator, SparseLU, Complex]:
        """One problem, the factors of its linear part and its linear solution."""
        points, per_wavelength = self.points, self.points_per_wavelength
        contrast = rng.uniform(*self.contrast)
        strength = rng.uniform(*self.strength) * 8.0 / (points / per_wavelength)
        medium = self.media[rng.integers(len(self.media))]
        slowness = random_medium(rng, points, medium, contrast, per_wavelength)
        if self.point_sources:
            blobs = [self._point_source(rng) for _ in range(self.point_sources)]
            source = np.sum(blobs, axis=0)
        else:
            source = beam(rng, points, per_wavelength)
        wavenumber = 2 * math.pi * (points - 1) / per_wavelength
        return WaveOperator(slowness, source, wavenumber, strength).normalised()[:3]

    def _point_source(self, rng: np.random.Generator) -> Complex:
        """A small Gaussian blob of random phase outside of the absorbing layer."""
        margin = (LAYER_WAVELENGTHS + 0.5) * self.points_per_wavelength
        row, column = rng.uniform(margin, self.points - 1 - margin, 2)
        rows, columns = np.indices((self.points, self.points))
        squared = (rows - row) ** 2 + (columns - column) ** 2
        blob = np.exp(-0.5 * squared / (self.points_per_wavelength / 8) ** 2)
        result: Complex = blob * np.exp(1j * rng.uniform(0, 2 * math.pi))
        return result


HARD = WaveFamily()
CASES = {
    "as trained": HARD,
    "stronger": replace(HARD, strength=(0.7, 0.9)),
    "96 points": replace(HARD, points=96),
    "128 points": replace(HARD, points=128),
    "192 points": replace(HARD, points=192),
    "blocky": replace(HARD, media=("blocky",)),
    "ellipses": replace(HARD, media=("ellipses",)),
    "contrast 0.4": replace(HARD, contrast=(0.4, 0.4)),
    "two point sources": replace(HARD, point_sources=2),
    "weak": replace(HARD, strength=(0.02, 0.1)),
}
"""The position of a case is a part of its seeds."""
CLASSICAL: dict[str, Solve] = {
    "anderson": anderson,
    "newton-gmres frozen": lambda p, f, u: newton_krylov(p, u, preconditioner="frozen", factor=f),
    "newton-gmres complex": lambda p, f, u: newton_krylov(p, u),
    "newton-gmres real": lambda p, f, u: newton_krylov(p, u, preconditioner="real"),
    "nleq": lambda p, f, u: damped_newton(p, u),
}
LAST = "continuation"
"""By far the slowest: raced only where every other classical method fails."""
OURS = "network 2"


@dataclass(frozen=True)
class WaveInstance:
    """A wave problem as the harness wants it."""

    problem: WaveOperator
    judged_by = "residual"

    def miss(self, u: Complex) -> float:
        """The relative residual."""
        return self.problem.relative_residual(u)


def _method(name: str, solve: Solve) -> Method:
    def turn(one: WaveInstance, state: tuple[SparseLU, Complex], _: float) -> tuple[Complex, int]:
        answer = solve(one.problem, *state)
        return answer.u, answer.factorisations

    # all stop at a residual of 1e-9, so none looks for its tolerance
    return Method(name, lambda one: one.problem.normalised()[1:3], turn, searches=False)


def _from_network(
    network: nn.Module, corrections: int, signal: str, p: WaveOperator, f: SparseLU, u: Complex
) -> WaveAnswer:
    return newton_krylov(p, corrected(network, p, f, u, corrections=corrections, signal=signal)[0])


def wave_methods(network: nn.Module, beside: Path | None = None) -> list[Method]:
    """Who races.

    Args:
        network: The corrector; Newton starts from its iterate after 1, 2 and 4 corrections.
        beside: A folder of training problems with the correctors of ablations in folders of it:
            other classical methods, other starts and these correctors race too.
    """
    read = "preconditioned"
    found = CLASSICAL | {
        f"network {n}": partial(_from_network, network, n, read) for n in (1, 2, 4)
    }
    if beside is not None:
        known = TrainingStarts(beside)

        def without_newton(p: WaveOperator, f: SparseLU, u: Complex) -> WaveAnswer:
            return WaveAnswer(corrected(network, p, f, u, corrections=12)[0], math.nan, False)

        found |= {
            "line search": lambda p, f, u: line_search(p, u),
            "trust region": lambda p, f, u: trust_region(p, u),
            "nested iteration": lambda p, f, u: nested(p, u),
            "one way": lambda p, f, u: one_way(p, u),
            "nearest": lambda p, f, u: newton_krylov(p, known.start(p, u, "nearest")),
            "POD": lambda p, f, u: newton_krylov(p, known.start(p, u, "POD")),
            "12 corrections, no Newton": without_newton,
        }
        for card in sorted(beside.glob("*/card.json")):
            signal = json.loads(card.read_text())["signal"]
            ablation = load_corrector(card.parent)
            found[f"reads {signal}"] = partial(_from_network, ablation, 2, signal)
    return [_method(name, solve) for name, solve in found.items()]


def race_instance(family: WaveFamily, seed: Sequence[int], methods: Sequence[Method]) -> Row:
    """One instance by every method: CPU seconds, convergence, factorisations, branch."""
    one = WaveInstance(family.draw(np.random.default_rng(seed))[0])
    found = take_turns(one, methods, TARGET, 1)
    if not any(found[name].miss <= TARGET for name in CLASSICAL):
        slow = _method(LAST, lambda p, f, u: continuation(p, u))
        found |= take_turns(one, [slow], TARGET, 1)
    row: Row = {
        "strength": round(one.problem.strength, 3),
        "linear": round(statistics.median(turns.setup[0] for turns in found.values()), 4),
        "methods": {name: _scores(turns) for name, turns in found.items()},
    }
    good = {name: turns.u for name, turns in found.items() if turns.miss <= TARGET}
    classical = [good[name] for name in (*CLASSICAL, LAST) if name in good]
    if classical and OURS in good:
        u = good[OURS]
        row["branch"] = float(f"{min(norm(u - v) for v in classical) / norm(u):.1e}")
    return row


def _scores(turns: Turns) -> list[float]:
    seconds = round(turns.seconds[0] - turns.setup[0], 4)
    return [seconds, int(turns.miss <= TARGET), turns.iterations]


def race_waves(
    file: Path | None = None,
    cases: Sequence[str] | None = None,
    count: int | None = None,
    *,
    seed: int = SEED,
    beside: Path | None = None,
) -> str:
    """Race what is missing, one row an instance, and tell of all rows in two tables.

    Args:
        file: Rows, to which those that are missing are appended; none are kept by default.
        cases: Keys of `CASES`, all by default.
        count: Instances a case; by default none where there are rows, else two.
        seed: Of the instances.
        beside: Of `wave_methods`.
    """
    rows = [] if file is None or not file.exists() else read_waves(file)
    done = {(row["cell"], row["seed"], row["index"]) for row in rows}
    network = SHIPPED / "waves"
    weights = json.loads((network / "card.json").read_text())["sha256"][:12]
    methods = wave_methods(load_corrector(network), beside)
    if count is None:
        count = 2 if not rows else 0
    for case, index in itertools.product(cases or CASES, range(count)):
        known = Choice(CASES).read("--case", case)
        if (case, seed, index) not in done:
            row = race_instance(CASES[known], [seed, list(CASES).index(case), index], methods)
            rows.append({"cell": case, "seed": seed, "index": index, "weights": weights, **row})
            if file is not None:
                with file.open("a") as stream:
                    stream.write(json.dumps(rows[-1]) + "\n")
    return f"{case_table(rows)}\n\n{method_table(rows, rows[0]['cell'])}"


def read_waves(file: Path) -> list[Row]:
    """The rows of a file; of a race that was repeated the last counts."""
    rows = map(json.loads, file.read_text().splitlines())
    return list({(row["cell"], row["seed"], row["index"]): row for row in rows}.values())


def chain(row: Row, names: Sequence[str]) -> tuple[float, bool]:
    """Seconds until the first of some methods converges, and whether one does."""
    total = row["linear"]
    for name in names:
        total += row["methods"][name][0]
        if row["methods"][name][1]:
            return total, True
    return total, False


def portfolio(rows: Sequence[Row]) -> tuple[str, ...]:
    """The cheapest order of classical methods after Anderson that loses as few as all of them."""
    first, *later = CLASSICAL
    counts = range(len(later) + 1)
    orders = [(first, *o) for count in counts for o in itertools.permutations(later, count)]
    orders += [(first, *o, LAST) for o in itertools.permutations(later)]
    found = [[chain(row, order) for row in rows] for order in orders]
    keys = [(-sum(good for _, good in one), sum(cost for cost, _ in one)) for one in found]
    return orders[keys.index(min(keys))]


def oracle(row: Row) -> float | None:
    """Seconds of the fastest classical method, or None where none converges."""
    raced = [row["methods"][name] for name in (*CLASSICAL, LAST) if name in row["methods"]]
    solved = [seconds for seconds, converged, _ in raced if converged]
    return row["linear"] + min(solved) if solved else None


def ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """The ratio of two sums over instances, with 95 % of its bootstrap."""
    pairs = np.array([above, below])
    drawn = np.random.default_rng(0).integers(len(above), size=(1000, len(above)))
    sums = pairs[:, drawn].sum(2)
    low, high = np.quantile(sums[0] / sums[1], [0.025, 0.975])
    return f"{pairs[0].sum() / pairs[1].sum():.2f} ({low:.2f}-{high:.2f})"


def case_table(rows: Sequence[Row]) -> str:
    """Markdown: one line a case."""
    lines = [
        "| cell | instances | solved: any classical | network + Newton | with fallback "
        "| time over portfolio | over oracle | other branch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in dict.fromkeys(row["cell"] for row in rows):
        chosen = [row for row in rows if row["cell"] == case]
        order = portfolio(chosen)
        costs, solved = zip(
            *(chain(row, (order[0], OURS, *order[1:])) for row in chosen), strict=True
        )
        known = [oracle(row) for row in chosen]
        pairs = [(mine, best) for mine, best in zip(costs, known, strict=True) if best is not None]
        alone = sum(row["methods"][OURS][1] for row in chosen)
        over = ratio(costs, [chain(row, order)[0] for row in chosen])
        other = sum(row.get("branch", 0.0) > 1e-5 for row in chosen)
        over_oracle = ratio(*zip(*pairs, strict=True)) if pairs else "–"
        lines.append(
            f"| {case} | {len(chosen)} | {len(pairs)} | {alone} | {sum(solved)} "
            f"| {over} | {over_oracle} | {other} |"
        )
    return "\n".join(lines)


def method_table(rows: Sequence[Row], case: str = "as trained") -> str:
    """Markdown: every method of one case, alone."""
    chosen = [row["methods"] for row in rows if row["cell"] == case]
    lines = [
        "| method alone | solved | CPU ms where solved | factorisations |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(name for methods in chosen for name in methods):
        raced = [methods[name] for methods in chosen if name in methods]
        good = [one for one in raced if one[1]]
        seconds, _, factors = np.mean(good, axis=0) if good else (math.nan,) * 3
        share = f"{len(good)} of {len(raced)}"
        lines.append(f"| {name} | {share} | {1000 * seconds:.0f} | {factors:.1f} |")
    return "\n".join(lines)
