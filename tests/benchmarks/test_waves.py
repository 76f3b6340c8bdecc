"""The race on waves: its arithmetic, its rivals, and the page that tells of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import waves
from benchmarks.__main__ import app
from benchmarks.wave_rivals import (
    TrainingStarts,
    continuation,
    line_search,
    nested,
    trust_region,
)
from benchmarks.waves import WaveFamily
from neuralsolver.cli import run
from neuralsolver.solvers.wave_newton import damped_newton
from neuralsolver.solvers.wave_operator import norm
from paper.wave_training import write_shard

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "results" / "waves.jsonl"
SMALL = WaveFamily(points=32, strength=(0.1, 0.1))


def row(**methods: tuple[float, int]) -> waves.Row:
    names = {name.split()[-1]: name for name in waves.CLASSICAL} | {"network": waves.OURS}
    all_methods = {name: [1.0, 0, 1] for name in waves.CLASSICAL} | {waves.OURS: [0.5, 1, 1]}
    given = {names[name]: [*pair, 1] for name, pair in methods.items()}
    return {"cell": "as trained", "seed": 0, "index": 0, "linear": 0.1,
            "methods": all_methods | given}  # fmt: skip


def test_the_portfolio_loses_nothing_and_is_cheapest() -> None:
    both = [row(frozen=(0.2, 1)), row(nleq=(3.0, 1)), row(frozen=(0.4, 1), nleq=(2.0, 1))]
    order = waves.portfolio(both)
    assert order == ("anderson", "newton-gmres frozen", "nleq")
    assert waves.chain(both[0], order) == (pytest.approx(1.3), True)
    assert waves.chain(both[1], order) == (pytest.approx(5.1), True)
    assert waves.portfolio(both[:1]) == ("anderson", "newton-gmres frozen")


def test_the_oracle_is_the_fastest_that_converges() -> None:
    assert waves.oracle(row(frozen=(0.2, 1), nleq=(0.1, 1))) == pytest.approx(0.2)
    assert waves.oracle(row(frozen=(0.05, 0))) is None


def test_the_table_counts() -> None:
    rows = [row(nleq=(3.0, 1)), row(frozen=(0.2, 1), network=(0.5, 0))]
    rows[0]["branch"] = 0.3
    line = waves.case_table(rows).splitlines()[-1]
    assert line.startswith("| as trained | 2 | 2 | 1 | 2 | ")
    assert line.endswith("| 1 |")
    # ours 0.1 + 1 + 0.5 and 0.1 + 1 + 0.5 + 0.2, the portfolio 0.1 + 1 + 1 + 3 and 0.1 + 1 + 0.2
    assert f"| {3.4 / 6.4:.2f} (" in line


def test_rivals_agree() -> None:
    problem, _, linear = SMALL.draw(np.random.default_rng(0))
    expected = damped_newton(problem, linear).u
    for method in (continuation, line_search, trust_region, nested):
        answer = method(problem, linear)
        assert answer.converged, method
        assert norm(answer.u - expected) < 1e-6 * norm(expected)


def test_the_trust_region_shortens_steps() -> None:
    problem, _, linear = WaveFamily(strength=(0.3, 0.3)).draw(np.random.default_rng(1))
    answer = trust_region(problem, linear)
    assert answer.converged
    assert problem.relative_residual(answer.u) <= 1e-9


def test_starts_from_training_problems(tmp_path: Path) -> None:
    """A problem that was trained on, turned by a quarter, is its own nearest neighbour."""
    write_shard(tmp_path / "64-0.npz", SMALL, 4, [3])
    known = TrainingStarts(tmp_path)
    data = np.load(tmp_path / "64-0.npz")
    problem, _, _ = SMALL.draw(np.random.default_rng(9))
    turned = replace(
        problem,
        slowness=np.rot90(data["slowness"][1]).astype(float),
        source=np.rot90(data["source"][1]).astype(complex),
        strength=float(data["strength"][1]),
    )
    _, _, linear, unit = turned.normalised()
    start = turned.embed(known.start(turned, unit * linear, "nearest"))
    expected = np.rot90(data["solution"][1])
    # only where the linear wave is weak do they differ
    assert np.linalg.norm(start - expected) < 0.1 * np.linalg.norm(expected)
    fitted = turned.embed(known.start(turned, unit * linear, "POD"))
    assert np.linalg.norm(fitted - expected) < 0.2 * np.linalg.norm(expected)


def test_a_race_is_run_once_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of the command are those of the harness; what is in the file is not raced again."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setitem(waves.CASES, "weak", WaveFamily(points=40, strength=(0.05, 0.1)))
    file = tmp_path / "waves.jsonl"
    before = torch.get_num_threads()
    command = ["waves", "--case", "weak", "--rows", str(file)]
    for _ in range(2):
        assert run([*command, "--samples", "2"], app) == 0
    torch.set_num_threads(before)
    rows = waves.read_waves(file)
    assert [one["index"] for one in rows] == [0, 1]
    assert len(file.read_text().splitlines()) == 2
    for one in rows:
        assert set(one["methods"]) == {*waves.CLASSICAL, "network 1", "network 2", "network 4"}
        assert one["methods"]["anderson"][1:] == [1, 0]
        assert one["linear"] > 0
        assert one["branch"] < 1e-6
    assert "| weak | 2 | 2 | 2 | 2 | 1.00 (1.00-1.00) |" in capsys.readouterr().out
    assert run(["waves", "--case", "nothing", "--samples", "1"], app) == 1


def test_the_page_tells_the_rows() -> None:
    rows = waves.read_waves(ROWS)
    assert {one["seed"] for one in rows} == {waves.SEED}
    page = (ROOT / "docs" / "waves.md").read_text()
    assert waves.case_table(rows) in page
    assert waves.method_table(rows) in page
