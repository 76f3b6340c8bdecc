"""ens reconstruct: from a table of sensors to fields."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neuralsolver.cli import run
from neuralsolver.equations import EQUATIONS, Problem, Sensors


@pytest.fixture
def table(tmp_path):
    problem = Problem.random(EQUATIONS["poisson"], 64, seed=7)
    sensors = Sensors.random({"source": problem.inputs[0, 0].numpy()}, 60, seed=7)
    path = tmp_path / "sensors.csv"
    path.write_text(sensors.table())
    return path


def test_a_table_becomes_samples_a_picture_and_words(table, tmp_path, capsys):
    output, picture = tmp_path / "s.npz", tmp_path / "p.png"
    arguments = ["reconstruct", "poisson", "--sensors", str(table), "--method", "exact"]
    assert run([*arguments, "--samples", "5", "--output", str(output), "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "poisson 64x64 from 60 sensors: 5 samples by exact" in text
    assert "spread of the solution" in text
    with np.load(output) as file:
        assert file["inputs"].shape == file["solutions"].shape == (5, 64, 64)
        np.testing.assert_allclose(file["mean"], file["solutions"].mean(0))
        assert (file["quantile_05"] <= file["quantile_95"]).all()
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_random_problem_is_compared_with_its_truth(capsys):
    arguments = ["reconstruct", "helmholtz", "--method", "spline", "--count", "80", "--json"]
    assert run([*arguments, "--samples", "1", "--seed", "3"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sensors"] == 80
    assert result["method"] == "spline"
    assert 0.001 < result["error"]["mean"] < 0.5
    assert max(result["mismatch"]) < 1e-8


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0.1,0.2,source,1", "sensors: expected at least 4, got 1"),
        ("0.1,0.2,pressure,1\n" * 5, "field of a sensor: expected one of source, solution"),
        ("0.1,1.2,source,1", "sensor 1: expected a position in the unit square"),
        ("0.1,0.2,source,nan", "sensor 1: expected finite numbers"),
        ("0.1,0.2,source,1\n0.1,0.2,source,2", "sensor 2: expected one value at one place"),
    ],
)
def test_bad_sensors_are_one_line(tmp_path, capsys, lines, message):
    path = tmp_path / "s.csv"
    path.write_text(f"x,y,field,value\n{lines}\n")
    assert run(["reconstruct", "poisson", "--sensors", str(path), "--method", "exact"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_bad_options_are_one_line(capsys):
    for arguments, message in (
        (["--method", "magic"], "--method: expected one of diffusion-ens"),
        (["--plot", "p.txt"], "--plot: expected a file name ending in .png"),
        (["--output", "s.csv"], "--output: expected a file name ending in .npz"),
        (["--sensors", "nowhere.csv"], "nowhere.csv: No such file"),
    ):
        assert run(["reconstruct", "poisson", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_an_equation_without_an_exact_posterior_says_so(capsys):
    assert run(["reconstruct", "nonlinear-helmholtz", "--method", "exact", "--count", "50"]) == 1
    assert "one with an exact posterior" in capsys.readouterr().err
