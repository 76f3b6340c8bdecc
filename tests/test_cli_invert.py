"""ens invert: from a table of sensors to fields."""

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
    arguments = ["invert", "poisson", "--sensors", str(table), "--method", "exact"]
    assert run([*arguments, "--samples", "5", "--output", str(output), "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "poisson 64x64 from 60 sensors: 5 samples by exact" in text
    assert "spread of the solution" in text
    with np.load(output) as file:
        assert file["source"].shape == file["solution"].shape == (5, 64, 64)
        np.testing.assert_allclose(file["solution_mean"], file["solution"].mean(0))
        assert (file["solution_quantile_05"] <= file["solution_quantile_95"]).all()
        assert file["x"][-1] == 1.0
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_random_problem_is_compared_with_its_truth(capsys):
    arguments = ["invert", "helmholtz", "--method", "spline", "--count", "80", "--json"]
    assert run([*arguments, "--samples", "1", "--seed", "3"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sensors"] == 80
    assert result["method"] == "spline"
    assert 0.001 < result["error"]["mean"] < 0.5
    assert max(result["mismatch"]) < 1e-8


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0.1,0.2,pressure,1\n" * 5, "field of a sensor: expected one of source, solution"),
        ("0.1,1.2,source,1", "sensor 1: expected a position in the unit square"),
        ("0.1,0.2,source,nan", "sensor 1: expected finite numbers"),
        ("0.1,0.2,source,1\n0.1,0.2,source,2", "sensor 2: expected one value at one place"),
    ],
)
def test_bad_sensors_are_one_line(tmp_path, capsys, lines, message):
    path = tmp_path / "s.csv"
    path.write_text(f"x,y,field,value\n{lines}\n")
    assert run(["invert", "poisson", "--sensors", str(path), "--method", "exact"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_bad_options_are_one_line(capsys):
    for arguments, message in (
        (["--method", "magic"], "--method: expected one of ens"),
        (["--plot", "p.txt"], "--plot: expected a file name ending in .png"),
        (["--output", "s.txt"], "--output: expected a file name ending in .npz"),
        (["--sensors", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--offset", "3"], "--columns: expected the names of your table's columns"),
        (["--columns", "x,y,v", "--unit", "0"], "--unit and --offset: expected a factor but zero"),
    ):
        assert run(["invert", "poisson", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_an_equation_without_an_exact_posterior_says_so(capsys):
    assert run(["invert", "nonlinear-helmholtz", "--method", "exact", "--count", "50"]) == 1
    assert "one with an exact posterior" in capsys.readouterr().err


def test_a_table_in_metres_with_noise_of_its_own(tmp_path, capsys):
    """Heads in metres above a datum on a field of 12 by 12 metres; noise in a fourth column."""
    path, output = tmp_path / "heads.csv", tmp_path / "k.csv"
    rows = ["x_m,y_m,head_mm,error_mm", "3,3,10200,10", "9,3,10300,10", "6,6,10500,20"]
    path.write_text("\n".join(rows) + "\n")
    arguments = [
        "invert",
        "darcy",
        "--sensors",
        str(path),
        "--columns",
        ",".join(rows[0].split(",")),
    ]
    arguments += ["--lengths", "12,12", "--offset", "10000", "--unit", "0.001", "--json"]
    arguments += ["--set", "source=0.7", "--method", "gauss-newton", "--samples", "3"]
    assert run([*arguments, "--resolution", "32", "--output", str(output)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sensors"] == 3
    assert max(result["relative_residual"]) < 1e-10
    table = np.genfromtxt(output, delimiter=",", names=True)
    assert table["x"].max() == 12.0
    assert {"permeability_mean", "permeability_deviation", "probability"} <= set(table.dtype.names)
    # heads come back in millimetres above their datum
    assert table["solution_mean"].min() == 10_000
    assert 10_200 < table["solution_mean"].max() < 11_500
    assert 0 < table["solution_deviation"].max() < 1_000


def test_one_answer_is_called_one_answer(capsys):
    arguments = ["invert", "darcy", "--method", "total-variation", "--noise", "0.01"]
    assert run([*arguments, "--count", "20", "--resolution", "32"]) == 0
    text = capsys.readouterr().out
    assert "one answer, without error bars, by total-variation" in text
    assert "spread" not in text


def test_an_impossible_head_is_named(tmp_path, capsys):
    path = tmp_path / "heads.csv"
    path.write_text("x,y,field,value\n0.5,0.5,solution,0.3\n0.2,0.2,solution,50\n")
    assert run(["invert", "darcy", "--sensors", str(path), "--noise", "0.01"]) == 1
    assert "sensor 2: expected a head between 0 and 2.653" in capsys.readouterr().err


def test_no_sensors_leave_the_prior(tmp_path, capsys):
    path = tmp_path / "none.csv"
    path.write_text("x,y,field,value\n")
    arguments = ["invert", "poisson", "--sensors", str(path), "--samples", "4", "--json"]
    assert run([*arguments, "--resolution", "16"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "exact"
