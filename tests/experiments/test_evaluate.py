"""From a model that does not exist yet to rows, at tiny scale."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from neuralsolver.cli import run
from neuralsolver.equations import Darcy, Helmholtz, Poisson, Problem
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.evaluation.measure import Subject, measure
from neuralsolver.evaluation.metrics import relative_error, residual_mse
from neuralsolver.experiments.evaluate import Evaluation
from neuralsolver.experiments.methods import METHODS, Setting
from neuralsolver.experiments.paper import EXPERIMENTS, Regime, instances
from neuralsolver.experiments.recipes import RECIPES, make_plan, make_solver
from neuralsolver.experiments.rows import append_row, read_rows
from neuralsolver.experiments.trainings import SCALES
from neuralsolver.solvers.wrappers import Answer

TINY = replace(SCALES["tiny"], samples=16, batches=2)
FIELDS = {"error", "error_spread", "error_worst", "residual", "steps", "status", "samples"}


def evaluation(tmp_path, name, **changes):
    return Evaluation(
        EXPERIMENTS[name],
        changes.pop("scale", TINY),
        results=tmp_path / "results",
        runs=tmp_path / "runs",
        data=tmp_path / "data",
        samples=changes.pop("samples", 2),
        **changes,
    )


def test_every_method_gives_a_row(tmp_path):
    here = evaluation(tmp_path, "nonlinear-helmholtz")
    methods = [key for key in METHODS if not key.startswith(("newton-from", "gauss-newton-from"))]
    rows = here.run(methods, ["in-distribution"])
    assert [row["method"] for row in rows] == methods
    for row in rows:
        assert set(row) >= FIELDS | {"seconds_batch_1", "seconds_batch_32", "history", "machine"}
        assert sum(row["status"].values()) == row["samples"]
        json.dumps(row, allow_nan=False)
    by_method = {row["method"]: row for row in rows}
    assert by_method["truth"]["error"] == 0.0
    assert by_method["truth"]["residual"] < 1e-16 * by_method["zero"]["residual"]
    assert by_method["zero"]["error"] == 1.0
    assert by_method["reference"]["error"] < 1e-12
    assert by_method["newton"]["error"] < 1e-6


def test_what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    here = evaluation(tmp_path, "poisson")
    first = here.run(["zero", "fno"], ["in-distribution", "shift"])
    monkeypatch.setattr("neuralsolver.experiments.evaluate.measure", pytest.fail)
    assert here.run(["fno", "zero"], ["shift"]) == [first[3], first[2]]


def test_a_killed_writer_loses_its_own_row_only(tmp_path):
    file = tmp_path / "rows.jsonl"
    append_row(file, {"a": 1})
    with file.open("a") as stream:
        stream.write('{"a": 2, "b"')
    assert read_rows(file) == [{"a": 1}]
    append_row(file, {"a": 3})
    assert read_rows(file) == [{"a": 1}, {"a": 3}]
    file.write_text('{"a": 1\n{"a": 3}\n')
    with pytest.raises(FileDamaged, match="line 1"):
        read_rows(file)


def test_another_seed_means_other_instances(tmp_path):
    rows = [
        evaluation(tmp_path, "helmholtz", seed=seed).run(["zero"], ["in-distribution"])[0]
        for seed in (1, 2)
    ]
    assert rows[0]["residual"] != rows[1]["residual"]
    assert len(read_rows(evaluation(tmp_path, "helmholtz").file)) == 2


def test_what_cannot_be_done_is_a_value(tmp_path):
    # a contractive model is not applied below its own resolution
    here = evaluation(tmp_path, "darcy")
    here.run(["ens-contractive"], ["in-distribution"])
    smaller = Regime("smaller", Darcy())
    drawn = instances(smaller, 8, 1, 3, tmp_path / "data")
    setting = Setting(smaller, drawn.problem, drawn.exact, 3, 1.0, here.model)
    with pytest.raises(InvalidInput, match="resolution"):
        METHODS["ens-contractive"].prepare(setting).solve(drawn.problem)
    odd = replace(here.experiment, regimes=(smaller,))

    class Half(Evaluation):
        def model(self, recipe):
            return here.model(recipe)

    scale = replace(TINY, resolution=8)
    half = Half(odd, scale, tmp_path / "r", tmp_path / "runs", tmp_path / "data", samples=2)
    row = half.run(["ens-contractive"])[0]
    assert row["status"] == {"NOT_APPLICABLE": row["samples"]}
    assert row["error"] is None
    assert "resolution" in row["reason"]


def test_memory_that_runs_out_is_a_value(tmp_path, monkeypatch):
    def greedy(setting):
        raise MemoryError

    monkeypatch.setitem(METHODS, "zero", replace(METHODS["zero"], prepare=greedy))
    row = evaluation(tmp_path, "poisson").run(["zero"], ["in-distribution"])[0]
    assert row["status"] == {"OUT_OF_MEMORY": 2}


def test_the_regimes_change_what_they_say(tmp_path):
    regimes = {regime.key: regime for regime in EXPERIMENTS["helmholtz"].regimes}
    plain = instances(regimes["in-distribution"], 16, 2, 5, tmp_path)
    fine = instances(regimes["super-resolution"], 16, 2, 5, tmp_path)
    noisy = instances(regimes["noisy-input"], 16, 2, 5, tmp_path)
    wrong = instances(regimes["wrong-constant"], 16, 2, 5, tmp_path)
    assert fine.problem.resolution == 32
    ratio = (noisy.problem.inputs - plain.problem.inputs).norm() / plain.problem.inputs.norm()
    assert ratio == pytest.approx(0.5, rel=0.1)
    assert float(residual_mse(noisy.true_problem, noisy.exact).max()) < 1e-16
    assert wrong.problem.equation == Helmholtz(wavenumber=1.5)
    assert wrong.true_problem.equation == Helmholtz()
    assert float(residual_mse(wrong.true_problem, wrong.exact).max()) < 1e-16
    assert float(residual_mse(wrong.problem, wrong.exact).min()) > 1e-3


def test_the_error_in_a_row_is_the_error_of_the_field():
    problem = Problem.random(Poisson(), 16, 3, seed=4)
    exact = torch.rand(3, 1, 16, 16, dtype=torch.float64)
    factors = torch.tensor([1.1, 0.8, 1.0]).double().view(3, 1, 1, 1)
    known = {float(f.sum()): u for f, u in zip(problem.inputs, factors * exact, strict=True)}
    solver = Answer(lambda p: torch.stack([known[float(f.sum())] for f in p.inputs]))
    row = measure(solver, Subject(problem, problem, exact), batch=2)
    assert row["error"] == pytest.approx(0.1, rel=1e-3)
    assert row["error_worst"] == pytest.approx(0.2, rel=1e-3)
    assert row["residual"] == pytest.approx(
        float(residual_mse(problem, factors * exact).mean()), rel=1e-3
    )
    assert relative_error(exact, exact).max() == 0


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_makes_a_solver_and_a_plan(recipe):
    for scale in SCALES.values():
        assert make_plan(recipe, scale)
    solver = make_solver(recipe, Darcy(), TINY)
    again = make_solver(recipe, Darcy(), TINY)
    problem = Problem.random(Darcy(), 16)
    with torch.no_grad():
        assert torch.equal(solver.predict(problem), again.predict(problem))


@pytest.mark.parametrize("study", ["starts", "noisy-start", "conditioning", "fields"])
def test_studies_are_written_once(tmp_path, study, monkeypatch, capsys):
    monkeypatch.setitem(SCALES, "tiny", TINY)
    monkeypatch.setattr(
        "neuralsolver.experiments.studies.CONDITIONED", (Poisson(), Helmholtz(nonlinearity=1.0))
    )
    arguments = ["evaluate", study, "--scale", "tiny", "--results", str(tmp_path / "results")]
    arguments += ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "data")]
    assert run(arguments) == 0
    file = next((tmp_path / "results" / "tiny").glob(f"{study}.*"))
    before = file.stat().st_mtime_ns
    assert run(arguments) == 0
    assert file.stat().st_mtime_ns == before
    if study == "fields":
        with np.load(file) as fields:
            assert {"helmholtz/shift/truth", "darcy/shift/ens", "helmholtz/shift/ens@1/error"} <= (
                set(fields)
            )
    else:
        assert json.loads(file.read_text())


def test_the_command_prints_rows_and_names_what_it_does_not_know(tmp_path, capsys):
    arguments = ["--scale", "tiny", "--samples", "1", "--method", "zero", "--regime", "shift"]
    places = ["--results", str(tmp_path / "r"), "--data", str(tmp_path / "d")]
    assert run(["evaluate", "darcy", *arguments, *places, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["method"] == "zero"
    assert run(["evaluate", "darcy", *arguments, *places]) == 0
    assert "zero" in capsys.readouterr().out
    assert run(["evaluate", "euler"]) == 1
    assert "experiment: expected one of helmholtz" in capsys.readouterr().err
    assert run(["evaluate", "darcy", "--method", "magic", *places]) == 1
    assert "method: expected one of truth" in capsys.readouterr().err


def test_rows_measured_here_become_a_report(tmp_path, capsys):
    evaluation(tmp_path, "poisson").run(["truth", "zero", "fno", "ens"], ["in-distribution"])
    folder = tmp_path / "results"
    assert run(["report", "--scale", "tiny", "--results", str(folder)]) == 0
    assert "evolution-poisson.png" in capsys.readouterr().out
    table = (folder / "tiny" / "tables" / "forward-poisson.md").read_text()
    rows = read_rows(folder / "tiny" / "poisson.jsonl")
    assert f"{rows[2]['error']:.2e}" in table
