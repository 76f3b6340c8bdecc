"""The race to a given accuracy: its solutions, its rows, its table."""

from __future__ import annotations

import json

import numpy as np
from scipy.sparse.linalg import spsolve

from neuralsolver.bench import solve
from neuralsolver.cli import run

FIELDS = {
    "method", "resolution", "target", "seconds", "setup_seconds", "assembly_seconds",
    "iterations", "error", "samples", "seed", "machine", "reached", "best", "family",
}  # fmt: skip


def test_the_exact_solution_is_exact():
    one = solve.instance(24, seed=1, index=1)
    direct = spsolve(one.matrix, one.right)
    assert one.error(direct) < 1e-12
    residual = one.matrix @ one.exact - one.right
    assert np.linalg.norm(residual) < 1e-12 * np.linalg.norm(one.right)


def test_the_tolerance_is_the_first_that_meets_the_target():
    one = solve.instance(24, seed=1, index=0)
    method = solve._sine_preconditioned()
    for target in solve.TARGETS:
        tolerance, iterations, error = solve._walk(method, one, target)
        assert 0 < error <= target
        assert iterations > 0
        larger = tolerance * 10**0.5
        if larger in solve.TOLERANCES:
            u, _ = method.solve(one, None, larger)
            assert one.error(u) > target


def test_rows_say_who_needed_how_long(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(solve, "REPEATS", 1)
    monkeypatch.setattr(solve, "TARGETS", (1e-3,))
    command = ["bench", "solve", "--resolutions", "64", "--samples", "1", "--seed", "3", "--json"]
    assert run(command) == 0
    rows = json.loads(capsys.readouterr().out)
    for row in rows:
        assert set(row) == FIELDS
        assert row["error"] <= row["target"] == 1e-3
        assert row["reached"]
        assert 0 <= row["setup_seconds"] <= row["seconds"]
        assert (row["resolution"], row["samples"], row["seed"]) == (64, 1, 3)
    families = [row["family"] for row in rows if row["best"]]
    assert families == ["ENS", "no network", "direct", "PyAMG", "multigrid", "reference"]
    text = solve.table([*rows, {**rows[0], "reached": False}])
    assert len(text.splitlines()) == len(rows) + 2
    assert "MISSED" in text
    assert "PyAMG Ruge-Stuben" in text


def test_several_grids_follow_one_option(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(solve, "measure", lambda **options: [options])
    assert run(["bench", "solve", "--resolutions", "64", "128", "--samples", "2", "--json"]) == 0
    (options,) = json.loads(capsys.readouterr().out)
    assert options["resolutions"] == [64, 128]
    assert options["samples"] == 2
