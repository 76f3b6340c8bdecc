"""Race on nonlinear waves: the network's start against classical methods, to a residual of 1e-9.

Every method gets the factors of the linear equation and its solution; their time counts for all.
Methods take turns on every instance, on one thread, and are charged CPU seconds. From the rows:

    portfolio    Anderson, then classical methods one after the other until one converges: of all
                 their orders and subsets that lose no instance the cheapest on these very rows
    oracle       the fastest classical method of each instance, known in advance; where none
                 converges there is no oracle and the instance is left out of its ratio
    ours         Anderson, then the network and Newton; where that fails, the rest of the portfolio

    python -m paper.wave_race race results/small/waves.jsonl --cell trained --count 100
    python -m paper.wave_race race ROWS --beside DATA --ablation FOLDER ...   more rivals, in turn
    python -m paper.wave_race table results/small/waves.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from neuralsolver.solvers.sparse_lu import SparseLU
from neuralsolver.solvers.wave_newton import WaveAnswer, anderson, damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import Complex, WaveOperator, norm
from neuralsolver.solvers.wave_solver import corrected
from neuralsolver.training.checkpoint import load_corrector
from neuralsolver.training.library import SHIPPED
from paper.wave_family import WaveFamily
from paper.wave_rivals import TrainingStarts, continuation, line_search, nested, trust_region

SEED = 92_611
"""Of the published rows: written down before any of its problems was drawn."""
OURS = "network 2"
HARD = WaveFamily()
CELLS = {
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
Method = Callable[[WaveOperator, SparseLU, Complex], WaveAnswer]
Row = dict[str, Any]

CLASSICAL: dict[str, Method] = {
    "anderson": anderson,
    "newton-gmres frozen": lambda p, f, u: newton_krylov(p, u, preconditioner="frozen", factor=f),
    "newton-gmres complex": lambda p, f, u: newton_krylov(p, u),
    "newton-gmres real": lambda p, f, u: newton_krylov(p, u, preconditioner="real"),
    "nleq": lambda p, f, u: damped_newton(p, u),
}
LAST = "continuation"
"""By far the slowest: raced only where every other classical method fails."""
BESIDE: dict[str, Method] = {
    "line search": lambda p, f, u: line_search(p, u),
    "trust region": lambda p, f, u: trust_region(p, u),
    "nested iteration": lambda p, f, u: nested(p, u),
}
"""Classical methods that no portfolio gains by; raced with --beside."""


def networks(network: nn.Module) -> dict[str, Method]:
    """Newton from the network's iterate after so many corrections."""
    return {f"network {n}": partial(_from_network, network, n, "preconditioned") for n in (1, 2, 4)}


def _from_network(
    network: nn.Module, corrections: int, signal: str, p: WaveOperator, f: SparseLU, u: Complex
) -> WaveAnswer:
    return newton_krylov(p, corrected(network, p, f, u, corrections=corrections, signal=signal)[0])


def beside(network: nn.Module, data: Path, ablations: list[Path]) -> dict[str, Method]:
    """Classical methods and other starts of the same Newton-GMRES, and no Newton at all."""
    known = TrainingStarts(data)

    def without_newton(p: WaveOperator, f: SparseLU, u: Complex) -> WaveAnswer:
        best = corrected(network, p, f, u, corrections=12)[0]
        residual = p.relative_residual(best)
        return WaveAnswer(best, residual, residual <= 1e-9)

    methods = BESIDE | {
        "nearest": lambda p, f, u: newton_krylov(p, known.start(p, u, "nearest")),
        "POD": lambda p, f, u: newton_krylov(p, known.start(p, u, "POD")),
        "12 corrections, no Newton": without_newton,
    }
    for folder in ablations:
        signal = json.loads((folder / "card.json").read_text())["signal"]
        methods[f"reads {signal}"] = partial(_from_network, load_corrector(folder), 2, signal)
    return methods


def race(family: WaveFamily, seed: list[int], methods: dict[str, Method]) -> Row:
    """One instance by every method: CPU seconds, convergence, factorisations, branch."""
    problem, factor, linear = family.draw(np.random.default_rng(seed))
    begun = time.process_time()
    problem.normalised()
    row: Row = {"strength": round(problem.strength, 3)}
    row["linear"] = round(time.process_time() - begun, 4)
    answers: dict[str, WaveAnswer] = {}
    row["methods"] = {}

    def take_turn(name: str, method: Method) -> None:
        begun = time.process_time()
        answer = answers[name] = method(problem, factor, linear)
        seconds = round(time.process_time() - begun, 4)
        row["methods"][name] = [seconds, int(answer.converged), answer.factorisations]

    for name, method in methods.items():
        take_turn(name, method)
    if not any(answers[name].converged for name in CLASSICAL):
        take_turn(LAST, lambda p, f, u: continuation(p, u))
    good = {name: answer.u for name, answer in answers.items() if answer.converged}
    classical = [u for name, u in good.items() if name in (*CLASSICAL, LAST)]
    if classical and OURS in good:
        u = good[OURS]
        row["branch"] = float(f"{min(norm(u - v) for v in classical) / norm(u):.1e}")
    return row


def chain(row: Row, names: tuple[str, ...]) -> tuple[float, bool]:
    """Seconds until the first of some methods converges, and whether one does."""
    total = row["linear"]
    for name in names:
        total += row["methods"][name][0]
        if row["methods"][name][1]:
            return total, True
    return total, False


def portfolio(rows: list[Row]) -> tuple[str, ...]:
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


def ratio(above: list[float], below: list[float]) -> str:
    """The ratio of two sums over instances, with 95 % of its bootstrap."""
    if not above:
        return "–"
    pairs = np.array([above, below])
    drawn = np.random.default_rng(0).integers(len(above), size=(1000, len(above)))
    sums = pairs[:, drawn].sum(2)
    low, high = np.quantile(sums[0] / sums[1], [0.025, 0.975])
    return f"{pairs[0].sum() / pairs[1].sum():.2f} ({low:.2f}-{high:.2f})"


def table(rows: list[Row]) -> str:
    """Markdown: one line a cell."""
    lines = [
        "| cell | instances | solved: any classical | network + Newton | with fallback "
        "| time over portfolio | over oracle | other branch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in dict.fromkeys(row["cell"] for row in rows):
        chosen = [row for row in rows if row["cell"] == cell]
        order = portfolio(chosen)
        ours = [chain(row, (order[0], OURS, *order[1:])) for row in chosen]
        theirs = [chain(row, order)[0] for row in chosen]
        best = [(mine[0], known) for mine, row in zip(ours, chosen, strict=True)
                if (known := oracle(row)) is not None]  # fmt: skip
        alone = sum(row["methods"][OURS][1] for row in chosen)
        other = sum(row.get("branch", 0.0) > 1e-5 for row in chosen)
        lines.append(
            f"| {cell} | {len(chosen)} | {len(best)} | {alone} | {sum(good for _, good in ours)} "
            f"| {ratio([cost for cost, _ in ours], theirs)} "
            f"| {ratio([a for a, _ in best], [b for _, b in best])} | {other} |"
        )
    return "\n".join(lines)


def methods_table(rows: list[Row], cell: str = "as trained") -> str:
    """Markdown: every method of one cell, alone."""
    chosen = [row["methods"] for row in rows if row["cell"] == cell]
    lines = [
        "| method alone | solved | CPU ms where solved | factorisations |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(name for methods in chosen for name in methods):
        raced = [methods[name] for methods in chosen if name in methods]
        good = [one for one in raced if one[1]]
        seconds, _, factors = np.mean(good, axis=0) if good else (float("nan"),) * 3
        share = f"{len(good)} of {len(raced)}"
        lines.append(f"| {name} | {share} | {1000 * seconds:.0f} | {factors:.1f} |")
    return "\n".join(lines)


def read(path: Path) -> list[Row]:
    """The rows of a file; of a race that was repeated the last counts."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return list({(row["cell"], row["seed"], row["index"]): row for row in rows}.values())


def main() -> None:
    """Race or print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("race", "table"))
    parser.add_argument("rows", type=Path)
    parser.add_argument("--weights", type=Path, default=SHIPPED / "waves")
    parser.add_argument("--cell", action="append", choices=list(CELLS))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--beside", type=Path, help="folder of training problems")
    parser.add_argument("--ablation", type=Path, action="append", default=[])
    given = parser.parse_args()
    if given.what == "table":
        rows = read(given.rows)
        print(table(rows), methods_table(rows), sep="\n\n")
        return
    torch.set_num_threads(1)
    network = load_corrector(given.weights)
    methods = CLASSICAL | networks(network)
    if given.beside is not None:
        methods |= beside(network, given.beside, given.ablation)
    weights = json.loads((given.weights / "card.json").read_text())["sha256"][:12]
    for cell in given.cell or list(CELLS):
        for index in range(given.first, given.first + given.count):
            row = race(CELLS[cell], [given.seed, list(CELLS).index(cell), index], methods)
            row = {"cell": cell, "seed": given.seed, "index": index, "weights": weights, **row}
            with given.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
