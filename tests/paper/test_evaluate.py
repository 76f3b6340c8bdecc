"""From a model that does not exist yet to rows, at tiny scale."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.equations import Darcy, Helmholtz, NavierStokes, Poisson, Problem
from neuralsolver.solvers.norms import relative_error
from neuralsolver.solvers.wrappers import Answer
from neuralsolver.training import presets as trainings
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_solver
from paper import table_recipes
from paper.cells import measured
from paper.figures import accuracy
from paper.measure import EvaluationSet, failed, measure
from paper.methods import (
    METHODS,
    Method,
    methods_of,
    register,
    register_backbone,
)
from paper.metrics import residual_mse
from paper.regimes import EXPERIMENTS, Regime, instances
from paper.results import Results
from paper.rows import read_rows
from paper.style import styles_of
from paper.table_recipes import BACKBONES
from paper.tables import tables
from paper.typeset import markdown
from tests.paper.made_up import lines_of
from tests.paper.small import TINY, evaluation, run

FIELDS = {"error", "error_spread", "error_worst", "residual", "steps", "status", "samples"}


def test_every_method_gives_a_row(tmp_path):
    here = evaluation(tmp_path, "nonlinear-helmholtz")
    rows = here.run(None, ["in-distribution"])
    assert [row["method"] for row in rows] == [m.key for m in methods_of(here.experiment)]
    for row in rows:
        assert set(row) >= FIELDS | {"seconds_batch_1", "seconds_batch_32", "history", "machine"}
        assert sum(row["status"].values()) == row["samples"]
        assert "NOT_APPLICABLE" not in row["status"], row["reason"]
        json.dumps(row, allow_nan=False)
    by_method = {row["method"]: row for row in rows}
    assert by_method["truth"]["error"] == 0.0
    assert by_method["truth"]["residual"] < 1e-16 * by_method["zero"]["residual"]
    assert by_method["zero"]["error"] == 1.0
    assert by_method["reference"]["error"] < 1e-12
    assert by_method["newton"]["error"] < 1e-5


def test_a_row_keeps_its_errors_and_its_budget(tmp_path):
    here = evaluation(tmp_path, "poisson", samples=9)
    zero, fno, fitted = here.run(["zero", "fno", "pino-ttop"], ["in-distribution"])
    assert zero["errors"] == [1.0] * 9
    assert sum(fno["errors"]) / 9 == pytest.approx(fno["error"], rel=2e-3)
    assert zero["training"] is None
    assert fno["training"]["batches"] == TINY.batches
    assert fno["training"]["clock"] == "CPU"
    assert fno["training"]["weights"] == sum(
        p.numel() for p in here.model("fno").network.parameters()
    )
    assert fitted["effort"] == TINY.effort
    assert "effort" not in fno
    found = Results.read(tmp_path / "results" / "tiny")
    assert "±" in measured(found.get("poisson", "in-distribution", "fno"), "error")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nonlinear-helmholtz", "helmholtz", "ablations"])
def test_no_method_sees_the_truth(tmp_path, monkeypatch, name):
    """Every answer is the same where the exact solutions are not numbers."""
    here = evaluation(tmp_path, name)
    answers = {}

    def recorded(solver, subject):
        part = subject.select(slice(0, 1))
        answers.setdefault(current[0], []).append(solver.solve(part.problem).tensor)
        return failed(subject.problem.batch, "FINISHED")

    def hidden(*arguments):
        drawn = instances(*arguments)
        return replace(drawn, exact=torch.full_like(drawn.exact, torch.nan))

    monkeypatch.setattr("paper.evaluate.measure", recorded)
    compared = [method for method in methods_of(here.experiment) if method.prepare is not None]
    for blind in (False, True):
        if blind:
            monkeypatch.setattr("paper.evaluate.instances", hidden)
        for method in compared:
            current = [method.key]
            replace(here, results=tmp_path / str(blind)).run([method.key], ["in-distribution"])
    assert answers.keys() == {method.key for method in compared}
    for key, (seeing, blind) in answers.items():
        assert torch.isfinite(blind).all(), key
        assert torch.equal(seeing, blind), key


def test_a_new_method_is_one_row(tmp_path, monkeypatch):
    """It is evaluated, stands in the tables and is drawn, and no other list is touched."""
    monkeypatch.setitem(METHODS, "halved", None)  # undone in the end
    halved = Answer(lambda problem: 0.5 * ReferenceSolver().solve(problem).tensor)
    register(Method("halved", "learned", "half the solution", lambda _: halved))
    here = evaluation(tmp_path, "poisson")
    rows = here.run(["halved", "reference", "zero"])
    assert rows[0]["error"] == pytest.approx(0.5, rel=1e-3)
    results = Results.read(here.file.parent)
    found = {table.name: markdown(table) for table in tables(results)}
    assert "| half the solution | here |  |  |  | 5.00e-01" in found["forward-poisson"].replace(
        "*", ""
    )
    assert "half the solution" in found["seconds"]
    figure = accuracy(results, "poisson")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "half the solution" in labels


def test_a_new_backbone_is_one_row(tmp_path, monkeypatch):
    """A network of the models and a row of sizes make a recipe, a method and a line."""
    presets = list(trainings.PRESETS)
    for module in (trainings, table_recipes):
        monkeypatch.setattr(module, "PRESETS", presets)
    for registry in (BACKBONES, trainings.NETWORKS, METHODS):
        for key in ("flat", "ens-flat", *(("ens-flat", scale) for scale in SCALES)):
            monkeypatch.setitem(registry, key, None)
            monkeypatch.delitem(registry, key)
    sizes = {scale: {"width": 4, "multipliers": [1]} for scale in SCALES}
    register_backbone("flat", "flat U-net", "unet", **sizes)
    here = evaluation(tmp_path, "ablations")
    assert "paper-flat" in trainings.recipes_for(Helmholtz())
    rows = here.run(["ens-flat", "ens"], ["in-distribution"])
    assert rows[0]["steps"] == 15
    (table,) = [t for t in tables(Results.read(here.file.parent)) if t.name == "backbones"]
    texts = dict(lines_of(table))["flat U-net", "here"]
    assert texts[1] == str(rows[0]["training"]["batches"])
    assert f"{rows[0]['error']:.2e}" in texts[3]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_two_methods_of_an_experiment_look_alike(name):
    methods = methods_of(EXPERIMENTS[name])
    looks = styles_of((method.key for method in methods), name).values()
    assert len({(look.colour, look.marker) for look in looks}) == len(methods)
    assert len({look.label for look in looks}) == len(methods)


def test_another_seed_means_other_instances(tmp_path):
    rows = [
        evaluation(tmp_path, "helmholtz", seed=seed).run(["zero"], ["in-distribution"])[0]
        for seed in (1, 2)
    ]
    assert rows[0]["residual"] != rows[1]["residual"]
    assert len(read_rows(evaluation(tmp_path, "helmholtz").file)) == 2


def test_what_cannot_be_done_is_a_value(tmp_path):
    """Newton's matrices are those of static equations."""
    flow = Regime("flow", NavierStokes(frames=4, start_time=0.0))
    here = evaluation(tmp_path, "darcy")
    odd = replace(here, experiment=replace(here.experiment, regimes=(flow,)))
    (row,) = odd.run(["newton"])
    assert row["status"] == {"NOT_APPLICABLE": row["samples"]}
    assert row["error"] is None
    assert "equation" in row["reason"]


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
    row = measure(solver, EvaluationSet(problem, problem, exact), batch=2)
    assert row["error"] == pytest.approx(0.1, rel=1e-3)
    assert row["error_worst"] == pytest.approx(0.2, rel=1e-3)
    assert row["residual"] == pytest.approx(
        float(residual_mse(problem, factors * exact).mean()), rel=1e-3
    )
    assert relative_error(exact, exact).max() == 0


@pytest.mark.parametrize("recipe", trainings.recipes_for(Darcy()))
def test_every_recipe_makes_the_same_solver_twice(recipe):
    solver = make_solver(recipe, Darcy(), TINY)
    again = make_solver(recipe, Darcy(), TINY)
    problem = Problem.random(Darcy(), 16)
    with torch.no_grad():
        assert torch.equal(solver.predict(problem), again.predict(problem))


@pytest.mark.slow
@pytest.mark.parametrize("study", ["starts", "noisy-start", "conditioning", "fields"])
def test_studies_are_written_once(tmp_path, study, monkeypatch, capsys):
    monkeypatch.setitem(SCALES, "tiny", TINY)
    monkeypatch.setattr("paper.studies.CONDITIONED", (Poisson(), Helmholtz(nonlinearity=1.0)))
    arguments = ["evaluate", study, "--scale", "tiny", "--results", str(tmp_path / "results")]
    arguments += ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "data")]
    assert run(arguments) == 0
    file = next((tmp_path / "results" / "tiny").glob(f"{study}.*"))
    before = file.stat().st_mtime_ns
    assert run(arguments) == 0
    assert file.stat().st_mtime_ns == before
    if study == "fields":
        with np.load(file) as fields:
            names = {
                "helmholtz/shift/truth",
                "darcy/shift/ens/error",
                "helmholtz/shift/ens@1/error",
            }
            assert names <= set(fields)
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
    assert "method: expected one of ens," in capsys.readouterr().err


def test_rows_measured_here_become_a_report(tmp_path, capsys):
    evaluation(tmp_path, "poisson").run(["truth", "zero", "fno", "ens"], ["in-distribution"])
    folder = tmp_path / "results"
    assert run(["report", "--scale", "tiny", "--results", str(folder)]) == 0
    assert "evolution-poisson.png" in capsys.readouterr().out
    table = (folder / "tiny" / "tables" / "forward-poisson.md").read_text()
    rows = read_rows(folder / "tiny" / "poisson.jsonl")
    assert f"{rows[2]['error']:.2e}" in table
