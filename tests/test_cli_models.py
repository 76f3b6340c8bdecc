"""The commands that train and use models, as a user gives them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neuralsolver.cli import run
from neuralsolver.equations import EQUATIONS
from neuralsolver.training import Card, load, save_model
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_solver


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Untrained models: what they cannot do, the classical finish does."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("poisson", "darcy", "nonlinear-helmholtz"):
        for recipe in ("contractive", "fno"):
            solver = make_solver(recipe, EQUATIONS[name], SCALES["tiny"])
            save_model(folder / f"{name}-{recipe}", solver, Card(EQUATIONS[name], 16, {}))
    return folder


def test_train_continue_and_find(tmp_path, capsys):
    command = ["train", "poisson", "--scale", "tiny", "--plan", "batches=4", "--seed", "1"]
    command += ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "data")]
    assert run(command) == 0
    first = capsys.readouterr().out.strip()
    solver = load(first)
    assert solver.record["stages"]["training"]["batches"] == 4
    assert solver.record["seed"] == 1
    assert run(command) == 0
    assert capsys.readouterr().out.strip() == first
    assert run([*command, "--plan", "learning_rate=1e-4"]) == 0
    assert capsys.readouterr().out.strip() != first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plan", "colour=blue"], ["--plan", "batch_size", "colour"]),
        (["--plan", "seed=3"], ["--plan", "seed"]),
        (["--plan", "batches=many"], ["batches", "whole number", "many"]),
        (["--recipe", "magic"], ["recipe", "contractive", "magic"]),
        (["--scale", "huge"], ["scale", "small", "huge"]),
        (["--budget-minutes", "1", "--plan", "batches=3"], ["--budget-minutes", "batches"]),
    ],
)
def test_bad_training_options_are_one_line(tmp_path, capsys, arguments, words):
    options = ["--scale", "tiny", "--runs", str(tmp_path), "--data", str(tmp_path)]
    assert run(["train", "poisson", *options, *arguments]) == 1
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert all(word in error for word in words), error


def test_solve_a_field_of_the_users(models, tmp_path, capsys):
    field = np.random.default_rng(0).standard_normal((16, 16))
    np.save(tmp_path / "f.npy", field)
    command = ["solve", str(models / "poisson-contractive"), "--input", str(tmp_path / "f.npy")]
    command += ["--output", str(tmp_path / "u.npy"), "--set", "scale=1", "--tolerance", "1e-9"]
    assert run([*command, "--plot", str(tmp_path / "u.png"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["good"]
    assert max(result["relative_residual"]) <= 1e-9
    u = np.load(tmp_path / "u.npy")
    laplacian = (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    ) * 15**2
    assert np.allclose(laplacian, field[1:-1, 1:-1], atol=1e-7)
    assert (tmp_path / "u.png").stat().st_size > 1000


def test_an_answer_that_was_not_reached_is_exit_code_3(models, capsys):
    """Past the fold there is no solution; an operator without corrector has only its guess."""
    command = ["solve", str(models / "nonlinear-helmholtz-contractive"), "--tolerance", "1e-8"]
    assert run([*command, "--set", "source_amplitude=3000"]) == 3
    assert "carried on classically" in capsys.readouterr().out
    assert run(["solve", str(models / "poisson-fno"), "--steps", "0"]) == 0


def test_the_text_says_what_differs_from_training(models, capsys):
    command = ["solve", str(models / "darcy-contractive"), "--set", "source=200"]
    assert run([*command, "--resolution", "24", "--tolerance", "1e-8"]) == 0
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert "source = 200 was 100 in training" in text
    assert "V-cycles" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ["model", "nowhere"]),
        (["{poisson}", "--input", "{missing}"], ["missing.npy"]),
        (["{fno}", "--input", "{small}"], ["resolution", "16", "8"]),
        (["{fno}", "--input", "{oblong}"], ["resolution", "(16, 20)"]),
        (["{poisson}", "--input", "{nan}"], ["source", "finite"]),
        (["{poisson}", "--input", "{complex}"], ["source", "complex"]),
        (["{poisson}", "--input", "{text}"], ["--input", ".npy"]),
        (["{poisson}", "--steps", "3", "--tolerance", "1e-3"], ["steps", "tolerance"]),
        (["{poisson}", "--steps", "-1"], ["steps", "-1"]),
        (["{poisson}", "--tolerance", "-1"], ["tolerance", "-1"]),
        (["{poisson}", "--set", "colour=3"], ["constant", "scale", "colour"]),
        (["{fno}", "--steps", "3"], ["steps", "corrector"]),
    ],
)
def test_bad_input_to_solve_is_one_line(models, tmp_path, capsys, arguments, words):
    fields = {
        "small": np.zeros((8, 8)),
        "oblong": np.zeros((16, 20)),
        "nan": np.full((16, 16), np.nan),
        "complex": np.zeros((16, 16), dtype=complex),
    }
    places = {name: tmp_path / f"{name}.npy" for name in (*fields, "missing", "text")}
    for name, field in fields.items():
        np.save(places[name], field)
    places["text"].write_text("hello")
    places["poisson"], places["fno"] = models / "poisson-contractive", models / "poisson-fno"
    assert run(["solve", *(argument.format(**places) for argument in arguments)]) == 1
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert all(word in error for word in words), error


@pytest.mark.parametrize("kind", [pytest.param("onnx", marks=pytest.mark.slow), "torch-export"])
def test_export_prints_the_parity(models, tmp_path, capsys, kind):
    command = ["export", str(models / "poisson-contractive"), "--format", kind, "--json"]
    assert run([*command, "--output", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["channels"] for row in rows] == [1, 1]
    assert all(row["difference"] < 1e-5 for row in rows)


def test_list_names_what_there_is(capsys):
    assert run(["list", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert set(known["equations"]) == set(EQUATIONS)
    assert known["recipes"][:2] == ["contractive", "paper"]
